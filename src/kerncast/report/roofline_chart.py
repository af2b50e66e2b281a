"""The rooflines of kernels as rows of a CSV, and the extent of their picture."""

import csv
import io
import math
from collections.abc import Iterator, Sequence

from kerncast.kernel_roofline import KernelRoofline, LevelCeiling

_COLUMNS = (
    "kernel", "gpu", "is_projected", "level", "intensity_flop_per_byte", "low_flops_per_s", "high_flops_per_s",
    "roof_flops_per_s", "max_bytes_per_s", "peak_bytes_per_s", "ceiling_bytes_per_s", "crossing_bytes",
    "max_flops_per_s", "peak_flops_per_s", "mix_flops_per_s", "ceiling_flops_per_s", "precision",
)  # fmt: skip
#: An axis is this much wider than its points, on either side.
_MARGIN = 4.0
#: From the lowest to the highest performance of the picture.
_LEAST_SPAN = 2000.0


def roofline_csv(rooflines: Sequence[KernelRoofline]) -> str:
    """Return a row per kernel, GPU and level: all that the picture shows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for roofline in rooflines:
        for level in roofline.levels:
            writer.writerow(["" if cell is None else cell for cell in _row(roofline, level)])
    return text.getvalue()


def _row(roofline: KernelRoofline, level: LevelCeiling) -> tuple[object, ...]:
    return (
        roofline.kernel, roofline.gpu, str(roofline.is_projected).lower(), level.level, level.intensity,
        roofline.low_flops_per_s, roofline.high_flops_per_s, roofline.roof(level), level.max_bytes_per_s,
        level.peak_bytes_per_s, level.ceiling_bytes_per_s, level.crossing_bytes, roofline.max_flops_per_s,
        roofline.peak_flops_per_s, roofline.mix_flops_per_s, roofline.ceiling_flops_per_s,
        roofline.precision,
    )  # fmt: skip


def drawable(rooflines: Sequence[KernelRoofline]) -> tuple[KernelRoofline, ...]:
    """Return those that have a place on logarithmic axes: kernels with operations, and levels that bytes cross."""
    return tuple(each for each in rooflines if each.low_flops_per_s > 0 and any(crossed_levels(each)))


def crossed_levels(roofline: KernelRoofline) -> Iterator[LevelCeiling]:
    """Yield the levels that the kernel's bytes cross."""
    return (level for level in roofline.levels if 0 < level.intensity < math.inf)


def extents(rooflines: Sequence[KernelRoofline]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of both axes, the same for all panels: intensity and operations per second."""
    intensities = [level.intensity for each in rooflines for level in crossed_levels(each)]
    ridges = [each.max_flops_per_s / level.max_bytes_per_s for each in rooflines for level in each.levels]
    speeds = [each.low_flops_per_s for each in rooflines]
    tops = [each.peak_flops_per_s or each.max_flops_per_s for each in rooflines]
    across = (min([*intensities, *ridges]) / _MARGIN, max([*intensities, *ridges]) * _MARGIN)
    top = max([*tops, *(each.max_flops_per_s for each in rooflines)]) * 2
    return across, (min(min(speeds) / _MARGIN, top / _LEAST_SPAN), top)
