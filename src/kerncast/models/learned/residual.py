"""Features of a residual: what ln(measured / simulated) of a launch on a GPU may depend on, all without a unit.

Shares of the simulated time by resource (work over peak rate, bytes over bandwidth, each over the time), what none of
them explains, waves, threads, registers, the GPU's generation, clock and balance, and how often the traffic fills L2.
Source: the learning plan of this project's first document, "architecture-aware normalisation"; the selection is ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.models.transfer.posterior import era_of
from kerncast.units import GIGA, MICROSECOND

#: The feature that holds the time that the residual is the ratio to: ln(simulated time / 1 µs).
SIMULATED = "log_simulated"
#: The share of the simulated time that no resource explains.
UNEXPLAINED = "share_unexplained"
_ON_THE_SM = (
    "fma", "alu", "imad", "lsu", "branch", "issue", "shared", "l1", "fp64", "fp16", "xu", "tensor", "uniform",
    "atomics",
)  # fmt: skip
_BEYOND = ("l2", "dram", "blocks", "launch")
#: Both ends of ln(DRAM bytes / L2 bytes): beyond them the fit in L2 changes no more.
_MOST_LOG_FIT = 4.0
_USUAL_REGISTERS = 32


@dataclass(frozen=True, slots=True)
class FeatureGroup:
    """Features of one kind, which a study leaves out together."""

    name: str
    title: str
    features: tuple[str, ...]


GROUPS = (
    FeatureGroup("sm", "shares of the SM's units", tuple(f"share_{name}" for name in _ON_THE_SM)),
    FeatureGroup("beyond", "shares of L2, DRAM, blocks and launch", tuple(f"share_{name}" for name in _BEYOND)),
    FeatureGroup("latency", "share that no resource explains", (UNEXPLAINED,)),
    FeatureGroup("shape", "blocks per SM, threads, registers", ("log_waves", "log_threads", "registers")),
    FeatureGroup("length", "length of the launch", (SIMULATED,)),
    FeatureGroup("generation", "generation of the GPU", ("era", "capability")),
    FeatureGroup("clock", "clock and balance of the GPU", ("clock_ghz", "log_ridge")),
    FeatureGroup("fit", "fit of the traffic in L2", ("log_l2_fit",)),
)
NAMES = tuple(name for group in GROUPS for name in group.features)


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """A launch on a GPU as the simulation has it."""

    seconds: float
    terms: tuple[tuple[str, float], ...]
    """seconds that each resource needs, by name"""
    blocks: int
    threads_per_block: int
    registers: int | None
    """registers per thread; None where unknown, which counts as the usual number"""


def residual_features(launch: SimulatedLaunch, gpu: GPU) -> tuple[float, ...]:
    """Return the features of a launch on a GPU at its clock, in the order of ``NAMES``.

    >>> from kerncast.gpu import load_gpu
    >>> launch = SimulatedLaunch(1e-5, (("dram", 8e-6), ("issue", 4e-6)), 800, 256, 32)
    >>> found = dict(zip(NAMES, residual_features(launch, load_gpu("titan-v")), strict=True))
    >>> round(found["share_dram"], 9), round(found["share_unexplained"], 9), round(math.exp(found["log_waves"]), 9)
    (0.8, 0.2, 10.0)
    """
    known = _numbers(launch, gpu)
    return tuple(known[name] for name in NAMES)


def residual_values(names: Sequence[str], launch: SimulatedLaunch, gpu: GPU) -> tuple[float, ...]:
    """Return some features by name; raises InputError for one that no simulation tells."""
    known = _numbers(launch, gpu)
    missing = [name for name in names if name not in known]
    if missing:
        cure = "Train it with --features all on a table that kerncast study zero-shot --rows wrote."
        raise InputError(f"no simulation tells {', '.join(missing)[:200]}", cure=cure)
    return tuple(known[name] for name in names)


def _numbers(launch: SimulatedLaunch, gpu: GPU) -> Mapping[str, float]:
    terms = dict(launch.terms)
    shares = {f"share_{name}": terms.get(name, 0.0) / launch.seconds for name in (*_ON_THE_SM, *_BEYOND)}
    number = gpu.architecture.number
    traffic = terms.get("dram", 0.0) * gpu.dram_bytes_per_s
    fit = math.log((traffic + 1) / (gpu.l2_bytes or 1))
    return shares | {
        UNEXPLAINED: max(0.0, 1 - max(terms.values(), default=0.0) / launch.seconds),
        "log_waves": math.log(launch.blocks / gpu.sm_count),
        "log_threads": math.log(launch.threads_per_block),
        "registers": (launch.registers or _USUAL_REGISTERS) / _USUAL_REGISTERS,
        SIMULATED: math.log(launch.seconds / MICROSECOND),
        "era": float(era_of(number)),
        "capability": number / 10,
        "clock_ghz": gpu.clock_hz / GIGA,
        "log_ridge": math.log(gpu.peak_fp32_flops_per_s / gpu.dram_bytes_per_s),
        "log_l2_fit": min(_MOST_LOG_FIT, max(-_MOST_LOG_FIT, fit)),
    }
