"""Launches of the calling program's own: what a function launches is recorded, and nothing is confined."""

import atexit
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kerncast.child_process import Progress
from kerncast.device.capture import Capture
from kerncast.device.running import Settings, Shared
from kerncast.device.session import Told, write_shared
from kerncast.device.wire import Environment
from kerncast.errors import InputError
from kerncast.execute.live import Rules, on_large_stack
from kerncast.forecast import Forecast, Options, forecast_all, resolve_gpus
from kerncast.forecast.asked import GPUsNoted
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.read.launches import load_launches
from kerncast.recording import ContentsWriter
from kerncast.scripts.benchmarks import Benchmarks
from kerncast.scripts.front_ends import installed
from kerncast.scripts.recorder import Recorder
from kerncast.scripts.script_forecasts import for_each_architecture, joined
from kerncast.units import GIB, MIB

_ROOM_BYTES = 64 * GIB
_KEPT_BYTES = 256 * MIB
_LAUNCH_SECONDS = 60.0
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Calls:
    """What a function has launched, compiled for one GPU."""

    launches: tuple[Launch, ...]
    asks_for_gpu: bool


def record(work: Callable[[], object], gpu: str | Path | GPU) -> tuple[Launch, ...]:
    """Return what a function launches of Triton's or Numba's kernels, compiled for a GPU and executed here.

    Arrays are CPU tensors or NumPy's; what kernels write is there when the function returns. Pass the launches to
    ``predict`` or ``profile`` with the same GPU. Raises InputError where nothing is launched, and what the function
    raises.
    """
    ((chosen, _),) = resolve_gpus(gpu)
    return _recorded(work, chosen).launches


def forecast_calls(
    work: Callable[[], object], gpus: GPUsNoted, options: Options, progress: Progress | None = None
) -> Forecast:
    """Forecast what a function launches on every GPU; it runs once for each architecture, as ``record`` runs it."""
    parts = []
    for own, found in for_each_architecture(gpus, lambda number: _recorded(work, gpus[number][0])):
        parts.append(forecast_all(found.launches, [gpus[number] for number in own], options, progress))
    return joined(parts, gpus)


def _recorded(work: Callable[[], object], chosen: GPU) -> _Calls:
    folder = Path(tempfile.mkdtemp(prefix="kerncast-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = Settings(chosen, Environment(False, 0, 0.0, 0.0, 0.0, 0.0), _ROOM_BYTES, Rules(_LAUNCH_SECONDS))
    with closing(ContentsWriter(folder / "contents", _KEPT_BYTES)) as contents:
        shared = Shared(settings, Capture(contents), lambda _: None)
        recorder = Recorder(shared)
        benchmarks = Benchmarks(recorder)
        with _ONE_AT_A_TIME, installed(recorder, benchmarks):
            on_large_stack(lambda: (work(), None)[1])
        recorder.finish()
        write_shared(shared, contents, Told(("python",), "with status 0"), folder / "recording.kc")
    if not shared.capture.launches.count:
        raise InputError("the function launches no kernel", cure="Pass one that calls kernel[grid](…).")
    return _Calls(load_launches(folder / "recording.kc"), recorder.asks_for_gpu or benchmarks.has_answered)
