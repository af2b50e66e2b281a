// Two kernels of k-means clustering: store the points feature by feature, and find the nearest centre of each point.
// Equivalent of Rodinia's kmeans. The first reads with a stride of one point, the second is coalesced and reads all
// features again for each centre. The benchmark's texture and constant memory are read-only global memory here.
#include <cfloat>

__global__ void kmeans_transpose(const float *points, float *features, int count, int dimensions)
{
    const int point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point < count)
        for (int i = 0; i < dimensions; ++i)
            features[i * count + point] = points[point * dimensions + i];
}

__global__ void kmeans_nearest(const float *__restrict__ features, const float *__restrict__ centres, int *membership,
                               int count, int dimensions, int clusters)
{
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const int point = block * blockDim.x + threadIdx.x;
    if (point >= count)
        return;

    int nearest = -1;
    float least = FLT_MAX;
    for (int cluster = 0; cluster < clusters; ++cluster) {
        float distance = 0.0f;
        for (int i = 0; i < dimensions; ++i) {
            const float difference = features[i * count + point] - centres[cluster * dimensions + i];
            distance += difference * difference;
        }
        if (distance < least) {
            least = distance;
            nearest = cluster;
        }
    }
    membership[point] = nearest;
}
