// Tracks points of a moving wall through one frame of a film: each block finds where its point's template fits best.
// Equivalent of the tracking kernel of Rodinia's heartwall, with fewer intermediate copies: normalised correlation of
// template and search window, kept near the last place, then the maximum. One block per point leaves most SMs empty;
// 24 barriers part phases that use all threads, one per row, or a single one. Images are column-major.
#define MOST_TEMPLATE 51
#define MOST_CORRELATION 131

struct Sizes {
    int half; // of the template and of the search window around its point
    int search;

    __device__ int side() const { return 2 * half + 1; }
    __device__ int window() const { return 2 * search + 1; }
    __device__ int correlation() const { return window() + side() - 1; }
    __device__ int padded() const { return window() + 2 * side(); }
    __device__ int centre() const { return search + half; } // place in the correlation where nothing has moved
};

__device__ void copy_window(const float *frame, int frame_rows, int row, int column, float *window, Sizes sizes)
{
    const int n = sizes.window();
    for (int i = threadIdx.x; i < n * n; i += blockDim.x)
        window[i] = frame[(column - sizes.search + i / n) * frame_rows + row - sizes.search + i % n];
}

__device__ void rotate_template(const float *pattern, float *rotated, int side)
{
    for (int i = threadIdx.x; i < side * side; i += blockDim.x)
        rotated[i] = pattern[(side - 1 - i / side) * side + side - 1 - i % side];
}

// The full convolution, whose loops are shorter near the edges.
__device__ void convolve(const float *rotated, const float *window, float *result, Sizes sizes)
{
    const int side = sizes.side(), n = sizes.window(), length = sizes.correlation();
    for (int i = threadIdx.x; i < length * length; i += blockDim.x) {
        const int row = i % length, column = i / length;
        float sum = 0.0f;
        for (int a = max(0, column - n + 1); a <= min(side - 1, column); ++a)
            for (int b = max(0, row - n + 1); b <= min(side - 1, row); ++b)
                sum += rotated[a * side + b] * window[(column - a) * n + row - b];
        result[i] = sum;
    }
}

// The window's sum under each place of the template, from running sums down the columns and along the rows.
__device__ void sum_under_template(const float *window, float *padded, float *strips, float *sums, Sizes sizes)
{
    const int side = sizes.side(), n = sizes.window(), length = sizes.correlation(), wide = sizes.padded();
    for (int i = threadIdx.x; i < wide * wide; i += blockDim.x) {
        const int row = i % wide - side, column = i / wide - side;
        const bool inside = row >= 0 && row < n && column >= 0 && column < n;
        padded[i] = inside ? window[column * n + row] : 0.0f;
    }
    __syncthreads();
    for (int column = threadIdx.x; column < wide; column += blockDim.x) {
        float sum = 0.0f;
        for (int i = column * wide; i < (column + 1) * wide; ++i) {
            sum += padded[i];
            padded[i] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < length * wide; i += blockDim.x) {
        const int place = i / length * wide + i % length;
        strips[i] = padded[place + side] - padded[place];
    }
    __syncthreads();
    for (int row = threadIdx.x; row < length; row += blockDim.x) {
        float sum = 0.0f;
        for (int i = row; i < length * wide; i += length) {
            sum += strips[i];
            strips[i] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < length * length; i += blockDim.x)
        sums[i] = strips[i + side * length] - strips[i];
    __syncthreads();
}

// Leaves the template's sum in totals[0] and the square root of its squared deviations in totals[1].
__device__ void measure_template(const float *pattern, float (*partial)[MOST_TEMPLATE], float *totals, int side)
{
    const int tx = threadIdx.x, count = side * side;
    for (int line = tx; line < side; line += blockDim.x) {
        float sum = 0.0f, squares = 0.0f;
        for (int i = 0; i < side; ++i) {
            sum += pattern[line * side + i];
            squares += pattern[i * side + line] * pattern[i * side + line];
        }
        partial[0][line] = sum;
        partial[1][line] = squares;
    }
    __syncthreads();
    if (tx < 2) {
        totals[tx] = 0.0f;
        for (int i = 0; i < side; ++i)
            totals[tx] += partial[tx][i];
    }
    __syncthreads();
    if (tx == 0) {
        const float mean = totals[0] / count;
        totals[1] = sqrtf(count - 1.0f) * sqrtf(totals[1] / count - mean * mean);
    }
    __syncthreads();
}

// Keeps the correlation within a square of `reach` places around the last one, by a convolution with a single 1.
__device__ void mask_correlation(float *correlation, float *mask, int row, int column, int reach, int length)
{
    const int place = column * length + row;
    for (int i = threadIdx.x; i < length * length; i += blockDim.x)
        mask[i] = i == place ? 1.0f : 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < length * length; i += blockDim.x) {
        const int lower = i % length + reach / 2, right = i / length + reach / 2;
        float hits = 0.0f;
        for (int a = max(0, right - length + 1); a <= min(reach - 1, right); ++a)
            for (int b = max(0, lower - length + 1); b <= min(reach - 1, lower); ++b)
                hits += mask[(right - a) * length + lower - b];
        correlation[i] *= hits;
    }
    __syncthreads();
}

// Leaves the place of the largest magnitude in place[0].
__device__ void find_largest(const float *correlation, float *largest, int *place, int length)
{
    for (int line = threadIdx.x; line < length; line += blockDim.x) {
        largest[line] = 0.0f;
        place[line] = 0;
        for (int i = line * length; i < (line + 1) * length; ++i) {
            const float value = fabsf(correlation[i]);
            if (value > largest[line]) {
                largest[line] = value;
                place[line] = i;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int line = 1; line < length; ++line) {
            if (largest[line] > largest[0]) {
                largest[0] = largest[line];
                place[0] = place[line];
            }
        }
    }
    __syncthreads();
}

__device__ void blend_template(const float *frame, int frame_rows, int row, int column, float *pattern, int half)
{
    constexpr float keep = 0.87f;
    const int side = 2 * half + 1;
    for (int i = threadIdx.x; i < side * side; i += blockDim.x) {
        const float seen = frame[(column - half + i / side) * frame_rows + row - half + i % side];
        pattern[i] = keep * pattern[i] + (1.0f - keep) * seen;
    }
}

// down and right are how far a point has moved since the first frame; they and the templates are updated.
__global__ void heartwall_track(const float *frame, int frame_rows, const int *rows, const int *columns, int *down,
                                int *right, float *templates, float *windows, float *correlations, float *padded,
                                float *strips, float *sums, float *squares, float *masks, int half, int search,
                                int reach, int blend)
{
    __shared__ float rotated[MOST_TEMPLATE * MOST_TEMPLATE], partial[2][MOST_TEMPLATE], totals[2];
    __shared__ float largest[MOST_CORRELATION];
    __shared__ int place[MOST_CORRELATION];
    const Sizes sizes = {half, search};
    const int point = blockIdx.x, row = rows[point], column = columns[point];
    const int side = sizes.side(), n = sizes.window(), length = sizes.correlation(), wide = sizes.padded();
    const int places = length * length, count = side * side;
    float *pattern = templates + point * count, *window = windows + point * n * n;
    float *correlation = correlations + point * places, *sum = sums + point * places;
    float *square = squares + point * places;
    padded += point * wide * wide;
    strips += point * length * wide;

    copy_window(frame, frame_rows, row, column, window, sizes);
    __syncthreads();
    rotate_template(pattern, rotated, side);
    __syncthreads();
    convolve(rotated, window, correlation, sizes);
    __syncthreads();

    sum_under_template(window, padded, strips, sum, sizes);
    for (int i = threadIdx.x; i < n * n; i += blockDim.x)
        window[i] *= window[i];
    __syncthreads();
    sum_under_template(window, padded, strips, square, sizes);
    measure_template(pattern, partial, totals, side);

    for (int i = threadIdx.x; i < places; i += blockDim.x) {
        const float deviations = square[i] - sum[i] * sum[i] / count;
        square[i] = sqrtf(fmaxf(deviations, 0.0f)) * totals[1];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < places; i += blockDim.x)
        correlation[i] = (correlation[i] - sum[i] * totals[0] / count) / square[i];
    __syncthreads();

    const int centre = sizes.centre();
    mask_correlation(correlation, masks + point * places, centre + down[point], centre + right[point], reach, length);
    find_largest(correlation, largest, place, length);
    if (threadIdx.x == 0) {
        down[point] = place[0] % length - centre;
        right[point] = place[0] / length - centre;
    }
    __syncthreads();
    if (blend)
        blend_template(frame, frame_rows, row + down[point], column + right[point], pattern, half);
}
