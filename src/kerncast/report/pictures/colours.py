"""The colours of all pictures: one thing has one colour, which people who see few colours can tell from its neighbours.

Source: Okabe, Ito, "Color Universal Design", 2008, and the muted scheme of Tol, "Colour schemes", SRON/EPS/TN/09-002,
2021. No picture tells two things apart by colour alone: names, markers or hatches do so, too.
"""

from collections.abc import Sequence

#: Text and axes. A page puts its own text colour in its place (``svg_text``).
INK = "#1f2328"
#: Lines behind the data, and what is mentioned only.
FAINT = "#8c959f"
#: Where a map has no value.
EMPTY = "#e4e4e4"
#: Between touching areas, and on dark ones.
PAPER = "#ffffff"
#: Measured times, wherever they stand beside forecasts.
MEASURED = "#1f2328"

_DRAM, _L2, _L1, _SHARED, _ATOMICS = "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#882255"
_FLOATS, _TENSOR, _INTEGERS, _SPECIAL = "#e69f00", "#999933", "#8c6d31", "#661100"
_ISSUE, _LSU, _LATENCY, _STARTS, _OTHER = "#56b4e9", "#44aa99", "#332288", "#888888", "#555555"

#: What limits a kernel: levels of memory, pipes, latency, starts of blocks and launches. Roofs have the same colours.
LIMITS = {
    "dram": _DRAM, "l2": _L2, "l1": _L1, "shared": _SHARED, "atomics": _ATOMICS,
    "compute": _FLOATS, "fp32": _FLOATS, "fma": _FLOATS, "fp64": _FLOATS, "fp16": _FLOATS, "mixed": _FLOATS,
    "tensor": _TENSOR, "tensor_memory": _TENSOR,
    "integer": _INTEGERS, "alu": _INTEGERS, "imad": _INTEGERS, "uniform": _INTEGERS,
    "branch": _INTEGERS, "special": _SPECIAL, "xu": _SPECIAL, "issue": _ISSUE, "lsu": _LSU, "latency": _LATENCY,
    "launch": _STARTS, "blocks": _STARTS, "grid_barriers": _STARTS, "cluster_barriers": _STARTS,
    "power": _OTHER, "learned": _OTHER,
}  # fmt: skip
#: What warps do or wait for: as the resource that they wait for, or lighter where another state has that colour.
STATES = {
    "selected": _ISSUE, "not_selected": "#a8cdf0", "wait": _FLOATS, "math_pipe_throttle": _INTEGERS,
    "short_scoreboard": "#e3b5cf", "mio_throttle": _SHARED, "long_scoreboard": _L2, "lg_throttle": _L1,
    "barrier": _TENSOR, "branch_resolving": _SPECIAL,
}  # fmt: skip
#: What is left of a time, and time in which nothing works.
REST = "#c3cad1"
#: What limits the blocks of an SM.
OCCUPANCY = {
    "warps": _LATENCY, "registers": _FLOATS, "shared_memory": _SHARED, "blocks": _L2, "barriers": _ATOMICS,
    "none-fits": _STARTS,
}  # fmt: skip
#: GPUs, kernels and models, in the order in which a picture names them.
SERIES = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#332288", "#999933", "#882255", "#44aa99",
    "#661100", "#888888",
)  # fmt: skip
#: What is worst, what is expected, and what is best where two things stand against each other.
WORSE, BETTER = _DRAM, _L2
#: Maps from short to long times, and with both sides of zero.
SEQUENTIAL, DIVERGING = "viridis_r", "RdBu_r"


def limit_colour(name: str) -> str:
    """Return the colour of a resource, as forecasts name it.

    >>> limit_colour("dram"), limit_colour("of another model")
    ('#d55e00', '#555555')
    """
    return LIMITS.get(name, _OTHER)


def series_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour per name, the same wherever the names come in the same order; after twelve they repeat.

    >>> series_colours(["T4", "L4", "T4"])
    {'T4': '#0072b2', 'L4': '#d55e00'}
    """
    once = dict.fromkeys(names)
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(once)}
