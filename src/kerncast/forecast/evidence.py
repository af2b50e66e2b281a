"""The input of a forecast: launches or profiles that some evidence holds, and GPUs by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, list_gpus, resolve_gpu
from kerncast.gpu.files import is_path
from kerncast.gpu.slices import name_of_slice, slice_of
from kerncast.launch import Launch, base_name, do_same, read_toml
from kerncast.observation import Observation, TimedKernel
from kerncast.operators import Operator
from kerncast.profiles import KernelProfile
from kerncast.read.launches import load_launches
from kerncast.read.operator_files import OperatorTable, is_model, is_table_of_operators, read_operators
from kerncast.read.selection import Selection
from kerncast.recording.recording_files import SUFFIX

Subject = Launch | KernelProfile | TimedKernel
_Launches = Sequence[Launch] | Sequence[KernelProfile] | Sequence[TimedKernel]
Evidence = str | Path | Subject | _Launches | Operator | Sequence[Operator] | OperatorTable
GPUs = str | Path | GPU | Sequence[str | Path | GPU]


def resolve_gpus(gpu: GPUs) -> list[tuple[GPU, tuple[Caveat, ...]]]:
    """Return the GPUs that are meant, each once, with what had to be assumed."""
    named: object = [gpu] if isinstance(gpu, str | Path | GPU) else gpu  # callers are not always type-checked
    if not isinstance(named, Iterable):
        raise InputError(f"{str(gpu)[:60]!r} names no GPU", cure="Give a name, a path, a GPU, or several.")
    resolved: list[tuple[GPU, tuple[Caveat, ...]]] = []
    for one in named:
        if isinstance(one, GPU):
            resolved.append((one, ()))
        elif not isinstance(one, str | Path):
            raise InputError(f"{str(one)[:60]!r} names no GPU", cure="Give a name, a path or a GPU.")
        elif str(one).lower() == "all":
            resolved += [(each, ()) for each in list_gpus()]
        else:
            resolved.append(_named(one))
    found: dict[str, tuple[GPU, tuple[Caveat, ...]]] = {}
    for each, caveats in resolved:
        if found.setdefault(each.id, (each, caveats))[0] != each:
            raise GPUError(f"two different GPUs are called {each.id}", cure="Rename one, or forecast one at a time.")
    if not found:
        raise InputError("no GPU is named", cure='Add --gpu "TITAN V" (kerncast gpus lists them), or --gpu all.')
    return list(found.values())


def _named(name: str | Path) -> tuple[GPU, tuple[Caveat, ...]]:
    """Return a GPU, or the slice of one that a name such as "A100 MIG 3g.40gb" means, with what was assumed."""
    found = name_of_slice(name) if isinstance(name, str) and not is_path(name) else None
    if found is None:
        return resolve_gpu(name)
    gpu, caveats = resolve_gpu(found[0])
    return slice_of(gpu, found[1]), (*caveats, Caveat(CaveatKind.MIG_BANDWIDTH_ASSUMED))


@dataclass(frozen=True, slots=True)
class Reading:
    """Options for reading a profile: the kernels, and the GPU on which it was made."""

    selection: Selection = field(default_factory=Selection)
    source_gpu: GPU | None = None
    """GPU on which the profile was made; None: the one that the profile names"""
    sources: tuple[Launch, ...] = ()
    """launches to execute for counts that the profile lacks"""
    caveats: tuple[Caveat, ...] = ()
    """assumptions about the GPU's name"""


def observations(measured: Sequence[str | Path | Observation]) -> tuple[Observation, ...]:
    """Return measured times: texts such as ``RTX 2080 Ti#2=1.23ms``, files of times, and what is one already."""
    if not measured:
        return ()
    from kerncast.read.observations import read_observations  # noqa: PLC0415  most forecasts do without

    return read_observations(measured)


def measured_of(measured: Sequence[Observation], launch: int) -> tuple[Observation, ...]:
    """Return the times of one launch."""
    return tuple(each for each in measured if each.launch == launch)


def matched(measured: Sequence[Observation], subjects: Sequence[Subject]) -> tuple[Observation, ...]:
    """Return the times with the number of the launch that each is of; raises InputError where a time is of none.

    A time of another launch, which brings its own source, keeps no number.
    """
    return tuple(_matched(each, subjects) for each in measured)


def _matched(time: Observation, subjects: Sequence[Subject]) -> Observation:
    known = {subject.index for subject in subjects}
    if time.other is not None:
        same = [each.index for each in subjects if isinstance(each, Launch) and do_same(each, time.other)]
        return replace(time, launch=same[0]) if same else time
    if time.launch is not None:
        if time.launch not in known:
            raise InputError(
                f"{time.where} names launch {time.launch}, which does not exist", cure=f"Known: {_listed(known)}."
            )
        return time
    if time.kernel is not None:
        known = {each.index for each in subjects if base_name(each.kernel or "") == base_name(time.kernel)}
        if not known:
            raise InputError(
                f"{time.where} names kernel {time.kernel[:60]!r}, which is not forecast",
                cure="Give its launch, too: forecasts learn from a time by simulating what was measured.",
            )
    if len(known) > 1:
        raise InputError(
            f"{time.where} does not say which of the {len(known)} launches it is for",
            cure=f'Write "{time.gpu.name}#{min(known)}=1.23ms", or fill the column launch.',
        )
    return replace(time, launch=min(known, default=None))


def _listed(known: set[int]) -> str:
    return ", ".join(map(str, sorted(known)[:20]))


def read_evidence(evidence: Evidence, reading: Reading | None = None) -> list[Subject]:
    """Return the launches, profiles or timed kernels that some evidence holds."""
    reading = reading or Reading()
    if isinstance(evidence, Subject):
        return [evidence]
    if not isinstance(evidence, str | Path):
        given: object = evidence  # callers are not always type-checked
        items = list(given) if isinstance(given, Sequence) else []
        several = [one for one in items if isinstance(one, Subject)]
        if not several or len(several) < len(items):
            raise InputError(
                "the evidence is neither a path, nor a launch, a profile or a timed kernel, nor several of those",
                cure="Pass a path, or what load_launches or profile returned.",
            )
        return several
    path = Path(evidence)
    if path.suffix.lower() in {".toml", SUFFIX}:
        is_declared = path.suffix != SUFFIX and "declared" in read_toml(path)
        return list(_read_declared(path) if is_declared else load_launches(path))
    if path.suffix in {".cu", ".cuh", ".cpp", ".cc"}:
        raise InputError(
            f"{path} is a source without a launch",
            cure="Name --kernel, --grid, --block and one --arg per parameter, or write a launch file.",
        )
    if path.suffix.lower() == ".csv":
        from kerncast.read.observations import is_table_of_times, read_timed_kernels  # noqa: PLC0415

        if is_table_of_times(path):
            return list(read_timed_kernels(path, reading.selection))
    from kerncast.read.profile_files import read_kernels  # noqa: PLC0415  readers load where there is a profile

    found = read_kernels(path, reading.source_gpu, reading.selection, reading.sources)
    if not reading.caveats:
        return list(found)
    return [replace(profile, caveats=(*reading.caveats, *profile.caveats)) for profile in found]


def operators_of(evidence: Evidence, selection: Selection | None = None) -> OperatorTable | None:
    """Return the operators of some evidence that are meant: texts have been read before; None where it has none."""
    found = _operators_of(evidence)
    where = str(evidence) if isinstance(evidence, str | Path) else "the operators"
    return found if found is None or selection is None else found.selected(selection, where)


def _operators_of(evidence: Evidence) -> OperatorTable | None:
    if isinstance(evidence, OperatorTable):
        return evidence
    if isinstance(evidence, Operator):
        return OperatorTable((evidence,))
    if isinstance(evidence, str | Path):
        return read_operators(Path(evidence)) if holds_operators(Path(evidence)) else None
    items = list(evidence) if isinstance(evidence, Sequence) else []
    operators = [each for each in items if isinstance(each, Operator)]
    if not operators or len(operators) < len(items):
        return None
    return OperatorTable(tuple(replace(each, index=index) for index, each in enumerate(operators)))


def holds_operators(path: Path) -> bool:
    """Return whether a file holds operators."""
    ending = path.suffix.lower()
    return (ending == ".csv" and is_table_of_operators(path)) or (ending == ".json" and is_model(path))


def _read_declared(path: Path) -> Sequence[KernelProfile]:
    from kerncast.read.declared import read_declared  # noqa: PLC0415  few forecasts need it

    return read_declared(path)
