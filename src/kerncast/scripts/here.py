"""Launches of the calling program's own: what a function of its launches is recorded, and nothing is confined."""

import atexit
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kerncast.device.capture import Capture
from kerncast.device.running import Settings, Shared
from kerncast.device.session import Told, write_shared
from kerncast.device.wire import Environment
from kerncast.errors import InputError
from kerncast.execute.live import Rules, on_large_stack
from kerncast.forecast import resolve_gpus
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.read.launches import load_launches
from kerncast.recording import ContentsWriter
from kerncast.scripts.benchmarks import Benchmarks
from kerncast.scripts.front_ends import installed
from kerncast.scripts.recorder import Recorder
from kerncast.units import GIB, MIB

_ROOM_BYTES = 64 * GIB
_KEPT_BYTES = 256 * MIB
_LAUNCH_SECONDS = 60.0
_ONE_AT_A_TIME = threading.Lock()


def record(work: Callable[[], Any], gpu: str | Path | GPU) -> tuple[Launch, ...]:
    """Return what a function launches of Triton's or Numba's kernels, compiled for a GPU and executed here.

    Arrays are CPU tensors or NumPy's; what kernels write is there when the function returns. Pass the launches to
    ``predict`` or ``profile`` with the same GPU. Raises InputError where nothing is launched, and what the function
    raises.
    """
    ((chosen, _),) = resolve_gpus(gpu)
    folder = Path(tempfile.mkdtemp(prefix="kerncast-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    contents = ContentsWriter(folder / "contents", _KEPT_BYTES)
    settings = Settings(chosen, Environment(False, 0, 0.0, 0.0, 0.0, 0.0), _ROOM_BYTES, Rules(_LAUNCH_SECONDS))
    shared = Shared(settings, Capture(contents), lambda _: None)
    recorder = Recorder(shared)
    with _ONE_AT_A_TIME, installed(recorder, Benchmarks(recorder)):
        on_large_stack(lambda: (work(), None)[1])
    recorder.finish()
    write_shared(shared, contents, Told(("python",), "with status 0"), folder / "recording.kc")
    if not shared.capture.launches.count:
        raise InputError("the function launches no kernel", cure="Pass one that calls kernel[grid](…).")
    return load_launches(folder / "recording.kc")
