"""What a reader of the counts should know: remarks that both engines make."""

from kerncast.ptx.module import Instruction

PRINTF = "the kernel calls printf: what that costs is left out"


def absent_lanes(ins: Instruction) -> str:
    """Return the remark on a warp-wide instruction whose member mask names lanes that are elsewhere."""
    return (
        f"{ins.where or ins.name}: a warp-wide instruction names threads that have gone another way, which CUDA leaves"
        " undefined; they are left out"
    )
