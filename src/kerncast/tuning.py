"""Which launch a tuner's configuration is of: its parameters are what the source was compiled with.

Kernel Tuner and KTT define each parameter as a macro; ``block_size_x``, ``_y`` and ``_z`` are Kernel Tuner's names for
the sizes of the block. Fails when: a parameter acts by something else than a macro, such as a compiler option.
"""

from kerncast.launch import Launch

#: Kernel Tuner's default names.
BLOCK_PARAMETERS = ("block_size_x", "block_size_y", "block_size_z")

Settings = tuple[tuple[str, str], ...]
"""tuning parameters with their values as texts"""


def is_tuned_so(launch: Launch, settings: Settings) -> bool:
    """Return whether a launch has each of these parameters, among its defines or as a size of its block.

    >>> from pathlib import Path
    >>> launch = Launch(Path("k.cu"), "k", (8, 1, 1), (64, 1, 1), defines=(("TILE", "4"),))
    >>> [is_tuned_so(launch, (("block_size_x", x), ("TILE", t))) for x, t in (("64", "4"), ("32", "4"), ("64", "8"))]
    [True, False, False]
    >>> is_tuned_so(launch, (("TILE", "4"), ("unroll", "2")))
    False
    """
    sizes = dict(zip(BLOCK_PARAMETERS, map(str, launch.block), strict=True))
    defines = dict(launch.defines)
    return all(
        any(name in known for known in (sizes, defines))
        and all(_is_same(known[name], value) for known in (sizes, defines) if name in known)
        for name, value in settings
    )


def _is_same(one: str, other: str) -> bool:
    """Return whether two values are the same text or the same number."""
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False
