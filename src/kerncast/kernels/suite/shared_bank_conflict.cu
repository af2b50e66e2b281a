// Every thread sums all words of a table in shared memory; neighbours start `stride` words apart. The
// shared_bank_conflict of the suite of 16 kernels (docs/suite.md): a stride of 32 words puts all lanes of a warp on one
// bank, 1 on 32 banks; with 0 they read one word, which is a broadcast. Blocks have at most WORDS threads.
constexpr int WORDS = 1024;
constexpr int STEP = 33;

__global__ void shared_bank_conflict(float *sums, int stride)
{
    __shared__ float table[WORDS];
    for (int word = threadIdx.x; word < WORDS; word += blockDim.x)
        table[word] = word;
    __syncthreads();

    float sum = 0.0f;
    for (int i = 0; i < WORDS; ++i)
        sum += table[(threadIdx.x * stride + i * STEP) % WORDS];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
