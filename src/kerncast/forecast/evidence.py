"""The input of a forecast: launches or profiles that some evidence holds, and GPUs by name."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncast.caveats import Caveat
from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, list_gpus, resolve_gpu
from kerncast.launch import Launch, load_launches, read_toml
from kerncast.profiles import KernelProfile
from kerncast.read.selection import Selection
from kerncast.units import parse_seconds

Evidence = str | Path | Launch | KernelProfile | Sequence[Launch] | Sequence[KernelProfile]
GPUs = str | Path | GPU | Sequence[str | Path | GPU]

_GPU_AND_LAUNCH = re.compile(r"([^#]+)(?:#([0-9]{1,6}))?")


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
            resolved.append(resolve_gpu(one))
    found: dict[str, tuple[GPU, tuple[Caveat, ...]]] = {}
    for each, caveats in resolved:
        if found.setdefault(each.id, (each, caveats))[0] != each:
            raise GPUError(f"two different GPUs are called {each.id}", cure="Rename one, or forecast one at a time.")
    if not found:
        raise InputError("no GPU is named", cure='Add --gpu "TITAN V" (kerncast gpus lists them), or --gpu all.')
    return list(found.values())


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """The measured time of one launch on a GPU at hand."""

    gpu: GPU
    seconds: float
    launch: int | None = None
    """zero-based number of the launch; None: the only one"""
    caveats: tuple[Caveat, ...] = ()
    """assumptions about the GPU's name"""


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


def measured_times(texts: Sequence[str]) -> tuple[MeasuredTime, ...]:
    """Return the times that texts such as ``RTX 2080 Ti=1.23ms`` and ``RTX 2080 Ti#2=1.23ms`` give."""
    return tuple(_measured_time(text) for text in texts)


def _measured_time(text: str) -> MeasuredTime:
    from kerncast.read.bounded_text import LEAST_SECONDS, MOST_SECONDS  # noqa: PLC0415  few forecasts need it

    name, equals, time = text.rpartition("=")
    match = _GPU_AND_LAUNCH.fullmatch(name)
    if not equals or match is None:
        raise InputError(f"--measured {text[:60]!r} is not a GPU with a time", cure='Write "RTX 2080 Ti=1.23ms".')
    try:
        seconds = parse_seconds(time)
    except ValueError as error:
        raise InputError(f"--measured: {error}") from None
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        cure = f"Give a time from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s."
        raise InputError(f"--measured {text[:60]!r}: no kernel takes {seconds:g} s", cure=cure)
    gpu, caveats = resolve_gpu(match[1].strip())
    return MeasuredTime(gpu, seconds, int(match[2]) if match[2] else None, caveats)


def measured_of(measured: Sequence[MeasuredTime], launch: int) -> tuple[MeasuredTime, ...]:
    """Return the times of one launch."""
    return tuple(each for each in measured if each.launch in {None, launch})


def check_measured(measured: Sequence[MeasuredTime], subjects: Sequence[Launch | KernelProfile]) -> None:
    """Raise InputError where a time belongs to no launch, does not say to which, or is the second on one GPU."""
    known = {subject.index for subject in subjects}
    told: set[tuple[str, int | None]] = set()
    for each in measured:
        if each.launch is None and len(known) > 1:
            raise InputError(
                f"--measured does not say which of the {len(known)} launches it is for",
                cure=f'Write "{each.gpu.name}#{min(known)}=1.23ms".',
            )
        if each.launch is not None and each.launch not in known:
            raise InputError(
                f"--measured names launch {each.launch}, which does not exist", cure=f"Known: {_listed(known)}."
            )
        place = each.gpu.id, min(known, default=None) if each.launch is None else each.launch
        if place in told:
            raise InputError(f"--measured gives two times of one launch on {each.gpu.name}", cure="Give one of them.")
        told.add(place)


def _listed(known: set[int]) -> str:
    return ", ".join(map(str, sorted(known)[:20]))


def read_evidence(evidence: Evidence, reading: Reading | None = None) -> list[Launch | KernelProfile]:
    """Return the launches or profiles that some evidence holds."""
    reading = reading or Reading()
    if isinstance(evidence, Launch | KernelProfile):
        return [evidence]
    if not isinstance(evidence, str | Path):
        given: object = evidence  # callers are not always type-checked
        several = (
            [one for one in given if isinstance(one, Launch | KernelProfile)] if isinstance(given, Sequence) else []
        )
        if not several or len(several) < len(evidence):
            raise InputError(
                "the evidence is neither a path, nor a launch, nor a profile, nor several of those",
                cure="Pass a path, or what load_launches or profile returned.",
            )
        return several
    path = Path(evidence)
    if path.suffix.lower() == ".toml":
        return list(_read_declared(path) if "declared" in read_toml(path) else load_launches(path))
    if path.suffix in {".cu", ".cuh", ".cpp", ".cc"}:
        raise InputError(
            f"{path} is a source without a launch",
            cure="Name --kernel, --grid, --block and one --arg per parameter, or write a launch file.",
        )
    from kerncast.read.profile_files import read_profile  # noqa: PLC0415  readers load where there is a profile

    found = read_profile(path, reading.source_gpu, reading.selection, reading.sources)
    if not reading.caveats:
        return list(found)
    return [replace(profile, caveats=(*reading.caveats, *profile.caveats)) for profile in found]


def _read_declared(path: Path) -> Sequence[KernelProfile]:
    from kerncast.read.declared import read_declared  # noqa: PLC0415  few forecasts need it

    return read_declared(path)
