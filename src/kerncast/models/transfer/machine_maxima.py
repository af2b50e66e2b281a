"""The best rates of two machines, found the same way for both so that their ratio is fair.

Source: Van Lanker et al., "Predicting GPU kernel's performance on upcoming architectures", Euro-Par 2024, section 4.1:
measured maxima; where the target has none, its data-sheet peak times the source's measured share of its own peak.
Fails when: the two GPUs do not reach the same share of their peaks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import kerncast
from kerncast.bounded_file import our_table
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.remembered import remembered
from kerncast.units import GIGA

_TABLE = Path(kerncast.__path__[0]) / "data" / "vanlanker-2024.toml"
#: Shared memory: 32 banks of 4 bytes per clock and SM.
SHARED_BYTES_PER_CLOCK = 128
_INIT = "sustained.dram_init_gb_per_s"


@dataclass(frozen=True, slots=True)
class Maximum:
    """The best rate of one resource, in FLOP/s or B/s."""

    rate: float
    is_measured: bool = True
    """whether the rate was measured on this machine"""
    peak: float | None = None
    """rate by the data sheet; None where it gives none"""


@dataclass(frozen=True, slots=True)
class MachineMaxima:
    """Perf^Max, by fused multiply-adds that count 2 each, and BW^Max of one machine."""

    name: str
    fp16: Maximum | None
    fp32: Maximum | None
    fp64: Maximum | None
    l1: Maximum
    shared: Maximum
    l2: Maximum
    dram: Maximum

    def fma(self, bits: int) -> Maximum:
        """Return the maximum of fused multiply-adds of 16, 32 or 64 bits; raises MissingEvidenceError."""
        if (found := {16: self.fp16, 32: self.fp32, 64: self.fp64}[bits]) is None:
            raise MissingEvidenceError(f"the FP{bits} rate of {self.name} is unknown", cure="Name another GPU.")
        return found


@dataclass(frozen=True, slots=True)
class MaximaPair:
    """The maxima of the GPU of the run and of the one to forecast."""

    source: MachineMaxima
    target: MachineMaxima
    caveats: tuple[Caveat, ...] = ()


def published_machine(name: str) -> MachineMaxima:
    """Return a machine of the paper's Table 1: V100, A100-40, A100-80 or H100; its Perf^Max is FP64.

    >>> published_machine("H100").fma(64).rate / 1e9
    24979.0
    """
    machines = _published()
    for machine in machines:
        if machine.name == name:
            return machine
    raise InputError(f"no machine is called {name[:40]!r}", cure=f"Known: {', '.join(m.name for m in machines)}.")


@cache
def _published() -> tuple[MachineMaxima, ...]:
    rows = our_table(_TABLE)["machine"]
    return tuple(
        MachineMaxima(
            name=row["name"],
            fp16=None,
            fp32=None,
            fp64=Maximum(row["fp64_gflops"] * GIGA),
            l1=Maximum(row["l1_gb_per_s"] * GIGA),
            shared=Maximum(row["l1_gb_per_s"] * GIGA),
            l2=Maximum(row["l2_gb_per_s"] * GIGA),
            dram=Maximum(row["dram_gb_per_s"] * GIGA),
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class _Resource:
    """One maximum: how it is found on a GPU."""

    name: str
    measured: Callable[[GPU], float | None]
    peak: Callable[[GPU], float | None]
    """bandwidth by the data sheet; of L2, the usual rate of its architecture"""
    usual: Callable[[GPU], float | None]
    """best guess where neither GPU was measured"""
    fact: str
    """key in the GPU's file, for messages"""


def _at_clock(gpu: GPU, rate: float | None) -> float | None:
    """Return a rate inside the SMs, measured at the default clock, at the clock asked for."""
    return None if rate is None else rate * gpu.clock_hz / gpu.default_clock_hz


def _l1_peak(gpu: GPU) -> float | None:
    per_clock = gpu.architecture.l1_bytes_per_clock
    return None if per_clock is None else per_clock * gpu.sm_count * gpu.clock_hz


def _rate_or_none(gpu: GPU, *, is_dram: bool) -> float | None:
    rate = gpu.dram_rate if is_dram else gpu.l2_rate
    return None if rate is None else rate.bytes_per_s


def _l2_usual(gpu: GPU) -> float | None:
    unmeasured = gpu if gpu.l2_bytes_per_s is None else replace(gpu, l2_bytes_per_s=None)
    return _rate_or_none(unmeasured, is_dram=False) or gpu.l2_bytes_per_s


def _fp16_peak(gpu: GPU) -> float:
    return gpu.peak_fp16_flops_per_s or gpu.peak_fp32_flops_per_s


_RESOURCES = (
    _Resource("fp16", lambda _: None, _fp16_peak, _fp16_peak, "lanes.fp16_per_sm"),
    _Resource(
        "fp32",
        lambda gpu: _at_clock(gpu, gpu.sustained_fp32_flops_per_s),
        lambda gpu: gpu.peak_fp32_flops_per_s,
        lambda gpu: gpu.peak_fp32_flops_per_s,
        "sustained.fp32_gflops",
    ),
    _Resource(
        "fp64",
        lambda gpu: _at_clock(gpu, gpu.sustained_fp64_flops_per_s),
        lambda gpu: gpu.peak_fp64_flops_per_s,
        lambda gpu: gpu.peak_fp64_flops_per_s,
        "sustained.fp64_gflops",
    ),
    _Resource("l1", lambda gpu: _at_clock(gpu, gpu.l1_bytes_per_s), _l1_peak, _l1_peak, "sustained.l1_gb_per_s"),
    _Resource("l2", lambda gpu: gpu.l2_bytes_per_s, _l2_usual, _l2_usual, "sustained.l2_gb_per_s"),
    _Resource(
        "dram",
        lambda gpu: gpu.sustained_dram_bytes_per_s,
        lambda gpu: gpu.dram_bytes_per_s,
        lambda gpu: _rate_or_none(gpu, is_dram=True) or gpu.dram_bytes_per_s,
        "sustained.dram_gb_per_s",
    ),
)


@remembered(512)
def maxima_of(source: GPU, target: GPU, bits: tuple[int, ...], *, writes_only: bool = False) -> MaximaPair:
    """Return the maxima of two GPUs; caveats speak of memory and of the precisions that are used.

    A kernel that only writes has the bandwidth of a stream of writes (the paper's section 5.2, STREAM's init).
    """
    used = {f"fp{width}" for width in bits} | {"l1", "l2", "dram"}
    found = {r.name: _pair(r, source, target) for r in _RESOURCES if r.name in used or (r.name == "fp32" and not bits)}
    caveats = _caveats({name: pair for name, pair in found.items() if name in used}, source, target)
    if 16 in bits and None in {gpu.peak_fp16_flops_per_s for gpu in (source, target)}:
        caveats.append(Caveat.of(CaveatKind.FP16_RATE_OF_FP32))
    if writes_only:
        caveats.append(_use_streams_of_writes(found, source, target))
    maxima = [_maxima(gpu, {n: pair[place] for n, pair in found.items()}) for place, gpu in enumerate((source, target))]
    return MaximaPair(_one_of_all_equal(maxima[0]), _one_of_all_equal(maxima[1]), tuple(caveats))


@lru_cache(maxsize=1024)
def _one_of_all_equal(maxima: MachineMaxima) -> MachineMaxima:
    """Return the same object for equal maxima: what is remembered by identity then serves every target."""
    return maxima


_Pair = tuple[Maximum, Maximum]


def _pair(resource: _Resource, source: GPU, target: GPU) -> _Pair:
    """Return the maxima of both GPUs: measured, by the other's share of its peak, or as usual on both."""
    peaks = [_known(resource.peak(gpu), resource, gpu) for gpu in (source, target)]
    of_source, of_target = resource.measured(source), resource.measured(target)
    rates: tuple[float | None, float | None] = of_source, of_target
    if of_source is not None and of_target is None:
        rates = of_source, peaks[1] * of_source / peaks[0]
    elif of_source is None and of_target is not None:
        rates = peaks[0] * of_target / peaks[1], of_target
    elif of_source is None:
        rates = resource.usual(source), resource.usual(target)
    # No data sheet says how fast L2 is.
    shown: list[float | None] = [None, None] if resource.name == "l2" else [*peaks]
    return (
        Maximum(_known(rates[0], resource, source), of_source is not None, shown[0]),
        Maximum(_known(rates[1], resource, target), of_target is not None, shown[1]),
    )


def _known(rate: float | None, resource: _Resource, gpu: GPU) -> float:
    if not rate:
        raise MissingEvidenceError(
            f"the {resource.name} rate of {gpu.name} is unknown", cure=f"Give {resource.fact} in the GPU's file."
        )
    return rate


def _caveats(pairs: dict[str, _Pair], source: GPU, target: GPU) -> list[Caveat]:
    caveats = []
    neither = [name for name, pair in pairs.items() if not (pair[0].is_measured or pair[1].is_measured)]
    if neither:
        caveats.append(Caveat.of(CaveatKind.MAXIMA_UNMEASURED, ", ".join(neither)))
    for place, (gpu, other) in enumerate(((source, target), (target, source))):
        names = [name for name, pair in pairs.items() if pair[1 - place].is_measured and not pair[place].is_measured]
        if names:
            caveats.append(Caveat.of(CaveatKind.MAXIMA_BY_SHARE, gpu.name, other=other.name, names=", ".join(names)))
    return caveats


def _use_streams_of_writes(found: dict[str, _Pair], source: GPU, target: GPU) -> Caveat:
    facts = [gpu.fact(_INIT) for gpu in (source, target)]
    rates = [fact.value * GIGA for fact in facts if fact is not None and isinstance(fact.value, int | float)]
    if len(rates) < len(facts):
        return Caveat.of(CaveatKind.WRITE_RATE_UNKNOWN)
    of_source, of_target = found["dram"]
    found["dram"] = (Maximum(rates[0], peak=of_source.peak), Maximum(rates[1], peak=of_target.peak))
    return Caveat.of(CaveatKind.WRITE_RATE_USED)


def _maxima(gpu: GPU, found: dict[str, Maximum]) -> MachineMaxima:
    a = gpu.architecture
    shares_l1 = a.l1_and_shared_bytes is not None and a.caches_global_loads_in_l1
    banks = SHARED_BYTES_PER_CLOCK * gpu.sm_count * gpu.clock_hz
    shared = found["l1"] if shares_l1 else Maximum(banks, is_measured=False, peak=banks)
    return MachineMaxima(
        name=gpu.name,
        fp16=found.get("fp16"),
        fp32=found.get("fp32"),
        fp64=found.get("fp64"),
        l1=found["l1"],
        shared=shared,
        l2=found["l2"],
        dram=found["dram"],
    )
