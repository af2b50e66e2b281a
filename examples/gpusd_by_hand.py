"""The counts of the gpuSD report, made by hand, beside those of executing the kernel, and why they differ."""

from pathlib import Path

import kerncast
from kerncast.profiles.counts import DRAM_BYTES_ONCE, FP32_FLOPS, GLOBAL_BYTES_REQUESTED, SPECIAL_OPS

LAUNCH = Path(__file__).parent / "kernels" / "gpusd.toml"

#: The report's counts for 25 blocks: section 2 and section 3.
FLOPS_BY_HAND = 25 * (100 * 8 + 30 + 6)
BYTES_BY_HAND = 25 * (100 * 8 + 12 + 8)


def main() -> None:
    """Print both counts and the differences."""
    profile = kerncast.profile(LAUNCH, gpu="TITAN V").profile
    counts = profile.counts
    blocks = profile.grid[0] * profile.grid[1]
    print("gpuSD, per launch                     by hand   executed")
    print(f"floating-point operations           {FLOPS_BY_HAND:9d}  {counts[FP32_FLOPS].value:9.0f}")
    print(f"special functions and divisions             –  {counts[SPECIAL_OPS].value:9.0f}")
    print(f"bytes that threads ask for          {BYTES_BY_HAND:9d}  {counts[GLOBAL_BYTES_REQUESTED].value:9.0f}")
    print(f"bytes to and from DRAM, each once           –  {counts[DRAM_BYTES_ONCE].value:9.0f}")
    print()
    executed = counts[FP32_FLOPS].value / blocks
    print(
        f"FLOP: per block {FLOPS_BY_HAND // blocks} by hand, {executed:.0f} executed. The report counts 8 per element:"
    )
    print("  2 subtractions, 2 multiplications, 2 additions and 2 for the isnan tests, which are comparisons and no")
    print("  floating-point operations. Its 6 for the final square roots are 2 divisions and 2 roots, which run on the")
    print("  special-function units, and n - 1.")
    print("Bytes: what the threads ask for is the report's number exactly. DRAM sees less: each vector is read by 5")
    print("  blocks and comes from DRAM once, in sectors of 32 bytes.")


if __name__ == "__main__":
    main()
