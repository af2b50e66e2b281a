// Every thread adds one to the same counter, again and again. The atomic_hotspot of the suite of 16 kernels
// (docs/suite.md): all atomics meet at one address.
__global__ void atomic_hotspot(unsigned *counter, int repeats)
{
    for (int i = 0; i < repeats; ++i)
        atomicAdd(counter, 1u);
}
