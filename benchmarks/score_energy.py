"""Hold the estimated board power of named kernels against published measurements: a bracket of plausibility, no fit.

Measured: Kandiah et al., "AccelWattch", MICRO 2021, hw_power_validation_volta.csv of accel-sim-framework (BSD
2-clause): mean of five runs on a Quadro GV100, each kernel repeated at above 65 degrees C. Taken are the kernels of
Rodinia that kerncast's suite has with the same input (kmeans: 494,020 instead of 819,200 points); the clocks are not
published. The kernels were looked at when the two families of published energies were joined: a bracket, no test.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import kerncast
from kerncast.forecast import Options, resolve_gpus
from kerncast.launch import load_launches
from kerncast.models.energy import Energy
from kerncast.studies.comparing.contenders import contenders_of

_SUITE = Path(kerncast.__path__[0]) / "kernels" / "suite"
_GPU = "gv100"


@dataclass(frozen=True, slots=True)
class Measured:
    """The mean power of a board while one kernel runs again and again."""

    name: str
    file: str
    launch: int
    watts: float


KERNELS = (
    Measured("backprop_k1, 65536", "backprop", 2, 219.8),
    Measured("backprop_k2, 65536", "backprop", 3, 152.1),
    Measured("hotspot_k1, 1024 2 2", "hotspot", 2, 229.6),
    Measured("kmeans_k1", "kmeans", 3, 151.9),
    Measured("pathfinder_k1, 100000 100 20", "pathfinder", 1, 152.6),
)


def main() -> None:
    """Print a row per kernel, then the errors."""
    print("| kernel | measured, W | estimate, W | 90 % interval, W | estimate / measured |\n" + "|---" * 5 + "|")
    ratios = []
    for each in KERNELS:
        energy, seconds = _estimate(each)
        low, high = energy.low / seconds, min(energy.limit_w, energy.high / seconds)
        ratios.append(energy.watts / each.watts)
        power = f"{each.watts:.0f} | {energy.watts:.0f} | {low:.0f} to {high:.0f}"
        print(f"| {each.name} | {power} | {ratios[-1]:.2f} |")
    mean = sum(abs(ratio - 1) for ratio in ratios) / len(ratios)
    bias = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\n{len(ratios)} kernels: mean absolute error {mean:.0%}, estimate / measured {bias:.2f} (geometric mean)")


def _estimate(measured: Measured) -> tuple[Energy, float]:
    launches = [each for each in load_launches(_SUITE / f"{measured.file}.toml") if each.index == measured.launch]
    (group,) = contenders_of(launches, resolve_gpus([_GPU]), Options()).groups
    (found,) = group.contenders
    assert found.energy is not None
    return found.energy, found.total.seconds


if __name__ == "__main__":
    main()
