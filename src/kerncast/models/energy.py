"""Energy of launches on a GPU, an estimate: idle power, and energy by instruction class and by byte of each level.

    E = E_core r^2 + E_dram + (P_static r + P_constant) t,      P = E / t,      r = clock / boost clock
    E_core = node x (sum over classes of threads x energy + sum over levels of bits x energy)
    E_dram = bits x (energy of the memory + node x energy of its path)

The voltage is taken in proportion to the clock, so that an instruction costs r^2 and static power goes with r. P_static
and P_constant are shares of the board's limit, as on the one board that they are known of. Published energies differ by
factors: each is the geometric mean of what a board and what circuits tell. All numbers and their sources are in
``data/energy.toml``; nothing was fitted to a measured power.

Source: Arunkumar, Bolotin, Nellans, Wu, "Understanding the Future of Energy Efficiency in Multi-Module GPUs", HPCA 2019
(the sum over instructions, transactions and idle power); Kandiah et al., "AccelWattch", MICRO 2021 (power as a cubic
polynomial of the clock, without the square: voltage in proportion to the clock). Fails when: data have few bits that
change, the voltage has reached its least value, a board idles differently from a Quadro GV100 of as many watts, the GPU
is a slice of one, a launch is so short that the power controller does not see it, or atomics are most of its traffic:
their way to L2 is not counted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import kerncast
from kerncast.bounded_file import our_table
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.calibration import normal_deviations
from kerncast.prediction import Term
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import FLOPS, INTEGER_OPS, L1_BYTES, SHARED_BYTES, SPECIAL_OPS
from kerncast.ptx import opcode_of
from kerncast.units import BITS_PER_BYTE, PICOJOULE

_FILE = Path(kerncast.__path__[0]) / "data" / "energy.toml"
_VERSION = 1
#: Level of the interval.
LEVEL = 0.9
#: Where neither a range of clocks nor a base clock is known.
_LEAST_CLOCK_SHARE = 0.5

#: Pipes whose instructions count by the bytes that they move, or by the time that the pipe is busy.
_BY_BYTES_OR_TIME = {"lsu", "tensor"}
#: Machine operations that multiply, of floats and of integers.
_MULTIPLIERS = {"MUL", "FMA"}
_FLOATS = {"f32": "fp32", "f64": "fp64", "f16": "fp16", "f16x2": "fp16", "bf16": "fp16", "bf16x2": "fp16"}


@dataclass(frozen=True, slots=True)
class EnergyFacts:
    """What ``data/energy.toml`` says, in SI units."""

    instruction_j: Mapping[str, float]
    """of one thread's instruction at 28 nm, by class; tensor: of one multiply-add"""
    path_j_per_byte: Mapping[str, float]
    """at 28 nm, by level"""
    dram_j_per_byte: Mapping[str, float]
    """of the memory itself, by its kind"""
    nodes: Mapping[int, float]
    """energy over that at 28 nm, by compute capability times ten"""
    constant_share: float
    """power that is always there, over the board's limit"""
    static_share: float
    """power of SMs at work that does nothing, over the board's limit, at the boost clock"""
    log_sigma: float
    """standard deviation of ln(measured / forecast power)"""


@dataclass(frozen=True, slots=True)
class Work:
    """What costs energy in a launch."""

    threads: Mapping[str, float]
    """instructions, one per active thread, by class; tensor: multiply-adds"""
    bytes: Mapping[str, float]
    """bytes that cross each level: shared, l1, l2, dram"""


@dataclass(frozen=True, slots=True)
class EnergyParts:
    """Energy of launches at the boost clock, by what it follows."""

    core_j: float
    """energy that falls with the square of the clock"""
    dram_j: float
    """energy that no clock of the SMs changes"""

    def __add__(self, other: "EnergyParts") -> "EnergyParts":
        return EnergyParts(self.core_j + other.core_j, self.dram_j + other.dram_j)

    def times(self, factor: float) -> "EnergyParts":
        """Return the energy of so many times as much."""
        return EnergyParts(self.core_j * factor, self.dram_j * factor)


@dataclass(frozen=True, slots=True)
class Energy:
    """An estimate of the energy of launches, with its interval."""

    joules: float
    low: float
    high: float
    """90 % interval"""
    watts: float
    """mean power of the board while the launches run in a row"""
    limit_w: float


def work_of(profile: KernelProfile, terms: Sequence[Term], gpu: GPU) -> Work:
    """Return what costs energy in a launch, by its counts, and by the times of L2, DRAM and tensor cores.

    A time that L2 or DRAM alone would need, times their bandwidth, are the bytes that the model saw; no more cross L2
    than L1 asks for, where that was counted.
    """
    seconds = {term.name: term.seconds for term in terms}
    asked = profile.counts.get(L1_BYTES)
    l2_rate, dram_rate = gpu.l2_rate, gpu.dram_rate
    l1_bytes = asked.value if asked else 0.0
    l2 = seconds.get("l2", 0.0) * (l2_rate.bytes_per_s if l2_rate else 0.0)
    dram = seconds.get("dram", 0.0) * (dram_rate.bytes_per_s if dram_rate else gpu.dram_bytes_per_s)
    shared = profile.counts.get(SHARED_BYTES)
    threads = _threads(profile)
    tensor = gpu.architecture.tensor_fp16_lanes_per_sm
    if "tensor" in seconds and tensor:
        threads["tensor"] = seconds["tensor"] * gpu.sm_count * tensor * gpu.clock_hz
    return Work(
        threads,
        {
            "shared": shared.value if shared else 0.0,
            "l1": l1_bytes,
            "l2": min(l2, l1_bytes) if asked else l2,
            "dram": dram,
        },
    )


def _threads(profile: KernelProfile) -> dict[str, float]:
    """Return instructions by class: of the PTX, or as far as counts of operations tell; then floats are all fused."""
    found: dict[str, float] = {}
    if profile.mix is not None:
        for each in profile.mix.kinds:
            name = class_of_kind(each.kind)
            if name is not None:
                found[name] = found.get(name, 0.0) + each.thread_instructions.value
        return found
    counts = {f"fp{bits}": profile.counts.total((name,)).value / 2 for bits, name in FLOPS.items()}
    counts["integer"] = profile.counts.total((INTEGER_OPS,)).value
    counts["special"] = profile.counts.total((SPECIAL_OPS,)).value
    return counts


def class_of_kind(kind: str) -> str | None:
    """Return the class of a PTX instruction by root and type; None where its bytes or its tensor core's time count.

    >>> [class_of_kind(each) for each in ("fma.f32", "mad.s32", "ex2.f32", "setp.f32", "ld.global", "bar.sync")]
    ['fp32', 'multiply', 'special', 'integer', None, 'integer']
    """
    root, _, kind_of_value = kind.partition(".")
    opcode = opcode_of(root)
    if opcode.access is not None or opcode.pipe in _BY_BYTES_OR_TIME:
        return None
    if opcode.is_special:
        return "special"
    if opcode.flops and kind_of_value in _FLOATS:
        return _FLOATS[kind_of_value]
    return "multiply" if opcode.pipe == "imad" or opcode.machine in _MULTIPLIERS else "integer"


def parts_of(work: Work, gpu: GPU) -> EnergyParts:
    """Return the energy of a launch at the boost clock; raises MissingEvidenceError where a number is unknown.

    2^30 FP32 multiply-adds on a TITAN V, 12 nm: 2^30 x sqrt(50 x 19.3) pJ x 0.512 = 17.08 mJ; 1 GB from HBM2: 8e9 bits
    x (3.92 + 0.512 x sqrt(16.55 x 1.35)) pJ = 50.72 mJ.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> parts = parts_of(Work({"fp32": 2.0**30}, {"dram": 1e9}), load_gpu("TITAN V"))
    >>> round(parts.core_j, 5), round(parts.dram_j, 5)
    (0.01708, 0.05072)
    """
    facts = energy_facts()
    node = facts.nodes.get(gpu.architecture.number)
    kind = gpu.fact("peak.dram_type")
    memory = facts.dram_j_per_byte.get(str(kind.value)) if kind else None
    if node is None or memory is None:
        what = (
            f"the energy of {kind.value if kind else 'its memory'}" if memory is None else "the energy of its process"
        )
        raise MissingEvidenceError(f"{what} is unknown on {gpu.name}")
    core = sum(number * facts.instruction_j[name] for name, number in work.threads.items())
    core += sum(work.bytes.get(level, 0.0) * facts.path_j_per_byte[level] for level in ("shared", "l1", "l2"))
    dram = work.bytes.get("dram", 0.0) * (memory + node * facts.path_j_per_byte["dram"])
    return EnergyParts(node * core, dram)


def power_w(parts: EnergyParts, seconds: float, gpu: GPU, clock_hz: float) -> float:
    """Return the mean power of a board while launches take so many seconds at a clock.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> gpu = load_gpu("TITAN V")  # 250 W: 32.25 W constant, 37.5 W static at boost
    >>> round(power_w(EnergyParts(1.0, 0.5), 0.01, gpu, gpu.clock_boost_hz), 2)
    219.75
    >>> round(power_w(EnergyParts(1.0, 0.5), 0.02, gpu, gpu.clock_boost_hz / 2), 2)  # 32.25 + 18.75 + 12.5 + 25
    88.5
    """
    facts, limit = energy_facts(), board_limit_w(gpu)
    share = clock_hz / gpu.clock_boost_hz
    idle = limit * (facts.constant_share + facts.static_share * share)
    return idle + (parts.core_j * share**2 + parts.dram_j) / seconds


def board_limit_w(gpu: GPU) -> float:
    """Return the power limit of a board; raises MissingEvidenceError where it is unknown."""
    if gpu.tdp_w is None:
        raise MissingEvidenceError(f"the power limit of {gpu.name} is unknown")
    return gpu.tdp_w


def clock_within_limit_hz(parts: EnergyParts, seconds: float, gpu: GPU, clock_share: float) -> float:
    """Return the highest clock, at most the GPU's own, at which the power is within the board's limit.

    ``seconds`` is the time at the GPU's clock, of which ``clock_share`` follows the clock of the SMs. No clock is below
    ``least_clock_hz``, whatever the power.
    """
    limit, own = board_limit_w(gpu), gpu.clock_hz

    def power_at(clock_hz: float) -> float:
        return power_w(parts, seconds * (1 - clock_share + clock_share * own / clock_hz), gpu, clock_hz)

    low, high = min(own, least_clock_hz(gpu)), own
    if power_at(own) <= limit:
        return own
    if power_at(low) > limit:
        return low
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if power_at(middle) <= limit else (low, middle)
    return low


def least_clock_hz(gpu: GPU) -> float:
    """Return the lowest clock that a power limit leaves: the lowest that such boards were seen at, or the base clock.

    The maker guarantees the base clock within the limit; boards that run below it have a range that says so.
    """
    if gpu.clock_low_hz is not None:
        return gpu.clock_low_hz
    return gpu.clock_base_hz or _LEAST_CLOCK_SHARE * gpu.clock_boost_hz


def energy_of(parts: EnergyParts, seconds: float, gpu: GPU, log_sigma_s: float) -> Energy:
    """Return the energy of launches that take so many seconds in a row, at the GPU's clock.

    Power is known to ``log_sigma``, and what idles costs as long as the time lasts, whose ln has the deviation
    ``log_sigma_s``. No power is below the constant one, none beyond the limit.
    """
    facts, limit = energy_facts(), board_limit_w(gpu)
    watts = min(limit, power_w(parts, seconds, gpu, gpu.clock_hz))
    joules = watts * seconds
    idle = limit * (facts.constant_share + facts.static_share * gpu.clock_hz / gpu.clock_boost_hz)
    factor = math.exp(normal_deviations(LEVEL) * math.hypot(facts.log_sigma, min(1.0, idle / watts) * log_sigma_s))
    longer = math.exp(normal_deviations(LEVEL) * log_sigma_s)
    least, most = facts.constant_share * limit * seconds / longer, limit * seconds * longer
    return Energy(joules, max(joules / factor, least), min(joules * factor, most), watts, limit)


@cache
def energy_facts(path: Path = _FILE) -> EnergyFacts:
    """Read the energies; raises InputError for a faulty file."""
    try:
        found: dict[str, Any] = our_table(path)
        if found["version"] != _VERSION:
            raise _faulty(path, f"version is {found['version']!r:.40}, not {_VERSION}")
        per_byte = BITS_PER_BYTE * PICOJOULE
        facts = EnergyFacts(
            _numbers(found["instruction_pj"], PICOJOULE),
            _numbers(found["path_pj_per_bit"], per_byte),
            _numbers(found["dram_pj_per_bit"], per_byte),
            {number: float(node["energy"]) for node in found["node"] for number in node["architectures"]},
            float(found["board"]["constant_share"]["value"]),
            float(found["board"]["static_share"]["value"]),
            float(found["error"]["log_sigma"]["value"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise _faulty(path, str(error)[:200]) from None
    return facts


def _numbers(table: Mapping[str, Mapping[str, Any]], unit: float) -> dict[str, float]:
    """Return the geometric mean of what boards and circuits tell, or what one of them tells."""
    found = {}
    for name, each in table.items():
        values = [float(each[family]) for family in ("board", "circuit") if family in each]
        found[name] = math.prod(values) ** (1 / len(values)) * unit
    return found


def _faulty(path: Path, what: str) -> InputError:
    return InputError(f"the energies are faulty: {what}", where=str(path), cure="Install kerncast again.")
