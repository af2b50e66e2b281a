// Keeps the GPU busy for a time, so that everything behind it can be queued before it begins. One thread is enough.
// The second bound ends the loop where the global timer stands still: no SM clock reaches 4 GHz.
extern "C" __global__ void delay(unsigned long long nanoseconds)
{
    unsigned long long began, now;
    const long long cycles = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - began < nanoseconds && (unsigned long long)(clock64() - cycles) < 4 * nanoseconds);
}
