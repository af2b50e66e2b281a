"""Forecasts of a script's launches: it runs once for each architecture, and for each GPU where it asks for the GPU."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.child_process import Progress
from kerncast.errors import KerncastError, Refusal
from kerncast.forecast import Forecast, Options, forecast_all
from kerncast.forecast.asked import GPUsNoted
from kerncast.launch import Launch
from kerncast.read.launches import launches_of
from kerncast.recording import read_recording
from kerncast.scripts.benchmarks import Tuning
from kerncast.scripts.session import Recorded, Script, record_script


@dataclass(frozen=True, slots=True)
class ForGPUs:
    """A script's recording, and the GPUs that it stands for."""

    gpus: tuple[int, ...]
    """their numbers among those asked for"""
    recorded: Recorded


@dataclass(frozen=True, slots=True)
class ScriptForecast:
    """All that came of a script."""

    forecast: Forecast
    tunings: tuple[Tuning, ...]
    remarks: tuple[str, ...]


def recordings_for(
    script: Script, gpus: GPUsNoted, folder: Path, progress: Progress | None = None
) -> Iterator[ForGPUs]:
    """Yield recordings of a script, compiled for each architecture among the GPUs; raises as ``record_script`` does."""
    left = list(range(len(gpus)))
    while left:
        first = gpus[left[0]][0]
        found = record_script(script, first, folder / f"{left[0]}.kc", progress)
        alike = [n for n in left if gpus[n][0].architecture.number == first.architecture.number]
        own = tuple(alike[:1] if found.asks_for_gpu else alike)
        left = [n for n in left if n not in own]
        yield ForGPUs(own, found)


def forecast_script(
    script: Script, gpus: GPUsNoted, options: Options, progress: Progress | None = None
) -> ScriptForecast:
    """Forecast every launch of a script on every GPU; an error of the script's is in ``failed`` of the forecast."""
    parts: list[tuple[tuple[int, ...], Forecast]] = []
    tunings: list[Tuning] = []
    remarks: dict[str, None] = {}
    failed: KerncastError | None = None
    with tempfile.TemporaryDirectory(prefix="kerncast-script-") as folder:
        for each in recordings_for(script, gpus, Path(folder), progress):
            recording = read_recording(each.recorded.recording)
            launches = launches_of(recording)
            parts.append((each.gpus, forecast_all(launches, [gpus[n] for n in each.gpus], options, progress)))
            tunings += each.recorded.tunings
            remarks |= dict.fromkeys(recording.remarks)
            failed = failed or each.recorded.failed
    return ScriptForecast(_joined([part for _, part in parts], gpus, failed), tuple(tunings), tuple(remarks))


def launches_for(script: Script, gpus: GPUsNoted, folder: Path, progress: Progress | None = None) -> Sequence[Launch]:
    """Return a script's launches as they are on the first GPU; the recording lies in the folder."""
    found = record_script(script, gpus[0][0], folder / "script.kc", progress)
    if found.failed is not None:
        raise found.failed
    return launches_of(read_recording(found.recording))


def _joined(parts: Sequence[Forecast], gpus: GPUsNoted, failed: KerncastError | None) -> Forecast:
    """Return one forecast, launch by launch, in the order of the GPUs."""
    order = {gpu.id: number for number, (gpu, _) in enumerate(gpus)}
    pairs = [pair for part in parts for pair in zip(part.predictions, part.cases, strict=True)]
    pairs.sort(key=lambda pair: (pair[0].launch, order.get(pair[0].gpu_id, 0)))
    refusals: list[Refusal] = [part.first_refusal for part in parts if part.first_refusal is not None]
    return Forecast(
        tuple(prediction for prediction, _ in pairs),
        tuple(dict.fromkeys(each for part in parts for each in part.refused)),
        tuple(case for _, case in pairs),
        refusals[0] if refusals else None,
        next((part.failed for part in parts if part.failed is not None), failed),
    )
