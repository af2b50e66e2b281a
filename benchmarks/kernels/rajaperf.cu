// Equivalents of kernels of the RAJA Performance Suite: double precision, 64-bit indices, one element per thread.
// Pointers may alias, so that a load behind a store is not moved above it.

#ifndef BLOCK
#define BLOCK 256
#endif
// Blocks of two dimensions are 32 threads wide, those of the product of matrices TILE threads.
#define WIDTH 32
#define HEIGHT (BLOCK / WIDTH)
#define TILE (BLOCK == 1024 ? 32 : 16)

#define KERNEL __global__ void __launch_bounds__(BLOCK)

typedef long long index_t;

__device__ index_t element()
{
    return blockIdx.x * (size_t)BLOCK + threadIdx.x;
}

__device__ index_t column()
{
    return blockIdx.x * (size_t)WIDTH + threadIdx.x;
}

__device__ index_t row()
{
    return blockIdx.y * (size_t)HEIGHT + threadIdx.y;
}

// Stream and Algorithm
KERNEL copy(double *to, double *from, index_t n)
{
    const index_t i = element();
    if (i < n)
        to[i] = from[i];
}

KERNEL multiply(double *to, double *from, double factor, index_t n)
{
    const index_t i = element();
    if (i < n)
        to[i] = factor * from[i];
}

KERNEL add(double *sum, double *a, double *b, index_t n)
{
    const index_t i = element();
    if (i < n)
        sum[i] = a[i] + b[i];
}

// Basic
KERNEL daxpy(double *y, double *x, double a, index_t n)
{
    const index_t i = element();
    if (i < n)
        y[i] += a * x[i];
}

KERNEL daxpy_atomic(double *y, double *x, double a, index_t n)
{
    const index_t i = element();
    if (i < n)
        atomicAdd(&y[i], a * x[i]);
}

KERNEL init_view(double *a, double step, index_t n)
{
    const index_t i = element();
    if (i < n)
        a[i] = (i + 1) * step;
}

KERNEL init_view_offset(double *a, double step, index_t first, index_t end)
{
    const index_t i = element() + first;
    if (i < end)
        a[i - first] = i * step;
}

KERNEL muladdsub(double *product, double *sum, double *difference, double *a, double *b, index_t n)
{
    const index_t i = element();
    if (i < n) {
        product[i] = a[i] * b[i];
        sum[i] = a[i] + b[i];
        difference[i] = a[i] - b[i];
    }
}

// The sums live in shared memory.
KERNEL mat_mat_shared(index_t n, double *c, double *a, double *b)
{
    __shared__ double tile_a[TILE][TILE], tile_b[TILE][TILE], sums[TILE][TILE];
    const index_t x = threadIdx.x, y = threadIdx.y;
    const index_t j = blockIdx.x * (index_t)TILE + x, i = blockIdx.y * (index_t)TILE + y;

    sums[y][x] = 0.0;
    for (index_t step = 0; step < (n + TILE - 1) / TILE; ++step) {
        const index_t from = step * TILE;
        tile_a[y][x] = i < n && from + x < n ? a[i * n + from + x] : 0.0;
        tile_b[y][x] = j < n && from + y < n ? b[(from + y) * n + j] : 0.0;
        __syncthreads();
        for (index_t k = 0; k < TILE; ++k)
            sums[y][x] += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    if (i < n && j < n)
        c[i * n + j] = sums[y][x];
}

// Lcals
KERNEL eos(double *x, double *y, double *z, double *u, double q, double r, double t, index_t n)
{
    const index_t i = element();
    if (i < n) {
        const double late = u[i + 6] + q * (u[i + 5] + q * u[i + 4]);
        x[i] = u[i] + r * (z[i] + r * y[i]) + t * (u[i + 3] + r * (u[i + 2] + r * u[i + 1]) + t * late);
    }
}

KERNEL hydro_1d(double *x, double *y, double *z, double q, double r, double t, index_t n)
{
    const index_t i = element();
    if (i < n)
        x[i] = q + y[i] * (r * z[i + 10] + t * z[i + 11]);
}

KERNEL tridiag_elim(double *out, double *in, double *y, double *z, index_t n)
{
    const index_t i = element();
    if (i > 0 && i < n)
        out[i] = z[i] * (y[i] - in[i - 1]);
}

__device__ void recur(double *b5, double *stb5, double *sa, double *sb, index_t shift, index_t k)
{
    b5[k + shift] = sa[k] + stb5[k] * sb[k];
    stb5[k] = b5[k + shift] - stb5[k];
}

KERNEL gen_lin_recur_up(double *b5, double *stb5, double *sa, double *sb, index_t shift, index_t n)
{
    const index_t k = element();
    if (k < n)
        recur(b5, stb5, sa, sb, shift, k);
}

KERNEL gen_lin_recur_down(double *b5, double *stb5, double *sa, double *sb, index_t shift, index_t n)
{
    const index_t i = element();
    if (i > 0 && i < n + 1)
        recur(b5, stb5, sa, sb, shift, n - i);
}

// Apps
__constant__ double coefficients[16];

KERNEL fir(double *out, double *in, index_t taps, index_t n)
{
    const index_t i = element();
    if (i < n) {
        double sum = 0.0;
        for (index_t j = 0; j < taps; ++j)
            sum += coefficients[j] * in[i + j];
        out[i] = sum;
    }
}

KERNEL zonal_accumulation_3d(double *volume, double *x0, double *x1, double *x2, double *x3, double *x4, double *x5,
                             double *x6, double *x7, index_t *zones, index_t n)
{
    const index_t ii = element();
    if (ii < n) {
        const index_t i = zones[ii];
        volume[i] = 0.125 * (x0[i] + x1[i] + x2[i] + x3[i] + x4[i] + x5[i] + x6[i] + x7[i]);
    }
}

__device__ double sound_speed(double squared)
{
    return squared <= 0.1111111e-36 ? 0.3333333e-18 : sqrt(squared);
}

__device__ void clamp(double *e, double cut, double least)
{
    if (fabs(*e) < cut)
        *e = 0.0;
    if (*e < least)
        *e = least;
}

KERNEL energy_1(double *e_new, double *e_old, double *delvc, double *p_old, double *q_old, double *work, index_t n)
{
    const index_t i = element();
    if (i < n)
        e_new[i] = e_old[i] - 0.5 * delvc[i] * (p_old[i] + q_old[i]) + 0.5 * work[i];
}

KERNEL energy_2(double *delvc, double *q_new, double *half_step, double *p_half, double *e_new, double *bvc,
                double *pbvc, double *ql_old, double *qq_old, double rho, index_t n)
{
    const index_t i = element();
    if (i < n) {
        if (delvc[i] > 0.0) {
            q_new[i] = 0.0;
        } else {
            const double v = 1.0 / (1.0 + half_step[i]);
            const double speed = sound_speed((pbvc[i] * e_new[i] + v * v * bvc[i] * p_half[i]) / rho);
            q_new[i] = speed * ql_old[i] + qq_old[i];
        }
    }
}

KERNEL energy_3(double *e_new, double *delvc, double *p_old, double *q_old, double *p_half, double *q_new, index_t n)
{
    const index_t i = element();
    if (i < n)
        e_new[i] = e_new[i] + 0.5 * delvc[i] * (3.0 * (p_old[i] + q_old[i]) - 4.0 * (p_half[i] + q_new[i]));
}

KERNEL energy_4(double *e_new, double *work, double cut, double least, index_t n)
{
    const index_t i = element();
    if (i < n) {
        e_new[i] += 0.5 * work[i];
        clamp(&e_new[i], cut, least);
    }
}

KERNEL energy_5(double *delvc, double *pbvc, double *e_new, double *v_new, double *bvc, double *p_new, double *ql_old,
                double *qq_old, double *p_old, double *q_old, double *p_half, double *q_new, double rho, double cut,
                double least, index_t n)
{
    const index_t i = element();
    if (i < n) {
        double q = 0.0;
        if (!(delvc[i] > 0.0)) {
            const double squared = (pbvc[i] * e_new[i] + v_new[i] * v_new[i] * bvc[i] * p_new[i]) / rho;
            q = sound_speed(squared) * ql_old[i] + qq_old[i];
        }
        const double pressures = 7.0 * (p_old[i] + q_old[i]) - 8.0 * (p_half[i] + q_new[i]) + (p_new[i] + q);
        e_new[i] = e_new[i] - pressures * delvc[i] / 6.0;
        clamp(&e_new[i], cut, least);
    }
}

KERNEL energy_6(double *delvc, double *pbvc, double *e_new, double *v_new, double *bvc, double *p_new, double *q_new,
                double *ql_old, double *qq_old, double rho, double cut, index_t n)
{
    const index_t i = element();
    if (i < n && delvc[i] <= 0.0) {
        const double squared = (pbvc[i] * e_new[i] + v_new[i] * v_new[i] * bvc[i] * p_new[i]) / rho;
        q_new[i] = sound_speed(squared) * ql_old[i] + qq_old[i];
        if (fabs(q_new[i]) < cut)
            q_new[i] = 0.0;
    }
}

// Polybench
KERNEL atax_1(double *a, double *x, double *y, double *product, index_t n)
{
    const index_t i = element();
    if (i < n) {
        y[i] = 0.0;
        double sum = 0.0;
        for (index_t j = 0; j < n; ++j)
            sum += a[j + i * n] * x[j];
        product[i] = sum;
    }
}

KERNEL atax_2(double *a, double *product, double *y, index_t n)
{
    const index_t j = element();
    if (j < n) {
        double sum = y[j];
        for (index_t i = 0; i < n; ++i)
            sum += a[j + i * n] * product[i];
        y[j] = sum;
    }
}

KERNEL gemver_1(double *a, double *u1, double *v1, double *u2, double *v2, index_t n)
{
    const index_t i = row(), j = column();
    if (i < n && j < n)
        a[j + i * n] += u1[i] * v1[j] + u2[i] * v2[j];
}

KERNEL gemver_2(double *a, double *x, double *y, double beta, index_t n)
{
    const index_t i = element();
    if (i < n) {
        double sum = 0.0;
        for (index_t j = 0; j < n; ++j)
            sum += beta * a[i + j * n] * y[j];
        x[i] += sum;
    }
}

KERNEL gemver_3(double *x, double *z, index_t n)
{
    const index_t i = element();
    if (i < n)
        x[i] += z[i];
}

KERNEL gemver_4(double *a, double *x, double *w, double alpha, index_t n)
{
    const index_t i = element();
    if (i < n) {
        double sum = w[i];
        for (index_t j = 0; j < n; ++j)
            sum += alpha * a[j + i * n] * x[j];
        w[i] = sum;
    }
}

KERNEL fdtd_2d_1(double *ey, double *fict, index_t ny, index_t t)
{
    const index_t j = element();
    if (j < ny)
        ey[j] = fict[t];
}

KERNEL fdtd_2d_2(double *ey, double *hz, index_t nx, index_t ny)
{
    const index_t i = row(), j = column();
    if (i > 0 && i < nx && j < ny)
        ey[j + i * ny] = ey[j + i * ny] - 0.5 * (hz[j + i * ny] - hz[j + (i - 1) * ny]);
}

KERNEL fdtd_2d_3(double *ex, double *hz, index_t nx, index_t ny)
{
    const index_t i = row(), j = column();
    if (i < nx && j > 0 && j < ny)
        ex[j + i * ny] = ex[j + i * ny] - 0.5 * (hz[j + i * ny] - hz[j - 1 + i * ny]);
}

KERNEL fdtd_2d_4(double *hz, double *ex, double *ey, index_t nx, index_t ny)
{
    const index_t i = row(), j = column();
    if (i < nx - 1 && j < ny - 1) {
        const double curl = ex[j + 1 + i * ny] - ex[j + i * ny] + ey[j + (i + 1) * ny] - ey[j + i * ny];
        hz[j + i * ny] = hz[j + i * ny] - 0.7 * curl;
    }
}

KERNEL floyd_warshall(double *out, double *in, index_t k, index_t n)
{
    const index_t i = row(), j = column();
    if (i < n && j < n) {
        const double direct = in[j + i * n], by_way_of_k = in[k + i * n] + in[j + k * n];
        out[j + i * n] = direct < by_way_of_k ? direct : by_way_of_k;
    }
}

KERNEL jacobi_1d(double *to, double *from, index_t n)
{
    const index_t i = element();
    if (i > 0 && i < n - 1)
        to[i] = 0.33333 * (from[i - 1] + from[i] + from[i + 1]);
}
