// The k nearest of the reference points for each query: all squared distances, a selection per query, the root.
// Equivalent of the brute-force search by Garcia and others that UVMBench contains as KNN. Points are stored dimension
// by dimension. The distances are tiled like a matrix product; the selection is an insertion sort in global memory,
// one query per thread, with data-dependent trip counts.
#define TILE 16

__global__ void knn_distances(const float *references, int reference_count, const float *queries, int query_count,
                              int dimensions, float *distances)
{
    __shared__ float reference[TILE][TILE], query[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int first_reference = blockIdx.y * TILE, first_query = blockIdx.x * TILE;
    const bool works = first_reference + ty < reference_count && first_query + tx < query_count;

    float sum = 0.0f;
    for (int start = 0; start < dimensions; start += TILE) {
        const int dimension = start + ty;
        const bool exists = dimension < dimensions;
        reference[ty][tx] = exists && first_reference + tx < reference_count
                                ? references[dimension * reference_count + first_reference + tx] : 0.0f;
        query[ty][tx] = exists && first_query + tx < query_count
                            ? queries[dimension * query_count + first_query + tx] : 0.0f;
        __syncthreads();
        if (works) {
            for (int i = 0; i < TILE; ++i) {
                const float difference = reference[i][ty] - query[i][tx];
                sum += difference * difference;
            }
        }
        __syncthreads();
    }
    if (works)
        distances[(first_reference + ty) * query_count + first_query + tx] = sum;
}

// Sort the k least distances of each column into its first k rows.
__global__ void knn_select(float *distances, int query_count, int reference_count, int k)
{
    const int query = blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= query_count)
        return;

    float *column = distances + query;
    float largest = column[0];
    for (int candidate = 1; candidate < reference_count; ++candidate) {
        const float distance = column[candidate * query_count];
        const int last = min(candidate, k - 1); // row that the insertion fills or gives up
        if (distance < largest) {
            int place = 0;
            while (place < last && column[place * query_count] <= distance)
                ++place;
            for (int row = last; row > place; --row)
                column[row * query_count] = column[(row - 1) * query_count];
            column[place * query_count] = distance;
            largest = column[last * query_count];
        } else if (candidate < k) {
            largest = distance;
        }
    }
}

__global__ void knn_sqrt(float *distances, int query_count, int k)
{
    const int query = blockIdx.x * blockDim.x + threadIdx.x;
    if (query < query_count)
        distances[(k - 1) * query_count + query] = sqrt(distances[(k - 1) * query_count + query]);
}
