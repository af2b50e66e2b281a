"""The facts that a GPU's file lacks for a model, found before any kernel is forecast."""

from dataclasses import dataclass

from kerncast.gpu import GPU, Architecture
from kerncast.models.sm.simulation import Simulation
from kerncast.models.transfer.ceilings import Ceilings
from kerncast.units import GIGA

#: Cycles without which no SM can be simulated. A kernel with atomics or tensor cores needs more.
_CYCLES = (
    "fma", "alu", "load_store_sm", "shared_wavefront", "l1_tag", "store_line", "shared_atomic", "alu_latency",
    "shared_latency", "barrier_latency", "branch_latency", "block_launch", "lsu_queue", "l2_queue", "dram_queue",
    "atomic_queue",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MissingFacts:
    """The keys that a model refuses a GPU without."""

    model: str
    keys: tuple[str, ...]
    """keys of the GPU's file, or of its architecture's"""


def missing_facts(gpu: GPU) -> tuple[MissingFacts, ...]:
    """Return what each model that would refuse a GPU lacks; the other models need the data sheet alone.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> missing_facts(load_gpu("titan-v")), missing_facts(load_gpu("jetson-agx-xavier"))[1]
    ((), MissingFacts(model='ceilings', keys=('sustained.l2_gb_per_s',)))
    """
    found = ((Simulation.name, _of_simulation(gpu)), (Ceilings.name, (*_of_l1(gpu), *_of_l2(gpu))))
    return tuple(MissingFacts(model, keys) for model, keys in found if keys)


def needed_facts(architecture: Architecture) -> tuple[MissingFacts, ...]:
    """Return what each model needs of a GPU's file beside SMs, boost clock and DRAM bandwidth, which all of them need.

    >>> from kerncast.gpu.gpu import load_architecture
    >>> needed_facts(load_architecture("sm_89"))[1]
    MissingFacts(model='ceilings', keys=('peak.dram_bus_bits',))
    """
    bare = GPU("bare", "bare", architecture, sm_count=1, clock_hz=GIGA, clock_boost_hz=GIGA, dram_bytes_per_s=GIGA)
    return missing_facts(bare)


def _of_simulation(gpu: GPU) -> tuple[str, ...]:
    a = gpu.architecture
    facts = {
        "peak.l2_kib": gpu.l2_bytes,
        "sustained.l2_latency_cycles": gpu.l2_latency,
        "sustained.dram_latency_ns": gpu.dram_latency,
        "sustained.l1_bytes_per_clock": a.l1_bytes_per_clock,
        "sustained.l2_write_fraction": a.l2_write_fraction,
    } | {f"cycles.{name}": getattr(a.cycles, name) for name in _CYCLES}
    return (*_of_l2(gpu), *(key for key, value in facts.items() if value is None))


def _of_l1(gpu: GPU) -> tuple[str, ...]:
    unknown = gpu.l1_bytes_per_s is None and gpu.architecture.l1_bytes_per_clock is None
    return ("sustained.l1_gb_per_s",) if unknown else ()


def _of_l2(gpu: GPU) -> tuple[str, ...]:
    """Return what the L2 bandwidth needs: of most architectures the width of the DRAM interface tells it."""
    if gpu.l2_rate is not None:
        return ()
    told_by_bus = gpu.architecture.l2_bytes_per_clock_per_channel is not None
    return ("peak.dram_bus_bits",) if told_by_bus else ("sustained.l2_gb_per_s",)
