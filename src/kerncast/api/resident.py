"""Occupancy as it is asked for: blocks of launches, or of numbers alone, on GPUs and compute capabilities."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from kerncast.caveats import Caveat
from kerncast.child_process import Progress
from kerncast.errors import InputError
from kerncast.forecast import compile_launch, resolve_gpus
from kerncast.gpu import GPU, load_architecture, parse_carveout
from kerncast.launch import Extent, Launch, check_cluster
from kerncast.occupancy import BlockRequest, block_request
from kerncast.occupancy.advice import OccupancyCase
from kerncast.read.launches import load_launches

#: Largest value that the driver's own calculator takes: a 32-bit integer.
_MOST = 2**31 - 1
#: A number alone, such as 980, is a name of GPUs.
_CAPABILITY = re.compile(r"sm_([1-9][0-9]{1,2})[af]?|([1-9][0-9]?)\.([0-9])", re.ASCII | re.IGNORECASE)
SOURCES = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".ptx"}


@dataclass(frozen=True, slots=True)
class Given:
    """Values of a block; None: those of the launch or of the compiler."""

    block: int | None
    registers: int | None
    shared: int | None
    static_shared: int | None
    barriers: int | None
    cluster_blocks: int | None = None
    carveout: str | None = None
    """shared memory that the program asks an SM to have, such as 50%, 64KiB, l1, equal or shared"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name in {"block", "cluster_blocks"} else 0
            if isinstance(value, int) and not least <= value <= _MOST:
                raise InputError(f"{field.name} is {value}", cure=f"Give {least} to {_MOST}.")


def cluster_blocks(cluster: Extent) -> int:
    """Return the number of blocks of a cluster; raises InputError for one that no GPU runs."""
    check_cluster(cluster, cluster, "--cluster")
    return math.prod(cluster)


def _check_static(case: OccupancyCase) -> None:
    most, found = case.architecture.shared_bytes_per_block, case.request.static_shared_bytes
    if found > most:
        raise InputError(
            f"{found} bytes of static shared memory are over the {most} that a kernel can declare",
            where=case.name,
            cure="Make it dynamic: --shared.",
        )


def targets_of(named: Sequence[str | Path | GPU]) -> tuple[list[OccupancyCase], list[Caveat]]:
    """Return a case for each GPU or compute capability, with any block for now, and what was assumed."""
    any_block = BlockRequest(1, 0)
    found = [(name, _CAPABILITY.fullmatch(name) if isinstance(name, str) else None) for name in named]
    capabilities = [match for _, match in found if match]
    others = [name for name, match in found if not match]
    resolved = resolve_gpus(others) if others or not capabilities else []
    cases = [OccupancyCase(any_block, gpu.architecture, gpu) for gpu, _ in resolved]
    ids = dict.fromkeys(f"sm_{match[1] or match[2] + match[3]}" for match in capabilities)
    cases += [OccupancyCase(any_block, load_architecture(name)) for name in ids]
    return cases, [caveat for _, assumed in resolved for caveat in assumed]


def read_launch_file(path: Path) -> Sequence[Launch]:
    """Return the launches of a file; raises InputError for a source, which has none."""
    if path.suffix.lower() in SOURCES:
        raise InputError(
            f"{path} is a source without a launch",
            cure=f"Write one: kerncast init {path} -o LAUNCH.toml; or give only --block and --registers.",
        )
    return load_launches(path)


def cases_of(
    launches: Sequence[Launch] | None, given: Given, targets: Sequence[OccupancyCase], progress: Progress | None = None
) -> list[OccupancyCase]:
    """Return a case per launch and target, with the values that are given in the place of the compiler's.

    Without launches, threads and registers must be given. Raises InputError.
    """
    wish = None if given.carveout is None else parse_carveout(given.carveout)
    own = _from_numbers(given, targets) if launches is None else _from_launches(launches, given, targets, progress)
    cases = [replace(case, wish=wish) for case in own]
    for case in cases:
        _check_static(case)
    return cases


def _from_numbers(given: Given, targets: Sequence[OccupancyCase]) -> list[OccupancyCase]:
    if given.block is None or given.registers is None:
        raise InputError("neither a launch file nor --block and --registers are given", cure="Give one of them.")
    barriers = 1 if given.barriers is None else given.barriers
    request = BlockRequest(given.block, given.registers, given.static_shared or 0, given.shared or 0, barriers)
    return [replace(target, request=request, cluster_blocks=given.cluster_blocks or 1) for target in targets]


def _from_launches(
    launches: Sequence[Launch], given: Given, targets: Sequence[OccupancyCase], progress: Progress | None
) -> list[OccupancyCase]:
    cases = []
    for number, launch in enumerate(launches):
        if progress is not None:
            progress(f"compiling {launch.label}", number, len(launches))
        architectures = list(dict.fromkeys(target.architecture.code_name for target in targets))
        compiled = compile_launch(launch, architectures)
        for target in targets:
            kernel = compiled.kernel_for(target.architecture.code_name)
            request = block_request(launch.threads_per_block, kernel.resources, launch.shared_bytes)
            chosen = {
                "threads": given.block,
                "registers_per_thread": given.registers,
                "dynamic_shared_bytes": given.shared,
                "static_shared_bytes": given.static_shared,
                "barriers": given.barriers,
            }
            request = replace(request, **{name: value for name, value in chosen.items() if value is not None})
            most = kernel.resources.max_threads_per_block
            named = replace(target, kernel=kernel.kernel, launch=launch.index, caveats=kernel.caveats)
            together = given.cluster_blocks or math.prod(launch.cluster or kernel.resources.cluster_blocks or (1,))
            cases.append(replace(named, request=request, most_threads=most, cluster_blocks=together))
    return cases
