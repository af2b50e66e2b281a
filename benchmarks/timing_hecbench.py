"""Kernels of HeCBench that gpuFLOPBench timed on an RTX 3080 with Nsight Compute, which empties the caches before each.

Data: gpuFLOPBench (MIT), read from ``../shared/data``; equivalents of the kernels: ``hecbench_launches.py`` and
``hecbench_memory_launches.py``.
"""

import re
from statistics import median

from counter_cases import FLOPBENCH, RTX_3080
from hecbench_launches import LAUNCHES
from hecbench_memory_launches import memory_launches
from timing_cases import Case, Row, read_rows, spread

from kerncast.prediction import Timing
from kerncast.units import GIGA


def hecbench(count: int | None) -> list[Case]:
    """Return one case per kernel; its time is the median over all rows of the same kernel and shape."""
    times: dict[tuple[str, ...], list[float]] = {}
    sizes: dict[tuple[str, ...], str] = {}
    for row in read_rows(FLOPBENCH):
        key = _key(row)
        times.setdefault(key, []).append(float(str(row["time_ns"])) / GIGA)
        sizes[key] = str(row["exeArgs"] or "").strip().removesuffix("nan")
    found = []
    for (program, kernel), launch in (LAUNCHES | memory_launches()).items():
        key = (program, kernel, str(tuple(launch.grid)), str(tuple(launch.block)))
        if key in times:
            size = sizes[key] or "no arguments"
            name = f"{program} {kernel}"
            found.append(Case("hecbench", name, size, RTX_3080.stem, Timing.COLD, launch, median(times[key])))
    return spread(found, lambda case: (case.kernel,), count)


def _key(row: Row) -> tuple[str, ...]:
    """Return program, kernel, grid and block; the kernel from its signature, since the column kernelName errs."""
    program = str(row["targetName"]).removesuffix("-cuda")
    return program, kernel_of(str(row["Kernel Name"])), str(row["Grid Size"]), str(row["Block Size"])


def kernel_of(signature: str) -> str:
    """Return the name in a signature.

    >>> kernel_of("void dot_kernel<float>(const T1 *, int)")
    'dot_kernel'
    """
    found = re.search(r"(\w+)\s*(<.*>)?\s*\(", signature)
    return found[1] if found else signature
