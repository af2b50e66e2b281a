"""The subjects of a verb: launches, profiles, files and scripts, and functions that launch kernels themselves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from kerncast.api.answers import Profile
from kerncast.api.running import SCRIPT
from kerncast.child_process import Progress
from kerncast.errors import InputError
from kerncast.forecast import Forecast, Options, forecast_all, read_evidence
from kerncast.forecast.asked import GPUsNoted
from kerncast.forecast.evidence import Evidence, Subject
from kerncast.launch import Launch
from kerncast.profiles import KernelProfile

Call = Callable[..., object]
Given = Evidence | Profile | Call
"""evidence, a profile that was made here, or a function that launches kernels of Triton or Numba"""
Arguments = Sequence[object] | Mapping[str, object]


def forecast_of(
    evidence: Given, args: Arguments | None, gpus: GPUsNoted, options: Options, progress: Progress | None
) -> Forecast:
    """Forecast what is given on every GPU: a function runs for each architecture, and so does a script."""
    if _is_call(evidence):
        from kerncast.scripts.here import forecast_calls  # noqa: PLC0415  few forecasts need it

        _check_gpus(gpus)
        return forecast_calls(_call(evidence, args), gpus, options, progress)
    _check_no_arguments(args)
    if _is_script(evidence):
        from kerncast.scripts.script_forecasts import forecast_script  # noqa: PLC0415  same
        from kerncast.scripts.session import Script  # noqa: PLC0415  same

        _check_gpus(gpus)
        return forecast_script(Script(Path(str(evidence))), gpus, options, progress).forecast
    return forecast_all(_plain(evidence), gpus, options, progress)


@contextmanager
def subjects_of(
    evidence: Given | Sequence[Given], args: Arguments | None, gpus: GPUsNoted, progress: Progress | None = None
) -> Iterator[list[Subject]]:
    """Yield the launches or profiles of one thing or of several, numbered in their order where there are several.

    What a script has recorded is there until the end of the block.
    """
    several: list[Any] = (
        [evidence] if isinstance(evidence, str | Path) or not isinstance(evidence, Sequence) else [*evidence]
    )
    with TemporaryDirectory(prefix="kerncast-") as folder:
        found: list[Subject] = []
        for number, each in enumerate(several):
            own = Path(folder) / str(number)
            own.mkdir()
            found += _read(each, args, (gpus, own), progress)
        if len(several) > 1:
            found = [replace(each, index=number) for number, each in enumerate(found)]
        yield found


def _read(
    evidence: Given, args: Arguments | None, place: tuple[GPUsNoted, Path], progress: Progress | None
) -> Sequence[Subject]:
    gpus, folder = place
    if _is_call(evidence):
        from kerncast.scripts.here import record  # noqa: PLC0415  few need it
        from kerncast.scripts.script_forecasts import check_one_architecture  # noqa: PLC0415  same

        _check_gpus(gpus)
        check_one_architecture(Path(getattr(evidence, "__name__", "the function")), gpus)
        return record(_call(evidence, args), gpus[0][0])
    _check_no_arguments(args)
    if _is_script(evidence):
        from kerncast.scripts.script_forecasts import launches_of_script  # noqa: PLC0415  same

        return launches_of_script(Path(str(evidence)), gpus, folder, progress)
    return read_evidence(_plain(evidence))


def launches_only(subjects: Sequence[Subject], where: str) -> list[Launch]:
    """Return launches; raises InputError for what is none: it has no source."""
    found = [each for each in subjects if isinstance(each, Launch)]
    if len(found) < len(subjects) or not found:
        raise InputError("it holds no launch with a source", where=where, cure="Give a launch file (.toml).")
    return found


def launches_or_counts(subjects: Sequence[Subject]) -> list[Launch] | list[KernelProfile]:
    """Return launches, or counts that are declared; raises InputError for both."""
    launches = [each for each in subjects if isinstance(each, Launch)]
    profiles = [each for each in subjects if isinstance(each, KernelProfile)]
    if launches and profiles:
        raise InputError("launches and declared counts cannot be compared", cure="Give files of one kind.")
    return launches or profiles


def _plain(evidence: Any) -> Any:
    """Return evidence as the layers below know it: a Profile is the counts that it holds."""
    if isinstance(evidence, Profile):
        return evidence.profile
    if not isinstance(evidence, Sequence) or isinstance(evidence, str):
        return evidence
    found = [each.profile if isinstance(each, Profile) else each for each in evidence]
    numbers = [each.index for each in found if isinstance(each, Launch | KernelProfile)]
    if len(set(numbers)) == len(numbers):
        return found
    # Launches that were made one by one: each is told by its place among them.
    return [
        replace(each, index=number) if isinstance(each, Launch | KernelProfile) else each
        for number, each in enumerate(found)
    ]


def _is_call(evidence: object) -> TypeGuard[Call]:
    return callable(evidence) and not isinstance(evidence, type)


def _is_script(evidence: object) -> bool:
    return isinstance(evidence, str | Path) and Path(evidence).suffix == SCRIPT


def _check_gpus(gpus: GPUsNoted) -> None:
    if not gpus:
        raise InputError("kernels of a script are compiled for a GPU, and none is named", cure="Name one.")


def _check_no_arguments(args: Arguments | None) -> None:
    if args is not None:
        cure = "Give them to Launch.of(source, args=…)."
        raise InputError("args belong to a function that launches a kernel, such as kernel[grid]", cure=cure)


def _call(work: Call, args: Arguments | None) -> Callable[[], object]:
    """Return a function without arguments; arrays among them hold afterwards what they held before."""
    if args is None:
        return work
    from kerncast.scripts.host_arrays import restored  # noqa: PLC0415  few need it

    def called() -> object:
        values = list(args.values()) if isinstance(args, Mapping) else list(args)
        with restored(values):
            return work(**args) if isinstance(args, Mapping) else work(*args)

    return called
