// cuda::atomic and cuda::atomic_ref with every memory order and scope, from libcu++.

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/complex>

template <class A> __device__ auto use(A& a, int v)
{
    using T = decltype(a.load());
    T t = T(v), expected = T(0);
    a.store(t, cuda::std::memory_order_relaxed), a.store(t, cuda::std::memory_order_release), a.store(t);
    T sum = a.load(cuda::std::memory_order_relaxed) + a.load(cuda::std::memory_order_acquire) + a.load();
    sum += a.fetch_add(t, cuda::std::memory_order_relaxed) + a.fetch_sub(t, cuda::std::memory_order_acquire) + a.fetch_add(t);
    sum += a.exchange(t, cuda::std::memory_order_acq_rel);
    a.compare_exchange_strong(expected, t, cuda::std::memory_order_acq_rel, cuda::std::memory_order_relaxed);
    a.compare_exchange_weak(expected, t);
    return sum + expected;
}

template <class T> __device__ void everywhere(T* p, int v)
{
    cuda::atomic_ref<T, cuda::thread_scope_system> a(p[0]);
    cuda::atomic_ref<T, cuda::thread_scope_device> b(p[1]);
    cuda::atomic_ref<T, cuda::thread_scope_block> c(p[2]);
    cuda::atomic_ref<T, cuda::thread_scope_thread> d(p[3]);
    p[4 + threadIdx.x] = use(a, v) + use(b, v) + use(c, v) + use(d, v);
}

template <class T> __device__ void bits(T* p, int v)
{
    cuda::atomic_ref<T> a(p[0]);
    p[1 + threadIdx.x] = a.fetch_and(v) + a.fetch_or(v) + a.fetch_xor(v) + a.fetch_min(v) + a.fetch_max(v);
}

extern "C" __global__ void references(int* i, unsigned* u, long long* l, float* f, double* d, short* s, unsigned char* c)
{
    int v = threadIdx.x;
    everywhere(i, v), everywhere(u, v), everywhere(l, v), everywhere(f, v), everywhere(d, v), everywhere(s, v);
    everywhere(c, v), bits(i, v), bits(u, v), bits(l, v), bits(s, v), bits(c, v);
}

extern "C" __global__ void objects(int* y, bool* flags)
{
    __shared__ cuda::atomic<int, cuda::thread_scope_block> here;
    if (threadIdx.x == 0) here = 0;
    __syncthreads();
    here++;
    here.fetch_max(threadIdx.x);
    cuda::atomic_ref<bool> flag(flags[0]);
    flag.store(true);
    cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_device);
    cuda::atomic_thread_fence(cuda::std::memory_order_acquire, cuda::thread_scope_block);
    cuda::atomic_thread_fence(cuda::std::memory_order_acq_rel, cuda::thread_scope_system);
    cuda::std::complex<float> z(1.0f, threadIdx.x);
    z = z * z / cuda::std::complex<float>(2.0f, 1.0f);
    y[threadIdx.x] = here.load() + flag.load() + (int)z.real();
}
