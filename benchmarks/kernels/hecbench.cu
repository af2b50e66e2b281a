// Equivalents of kernels of HeCBench that gpuFLOPBench profiled: the same arithmetic on the same data in the same shape.

// babelstream
__global__ void mul_kernel(float *b, const float *c)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    b[i] = 0.4f * c[i];
}

__global__ void add_kernel(const float *a, const float *b, float *c)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    c[i] = a[i] + b[i];
}

__global__ void triad_kernel(float *a, const float *b, const float *c)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    a[i] = b[i] + 0.4f * c[i];
}

__global__ void nstream_kernel(float *a, const float *b, const float *c)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    a[i] += b[i] + 0.4f * c[i];
}

__global__ void dot_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ sums, int n)
{
    __shared__ float held[256];
    const size_t thread = threadIdx.x;
    held[thread] = 0.0f;
    for (int i = blockDim.x * blockIdx.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        held[thread] += a[i] * b[i];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            held[thread] += held[thread + half];
    }
    if (thread == 0)
        sums[blockIdx.x] = held[0];
}

// jacobi: a 16 x 16 tile with its border, and the sum of squared changes
#define SIDE 2048
#define AT(x, y) ((x) + (y) * SIDE)

__global__ void jacobi_step(float *__restrict__ next, const float *__restrict__ now, float *__restrict__ error)
{
    __shared__ float tile[18][18];
    __shared__ float row_errors[16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = tx + blockIdx.x * blockDim.x, y = ty + blockIdx.y * blockDim.y;

    tile[ty + 1][tx + 1] = now[AT(x, y)];
    if (tx == 0 && x >= 1)
        tile[ty + 1][tx] = now[AT(x - 1, y)];
    if (tx == 15 && x <= SIDE - 2)
        tile[ty + 1][tx + 2] = now[AT(x + 1, y)];
    if (ty == 0 && y >= 1)
        tile[ty][tx + 1] = now[AT(x, y - 1)];
    if (ty == 15 && y <= SIDE - 2)
        tile[ty + 2][tx + 1] = now[AT(x, y + 1)];
    __syncthreads();

    float change = 0.0f;
    if (y >= 1 && y <= SIDE - 2 && x >= 1 && x <= SIDE - 2) {
        next[AT(x, y)] = 0.25f * (tile[ty + 1][tx + 2] + tile[ty + 1][tx] + tile[ty + 2][tx + 1] + tile[ty][tx + 1]);
        const float difference = next[AT(x, y)] - tile[ty + 1][tx + 1];
        change = difference * difference;
    }
    for (int distance = 8; distance > 0; distance /= 2)
        change += __shfl_down_sync(0xffffffff, change, distance);
    if (tx == 0)
        row_errors[ty] = change;
    __syncthreads();
    if (ty == 0) {
        change = row_errors[tx];
        for (int distance = 8; distance > 0; distance /= 2)
            change += __shfl_down_sync(0xffffffff, change, distance);
        if (tx == 0)
            atomicAdd(error, change);
    }
}

// heat2d: five points on a torus, indices by remainders
__global__ void dev_lapl_iter(float *out, const float *in, const float delta, const float norm, const int nx,
                              const int ny)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = i % nx, y = i / nx;
    const int here = y * nx + x, right = y * nx + (x + 1) % nx, left = y * nx + (nx + x - 1) % nx;
    const int up = ((y + 1) % ny) * nx + x, down = ((ny + y - 1) % ny) * nx + x;
    out[here] = norm * in[here] + delta * (in[right] + in[left] + in[up] + in[down]);
}

// laplace3d: a 32 x 8 column of points marches through z with three planes in shared memory
#define COLUMN_X 32
#define COLUMN_Y 8
#define ROW (COLUMN_X + 2)
#define PLANE (ROW * (COLUMN_Y + 2))

__global__ void laplace3d(int nx, int ny, int nz, int pitch, const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float planes[3 * PLANE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int thread = tx + ty * COLUMN_X;
    int border_at = 0, border_from = 0;
    bool border = thread < 2 * (COLUMN_X + COLUMN_Y + 2);
    if (border) {
        const int bx = ty < 2 ? tx : (thread % 2) * (COLUMN_X + 1) - 1;
        const int by = ty < 2 ? ty * (COLUMN_Y + 1) - 1 : thread / 2 - COLUMN_X - 1;
        border_at = (bx + 1) + (by + 1) * ROW + PLANE;
        const int gx = bx + blockIdx.x * COLUMN_X, gy = by + blockIdx.y * COLUMN_Y;
        border_from = gx + gy * pitch;
        border = gx >= 0 && gx < nx && gy >= 0 && gy < ny;
    }
    const int at = (tx + 1) + (ty + 1) * ROW + PLANE;
    const int x = tx + blockIdx.x * COLUMN_X, y = ty + blockIdx.y * COLUMN_Y;
    const bool inside = x < nx && y < ny;
    int from = x + y * pitch;

    if (inside)
        planes[at + PLANE] = in[from];
    if (border)
        planes[border_at + PLANE] = in[border_from];
    for (int z = 0; z < nz; z++) {
        const int to = from;
        if (inside) {
            from += ny * pitch;
            planes[at - PLANE] = planes[at];
            planes[at] = planes[at + PLANE];
            if (z < nz - 1)
                planes[at + PLANE] = in[from];
        }
        if (border) {
            border_from += ny * pitch;
            planes[border_at - PLANE] = planes[border_at];
            planes[border_at] = planes[border_at + PLANE];
            if (z < nz - 1)
                planes[border_at + PLANE] = in[border_from];
        }
        __syncthreads();
        if (inside) {
            float value;
            if (x == 0 || x == nx - 1 || y == 0 || y == ny - 1 || z == 0 || z == nz - 1)
                value = planes[at];
            else
                value = (planes[at - 1] + planes[at + 1] + planes[at - ROW] + planes[at + ROW] + planes[at - PLANE]
                         + planes[at + PLANE]) * (1.0f / 6.0f);
            out[to] = value;
        }
        __syncthreads();
    }
}

// cross: products of rows of three, loaded before (2, 3) or between (1) the stores, with strides as parameters (1, 2)
__global__ void cross_kernel(int rows, float *out, const float *a, const float *b, long long out_stride,
                             long long a_stride, long long b_stride)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += blockDim.x * gridDim.x) {
        float *to = out + 3 * i;
        const float *x = a + 3 * i, *y = b + 3 * i;
        const float first = x[1 * a_stride] * y[2 * b_stride] - x[2 * a_stride] * y[1 * b_stride];
        const float second = x[2 * a_stride] * y[0 * b_stride] - x[0 * a_stride] * y[2 * b_stride];
        const float third = x[0 * a_stride] * y[1 * b_stride] - x[1 * a_stride] * y[0 * b_stride];
        to[0 * out_stride] = first;
        to[1 * out_stride] = second;
        to[2 * out_stride] = third;
    }
}

__global__ void cross3_kernel(int rows, float *out, const float *a, const float *b)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += blockDim.x * gridDim.x) {
        float *to = out + 3 * i;
        const float *x = a + 3 * i, *y = b + 3 * i;
        const float x0 = x[0], x1 = x[1], x2 = x[2], y0 = y[0], y1 = y[1], y2 = y[2];
        const float first = x1 * y2 - x2 * y1, second = x2 * y0 - x0 * y2, third = x0 * y1 - x1 * y0;
        to[0] = first;
        to[1] = second;
        to[2] = third;
    }
}

// rodrigues: rotation of points about an axis
__device__ float3 rotated(float x, float y, float z, float angle, const float3 w)
{
    float s, c;
    sincosf(angle, &s, &c);
    const float rest = 1.0f - c;
    const float xx = c + w.x * w.x * rest, xy = w.z * s + w.x * w.y * rest, xz = -w.y * s + w.x * w.z * rest;
    const float yx = -w.z * s + w.x * w.y * rest, yy = c + w.y * w.y * rest, yz = w.x * s + w.y * w.z * rest;
    const float zx = w.y * s + w.x * w.z * rest, zy = -w.x * s + w.y * w.z * rest, zz = c + w.z * w.z * rest;
    return make_float3(x * xx + y * xy + z * xz, x * yx + y * yy + z * yz, x * zx + y * zy + z * zz);
}

__global__ void rotate(const int n, const float angle, const float3 w, float3 *points)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float3 p = points[i];
    points[i] = rotated(p.x, p.y, p.z, angle, w);
}

__global__ void rotate2(const int n, const float angle, const float3 w, float4 *points)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float4 p = points[i];
    const float3 q = rotated(p.x, p.y, p.z, angle, w);
    points[i] = make_float4(q.x, q.y, q.z, 0.0f);
}

// langevin: coth(x) - 1/x by a polynomial in x squared; the counts do not depend on the coefficients
__global__ void k2(const float *__restrict__ a, float *__restrict__ o)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = a[i];
    const float s = x * x;
    float r = 7.0e-8f;
    r = fmaf(r, s, -1.6e-6f);
    r = fmaf(r, s, 2.0e-5f);
    r = fmaf(r, s, -2.1e-4f);
    r = fmaf(r, s, 2.1e-3f);
    r = fmaf(r, s, -2.2e-2f);
    r = fmaf(r, s, 8.3e-2f);
    o[i] = fmaf(r, x, 0.25f * x);
}

// swish
__global__ void SwishKernel(const int n, const float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = __ldg(x + i) / (1.0f + expf(-__ldg(x + i)));
}

__global__ void SwishGradientKernel(const int n, const float *x, const float *y, const float *dy, float *dx)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        dx[i] = __ldg(dy + i) * (__ldg(y + i) + (1.0f - __ldg(y + i)) / (1.0f + expf(-__ldg(x + i))));
}

// minkowski: m x n by n x k
__global__ void minkowski(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                          const float p, const float inverse)
{
    const int m = 512, n = 1024, k = 2048;
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < k && row < m) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++)
            sum += powf(fabsf(a[row * n + i] - b[i * k + column]), p);
        c[row * k + column] = powf(sum, inverse);
    }
}

// su3: one thread per element of four 3 x 3 complex products per site
struct Complex { float re, im; };
struct Matrix { Complex e[3][3]; };
struct Site { Matrix link[4]; int x, y, z, t, index; char parity; int pad[2]; } __attribute__((aligned));

__global__ void k_mat_nn(const Site *__restrict__ a, const Matrix *__restrict__ b, Site *__restrict__ c, int sites)
{
    const int id = blockDim.x * blockIdx.x + threadIdx.x;
    const int site = id / 36;
    if (site < sites) {
        const int link = (id % 36) / 9, row = (id % 9) / 3, column = id % 3;
        Complex sum = {0.0f, 0.0f};
        for (int m = 0; m < 3; m++) {
            const Complex x = a[site].link[link].e[row][m], y = b[link].e[m][column];
            sum.re += x.re * y.re - x.im * y.im;
            sum.im += x.re * y.im + x.im * y.re;
        }
        c[site].link[link].e[row][column] = sum;
    }
}

// knn: squared distances of all pairs of points, tiles of 16 x 16 along the dimensions
__global__ void cuComputeDistanceGlobal(const float *__restrict__ a, int wa, const float *__restrict__ b, int wb,
                                        int dim, float *__restrict__ ab)
{
    __shared__ float tile_a[16][16], tile_b[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int begin_a = 16 * blockIdx.y, begin_b = 16 * blockIdx.x, end_a = begin_a + (dim - 1) * wa;
    const bool reads_a = begin_a + tx < wa, reads_b = begin_b + tx < wb, writes = begin_a + ty < wa;
    float sum = 0.0f;
    for (int at_a = begin_a, at_b = begin_b; at_a <= end_a; at_a += 16 * wa, at_b += 16 * wb) {
        if (at_a / wa + ty < dim) {
            tile_a[ty][tx] = reads_a ? a[at_a + wa * ty + tx] : 0;
            tile_b[ty][tx] = reads_b ? b[at_b + wb * ty + tx] : 0;
        } else {
            tile_a[ty][tx] = 0;
            tile_b[ty][tx] = 0;
        }
        __syncthreads();
        if (writes && reads_b)
            for (int k = 0; k < 16; ++k) {
                const float difference = tile_a[k][ty] - tile_b[k][tx];
                sum += difference * difference;
            }
        __syncthreads();
    }
    if (writes && reads_b)
        ab[(begin_a + ty) * wb + begin_b + tx] = sum;
}

// softmax: one warp per slice
__device__ float largest_of_warp(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value = max(value, __shfl_xor_sync(0xffffffff, value, distance));
    return value;
}

__device__ float sum_of_warp(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

__global__ void softMax2(const int slices, const int length, const float *in, float *out)
{
    const int lane = threadIdx.x % 32;
    const int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= slices)
        return;
    float largest = in[i * length];
    for (int j = lane; j < length; j += 32)
        largest = max(largest, in[i * length + j]);
    largest = largest_of_warp(largest);
    float sum = 0.0f;
    for (int j = lane; j < length; j += 32)
        sum += expf(in[i * length + j] - largest);
    sum = sum_of_warp(sum);
    for (int j = lane; j < length; j += 32)
        out[i * length + j] = expf(in[i * length + j] - largest) / sum;
}

// backprop: weights of a layer of 16
__global__ void kernel_adjust_weights(const float *__restrict__ layer, float *__restrict__ weights,
                                      const float *__restrict__ delta, float *__restrict__ old)
{
    const int hidden = 16, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    const int index = (hidden + 1) * 16 * by + (hidden + 1) * ty + tx + 1 + (hidden + 1);
    const int y = 16 * by + ty + 1, x = tx + 1;
    weights[index] += 0.3f * delta[x] * layer[y] + 0.3f * old[index];
    old[index] = 0.3f * delta[x] * layer[y] + 0.3f * old[index];
    __syncthreads();
    if (ty == 0 && by == 0) {
        weights[x] += 0.3f * delta[x] + 0.3f * old[x];
        old[x] = 0.3f * delta[x] + 0.3f * old[x];
    }
}

// lsqt: one state added to another, real and imaginary parts apart
__global__ void gpu_add_state(const int n, const double *__restrict__ in_re, const double *__restrict__ in_im,
                              double *__restrict__ out_re, double *__restrict__ out_im)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out_re[i] += in_re[i];
        out_im[i] += in_im[i];
    }
}
