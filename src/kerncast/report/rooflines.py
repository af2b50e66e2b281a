"""The rooflines of a forecast, in the order of their picture: the GPU of the run first, then the targets."""

from collections.abc import Sequence

from kerncast.errors import Refusal
from kerncast.kernel_roofline import KernelRoofline
from kerncast.models import Case


def rooflines_of_cases(cases: Sequence[Case]) -> tuple[KernelRoofline, ...]:
    """Return a roofline per kernel and GPU, grouped by GPU; what lacks evidence is left out."""
    from kerncast.models.ceilings import kernel_rooflines  # noqa: PLC0415  other reports do without

    by_gpu: dict[tuple[bool, str], dict[tuple[str, float], KernelRoofline]] = {}
    for case in cases:
        try:
            pair = kernel_rooflines(case)
        except Refusal:
            continue
        for roofline in pair:
            group = by_gpu.setdefault((roofline.is_projected, roofline.gpu), {})
            group.setdefault((f"{case.profile.index} {roofline.kernel}", roofline.flops), roofline)
    ordered = sorted(by_gpu, key=lambda key: key[0])
    return tuple(roofline for key in ordered for roofline in by_gpu[key].values())
