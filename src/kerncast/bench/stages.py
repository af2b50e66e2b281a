"""The stages of ``kerncast measure`` for each word: subjects, and their share of the time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kerncast.bench.ceilings.ceiling import nearest_architecture
from kerncast.bench.plan import (
    PARTITION_PROTOCOL,
    Subject,
    ceiling_subjects,
    launch_file_subjects,
    partition_subjects,
    sizes_of_tpcs,
    spread_sizes,
    suite_subjects,
)
from kerncast.errors import InputError
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import GPU
from kerncast.measurements import Machine, Method, Protocol

#: SMs of a texture processing cluster, the unit of partitioning, where the data do not say.
_SMS_PER_TPC = 2
#: Sizes of partitions where the time is short.
_FEW_SIZES = 10
#: Launches beyond the 71 are many, and vary little from trial to trial.
_EXTENDED_TRIALS = 3


@dataclass(frozen=True, slots=True)
class Choices:
    """The user's choices for a measurement."""

    trials: int | None = None
    """number of trials; None, here and below: the usual choice for the subject"""
    iterations: int | None = None
    warmups: int | None = None
    methods: tuple[Method, ...] | None = None
    tpcs: str | None = None
    """numbers of TPCs, such as 1-40; None: every size that the GPU offers"""

    def applied(self, protocol: Protocol) -> Protocol:
        """Return a protocol with what was chosen in the place of what is usual."""
        return Protocol(
            trials=self.trials or protocol.trials,
            iterations=self.iterations or protocol.iterations,
            warmups=self.warmups or protocol.warmups,
            trial_seconds=protocol.trial_seconds,
            methods=self.methods or protocol.methods,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Subjects that are measured together."""

    name: str
    subjects: tuple[Subject, ...]
    share: float = 1.0
    """share of the remaining time that the stage may take"""


@dataclass(frozen=True, slots=True)
class Site:
    """The machine to measure on."""

    machine: Machine
    partition_sizes: tuple[int, ...]
    """numbers of SMs that launches can be confined to"""


def stages_for(what: str, site: Site, choices: Choices) -> tuple[Stage, ...]:
    """Return the stages of suite, ceilings, partition, all, or of a launch file; raises InputError."""
    if choices.tpcs is not None and what in {"suite", "ceilings"}:
        raise InputError(f"--tpcs has no effect on {what}", cure="Measure partition, all or a launch file.")
    if what in _STAGES:
        return _STAGES[what](site, choices)
    if not what.endswith(".toml"):
        words = ", ".join(_STAGES)
        raise InputError(f"{what[:60]!r} cannot be measured", cure=f"Choose {words}, or name a launch file (.toml).")
    subjects = launch_file_subjects(Path(what), choices.applied(Protocol()))
    if choices.tpcs is None:
        return (Stage("launches", subjects),)
    return (Stage("partition", _partition(choices, _sizes(site, choices), subjects)),)


def expected_seconds(subject: Subject, gpu: GPU) -> float:
    """Forecast how long a subject takes on a GPU; at most that, where a launch cannot be forecast."""
    found = forecast_all(subject.launch, [(gpu, ())], Options()).whole().predictions if subject.ceiling is None else ()
    return subject.expected_seconds(found[0].seconds, gpu.sm_count) if found else subject.most_seconds


def site_of(gpu: GPU) -> Site:
    """Return a machine with this GPU, as far as its data go, to plan for one that is not here."""
    machine = Machine(
        gpu_name=gpu.name,
        gpu_uuid="",
        compute_capability=gpu.compute_capability,
        sm_count=gpu.sm_count,
        memory_bytes=gpu.memory_bytes or 0,
        l2_bytes=gpu.l2_bytes or 0,
        clock_max_hz=gpu.clock_boost_hz,
        memory_clock_hz=None,
        memory_bus_bits=gpu.dram_bus_bits,
        power_limit_w=gpu.tdp_w,
        ecc_enabled=None,
        mig_enabled=None,
        driver="",
        compiler="",
        host="",
        software="",
    )
    step = _sms_per_tpc(machine)
    return Site(machine, tuple(range(step, gpu.sm_count + 1, step)))


def _suite(_site: Site, choices: Choices) -> tuple[Stage, ...]:
    return (Stage("suite", _suite_subjects(choices)),)


def _ceilings(site: Site, choices: Choices) -> tuple[Stage, ...]:
    fewer = replace(choices, methods=None)  # each ceiling has methods of its own
    subjects = (replace(each, protocol=fewer.applied(each.protocol)) for each in ceiling_subjects(site.machine))
    return (Stage("ceilings", tuple(subjects)),)


def _partitions(site: Site, choices: Choices) -> tuple[Stage, ...]:
    return (Stage("partition", _partition(choices, _sizes(site, choices))),)


def _all(site: Site, choices: Choices) -> tuple[Stage, ...]:
    subjects = _suite_subjects(choices)
    seed = tuple(each for each in subjects if each.group == "seed")
    extended = tuple(each for each in subjects if each.group != "seed")
    sizes = _sizes(site, choices) if choices.tpcs else spread_sizes(site.partition_sizes, _FEW_SIZES)
    partition = _partition(choices, sizes) if sizes else ()
    return (
        *(replace(each, share=0.3) for each in _ceilings(site, choices)),
        Stage("suite", seed, 0.7),
        Stage("partition", partition, 0.5),
        Stage("suite, extended", extended),
    )


_STAGES: Mapping[str, Callable[[Site, Choices], tuple[Stage, ...]]] = {
    "suite": _suite, "ceilings": _ceilings, "partition": _partitions, "all": _all,
}  # fmt: skip


def _suite_subjects(choices: Choices) -> tuple[Subject, ...]:
    usual = Protocol()
    many, few = choices.applied(usual), choices.applied(replace(usual, trials=_EXTENDED_TRIALS))
    return tuple(replace(each, protocol=many if each.group == "seed" else few) for each in suite_subjects(usual))


def _sizes(site: Site, choices: Choices) -> tuple[int, ...]:
    if not site.partition_sizes:
        raise InputError(
            "this GPU or its driver cannot confine launches to some SMs",
            where=site.machine.gpu_name,
            cure="Green contexts need a driver for CUDA 12.4 or newer, and no MIG.",
        )
    if choices.tpcs is None:
        return site.partition_sizes
    return sizes_of_tpcs(choices.tpcs, _sms_per_tpc(site.machine), site.partition_sizes)


def _sms_per_tpc(machine: Machine) -> int:
    return nearest_architecture(machine.compute_capability).sms_per_tpc or _SMS_PER_TPC


def _partition(choices: Choices, sizes: Sequence[int], launches: Sequence[Subject] = ()) -> tuple[Subject, ...]:
    return partition_subjects(sizes, launches, choices.applied(PARTITION_PROTOCOL))
