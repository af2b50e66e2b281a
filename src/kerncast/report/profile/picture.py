"""The picture of a profile: what warps wait for, or without a GPU the instructions that ran."""

from typing import TYPE_CHECKING

from kerncast.profiles import ProfiledLaunch
from kerncast.report.pictures.colours import REST, SERIES, STATES
from kerncast.report.pictures.picture_files import drawing, shown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_BARS = 12
_LONGEST_NAME = 60


def draw_profile(launch: ProfiledLaunch) -> "Figure":
    """Return one panel of bars, the longest on top: shares of warp states in percent, or of kinds of instructions."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    profile, gpu, found = launch.profile, launch.gpu, launch.profile.warp_states
    if gpu is not None and found is not None:
        bars = {each.state: each.warp_cycles for each in found.states if each.warp_cycles}
        what, where = "share of the time of warps, in percent", f" on {gpu.name}"
    else:
        bars = {each.kind: each.warp_instructions.value for each in (profile.mix.kinds if profile.mix else ())}
        what, where = "share of the PTX instructions of warps, in percent", ""
    ranked = sorted(bars.items(), key=lambda bar: bar[1])[-_MOST_BARS:]
    whole = sum(bars.values())
    with drawing():
        figure = Figure(figsize=(8, 0.9 + 0.32 * max(1, len(ranked))), layout="constrained")
        panel = figure.subplots()
        colours = [SERIES[0] if found is None else STATES.get(name, REST) for name, _ in ranked]
        panel.barh([name for name, _ in ranked], [100 * value / whole for _, value in ranked], color=colours)
        panel.set_xlabel(what, fontsize=8)
        panel.set_title(f"{shown_name(profile.kernel, _LONGEST_NAME)}{where}", fontsize=9, loc="left")
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    return figure
