// Cooperative groups inside a block, and their collectives.

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int* x, int* y)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    auto small = cg::tiled_partition<4>(tile);
    cg::thread_group old = cg::tiled_partition(block, 8);
    int v = x[block.thread_rank()];
    y[block.thread_rank()] = tile.shfl(v, 3) + tile.shfl_xor(v, 1) + tile.shfl_up(v, 1) + small.shfl_down(v, 1)
        + tile.any(v > 3) + tile.all(v > 3) + tile.ballot(v & 1) + tile.meta_group_rank() + (int)old.size() + old.thread_rank();
    old.sync(), small.sync(), tile.sync(), block.sync();
#if __CUDA_ARCH__ >= 700
    int same;
    y[block.thread_rank()] += tile.match_any(v & 3) + tile.match_all(v, same) + same;
#endif
}

extern "C" __global__ void collectives(const int* x, int* y, const float* f, float* g)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = cg::this_thread_block().thread_rank();
    y[i] = cg::reduce(tile, x[i], cg::plus<int>()) + cg::reduce(tile, x[i], cg::greater<int>())
        + cg::reduce(tile, x[i], cg::less<int>()) + cg::reduce(tile, x[i], cg::bit_xor<int>());
    y[i] += cg::inclusive_scan(tile, x[i]) + cg::exclusive_scan(tile, x[i], cg::plus<int>());
    g[i] = cg::reduce(tile, f[i], cg::plus<float>()) + cg::inclusive_scan(tile, f[i], cg::greater<float>());
    if (x[i] & 1) {
        cg::coalesced_group here = cg::coalesced_threads();
        y[i] += here.size() + here.thread_rank() + cg::reduce(here, x[i], cg::plus<int>()) + here.shfl(x[i], 0);
        g[i] += cg::reduce(here, f[i], cg::less<float>());
    }
#if __CUDA_ARCH__ >= 700
    auto label = cg::labeled_partition(tile, x[i] & 3);
    auto binary = cg::binary_partition(tile, x[i] > 2);
    y[i] += label.size() + binary.thread_rank() + cg::reduce(label, 1, cg::plus<int>());
    auto leader = cg::invoke_one_broadcast(cg::coalesced_threads(), [&] { return x[i]; });
    y[i] += leader;
#endif
}

extern "C" __global__ void copies(const int* x, int* y)
{
    __shared__ int here[64];
    auto block = cg::this_thread_block();
#if __CUDA_ARCH__ < 800
    cg::memcpy_async(block, here, x, sizeof here);
    cg::wait(block);
#endif
    y[block.thread_rank()] = here[63 - block.thread_rank()];
}
