// The SM clock under load in hertz: cycles over nanoseconds of the global timer while all SMs multiply and add.
//
// The multiply-adds are those of rates.cu, and for the same reasons stay. Limited by power and temperature; in a few
// milliseconds only by what the GPU had done before. The global timer may advance in steps of a microsecond or more,
// which is why the kernel does not run for less.

#define CHAINS 8
#define UNROLL 32

extern "C" __global__ void clock_under_fma(float *out, double *hertz, float c, int rounds) {
    float x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = static_cast<float>(threadIdx.x * CHAINS + k) * 0x1p-14f;
    long long began_cycles, ended_cycles, began_ns, ended_ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began_ns) :: "memory");
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(began_cycles) :: "memory");
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int k = 0; k < CHAINS; ++k) asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(x[k]) : "f"(c));
        }
    }
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended_ns) :: "memory");
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(ended_cycles) :: "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    if (threadIdx.x == 0) {
        hertz[blockIdx.x] = static_cast<double>(ended_cycles - began_cycles) * 1e9
                            / static_cast<double>(ended_ns - began_ns);
    }
}
