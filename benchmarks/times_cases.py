"""Kernels that others have timed on several GPUs, for forecasts that know nothing but those times.

Data, read from ``../shared/data``: the sets of ``timing_cases.py``, and CLBlast's OpenCL matrix product that Kernel
Tuner has timed in 17,956 configurations (MIT, benchmark_hub): a kernel of which there is neither CUDA nor a counter.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from counter_cases import DATA
from timing_cases import GPUS, Row, read_clocks, read_rows, seconds_of
from timing_convolutions import read_cases
from timing_runs import load_known

from kerncast.gpu import GPU
from kerncast.measurements import Observation
from kerncast.prediction import Timing

GEMM = "gemm-2023"
_GEMM_FILE = DATA / "kernel_tuner_hub" / "gemm_kt2023.parquet"
_GEMM_SAMPLE, _SEED = 300, 20261123
#: The sets that priors are estimated from; nothing is ever estimated from the matrix product.
FITTED = ("vecmat", "rodinia", "convolution-2023", "convolution-2025", "convolution-ktt")
#: One study, on the same three boards: the convolution shows their clocks.
_CLOCKS_OF = {GEMM: "convolution-2023"}
_CONVOLUTION = "convolution"


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch with its times on several GPUs, each at the clock of its run."""

    set: str
    family: str
    """kernel that is left out together"""
    times: tuple[Observation, ...]


def read_launched(names: Iterable[str], *, full: bool, nominal: bool = False) -> list[Launched]:
    """Return the launches of some sets; none of a set that is not here. ``nominal``: all GPUs at their boost clock."""
    asked = list(names)
    found = list(_gemm(nominal=nominal, full=full)) if GEMM in asked else []
    groups: dict[tuple[str, str, str], list[Observation]] = {}
    for case in read_cases([name for name in asked if name != GEMM], None, full=full):
        family = _CONVOLUTION if case.kernel.startswith(_CONVOLUTION) else f"{case.set} {case.kernel}"
        gpu = _at_its_clock(case.set, case.gpu, nominal=nominal)
        key = case.set, family, f"{case.kernel} {case.size}"
        groups.setdefault(key, []).append(Observation(gpu, case.seconds, timing=case.timing))
    found += [Launched(of, family, tuple(times)) for (of, family, _), times in groups.items() if len(times) > 1]
    return found


def _gemm(*, nominal: bool, full: bool) -> Iterator[Launched]:
    """Yield configurations: all, or a sample that is always the same."""
    by_config: dict[str, list[Row]] = {}
    for row in read_rows(_GEMM_FILE):
        by_config.setdefault(str(row["config"]), []).append(row)
    chosen = sorted(by_config)
    if not full and chosen:
        chosen = random.Random(_SEED).sample(chosen, _GEMM_SAMPLE)  # noqa: S311  a sample, no secret
    for config in chosen:
        times = (
            Observation(
                _at_its_clock(GEMM, GPUS[str(row["gpu"])], nominal=nominal), seconds_of(row), timing=Timing.SINGLE
            )
            for row in by_config[config]
        )
        yield Launched(GEMM, GEMM, tuple(times))


@lru_cache(maxsize=256)
def _at_its_clock(of: str, name: str, *, nominal: bool) -> GPU:
    clock = read_clocks().get((_CLOCKS_OF.get(of, of), name))
    return load_known(name).at_clock("boost" if clock is None or nominal else clock)
