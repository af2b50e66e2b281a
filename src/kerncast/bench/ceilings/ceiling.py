"""NOUN Ceiling: one launch whose speed is limited by one part of the GPU; and the sizes that it depends on."""

import math
from dataclasses import dataclass, replace

from kerncast.bench import KERNELS
from kerncast.gpu import DATA, Architecture, load_architecture
from kerncast.launch import Argument, Buffer, Extent, Fill, Launch, Value
from kerncast.measurements import Machine, Method

#: Folder of the kernels.
SOURCES = KERNELS / "ceilings"

#: Least time of a launch at full speed: long beside the microseconds that a launch itself takes.
KERNEL_SECONDS = 2e-3
#: Threads of a block, but where a kernel says otherwise.
BLOCK = 256

#: Architectures without a file, and the nearest that has one: of the same generation, or made for the same use.
_NEAREST = {"8.8": "sm_86", "10.1": "sm_110"}
_NEWEST = "sm_120"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One launch, and what is learned from its time or from what it writes."""

    name: str
    """name of the shape, such as fma_f32, or dram_copy#2 for the third shape of dram_copy; the best shape counts"""
    launch: Launch
    amount: float | None
    """work of one launch in ``unit``"""
    unit: str
    """unit of the work: B, FLOP, op, launch or step"""
    methods: tuple[Method, ...] = (Method.SERIES,)
    reading: tuple[str, str, str] | None = None
    """buffer argument that holds values which the kernel measured, their name and their unit"""
    setup: Launch | None = None
    """launch that runs once before, on the buffers of the same names"""

    @property
    def key(self) -> str:
        """Key of its configuration in a measurement file."""
        return f"{KEY_GROUP}{self.name}"


#: Group of the ceilings' configurations.
KEY_GROUP = "ceilings/"


def name_of_key(key: str) -> str | None:
    """Return the ceiling that a configuration measures, without its shape, or None where it measures none.

    >>> name_of_key("ceilings/dram_copy#2"), name_of_key("seed/saxpy#0")
    ('dram_copy', None)
    """
    if not key.startswith(KEY_GROUP) or "@" in key:
        return None
    return key.removeprefix(KEY_GROUP).partition("#")[0]


@dataclass(frozen=True, slots=True)
class Chip:
    """The facts of a GPU that decide how large the ceilings are."""

    number: int
    """compute capability without its point, such as 90"""
    sm_count: int
    clock_hz: float
    l2_bytes: int
    memory_bytes: int
    dram_bytes_per_s: float | None
    """peak DRAM bandwidth; None where the driver does not name memory clock and bus"""
    architecture: Architecture
    """architecture of the chip, or the nearest known one: only the durations of kernels depend on it"""

    def blocks(self, threads: int = BLOCK) -> int:
        """Return how many blocks of so many threads fill all SMs; kernels that use it take few registers."""
        return self.sm_count * max(1, self.architecture.max_threads_per_sm // threads)

    def rounds(self, amount_per_round: float, amount_per_cycle: float, seconds: float = KERNEL_SECONDS) -> int:
        """Return how many rounds fill the time, at the best rate of all SMs together."""
        return max(1, math.ceil(seconds * self.clock_hz * amount_per_cycle / amount_per_round))


def chip_of(machine: Machine) -> Chip:
    """Return what the sizes depend on."""
    major, _, minor = machine.compute_capability.partition(".")
    return Chip(
        number=int(major + minor),
        sm_count=machine.sm_count,
        clock_hz=machine.clock_max_hz,
        l2_bytes=machine.l2_bytes,
        memory_bytes=machine.memory_bytes,
        dram_bytes_per_s=peak_dram_bytes_per_s(machine),
        architecture=nearest_architecture(machine.compute_capability),
    )


def peak_dram_bytes_per_s(machine: Machine) -> float | None:
    """Return 2 x memory clock x bus width, or None where the driver does not name them.

    Drivers name half the data rate, for GDDR5, 5X, 6, 6X and HBM alike: with device queries of 26 GPUs from the GTX 680
    to the H100 this gives the bandwidth in the project's table of data sheets within 0.1 %.
    """
    if not machine.memory_clock_hz or not machine.memory_bus_bits:
        return None
    return 2 * machine.memory_clock_hz * machine.memory_bus_bits / 8


def nearest_architecture(compute_capability: str) -> Architecture:
    """Return the architecture of a compute capability, or the nearest that is known.

    >>> nearest_architecture("8.6").id, nearest_architecture("10.1").id
    ('sm_86', 'sm_110')
    """
    own = f"sm_{compute_capability.replace('.', '')}"
    if (DATA / "architectures" / f"{own}.toml").is_file():
        return load_architecture(own)
    return load_architecture(_NEAREST.get(compute_capability, _NEWEST))


def kernel_launch(source: str, kernel: str, grid: int | Extent, block: int = BLOCK, /, **arguments: Value) -> Launch:
    """Return a launch of a packaged kernel; arguments by the names of its parameters."""
    return Launch(
        source=SOURCES / f"{source}.cu",
        kernel=kernel,
        grid=(grid, 1, 1) if isinstance(grid, int) else grid,
        block=(block, 1, 1),
        arguments=tuple(Argument(name, value) for name, value in arguments.items()),
    )


def zeros(element: str, count: int) -> Buffer:
    """Return a buffer of zeros: most kernels fill theirs themselves."""
    return Buffer(element, (count,), Fill("zeros"))


def with_define(launch: Launch, name: str, value: int) -> Launch:
    """Return a launch with one macro more."""
    return replace(launch, defines=(*launch.defines, (name, str(value))))
