"""The clock of a program that shows forecasts: launches that differ are forecast when they first come up."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from kerncast.device.modules import Origin
from kerncast.device.running import Shared
from kerncast.errors import KerncastError
from kerncast.execute.live import Work
from kerncast.forecast import Forecast, Options, forecast_all
from kerncast.forecast.application import at_work, share_of
from kerncast.forecast.library_calls import forecast_library_calls
from kerncast.gpu import GPU
from kerncast.launch import Launch, Memory
from kerncast.prediction import Timing
from kerncast.recording import Group, KeptLaunch, LibraryCall


class ForecastClock:
    """Forecasts the launches that are kept of each group; all others lie between them."""

    def __init__(self, gpu: GPU, shared: Shared) -> None:
        self._gpu, self._shared = gpu, shared
        self._known: dict[tuple[Group, int], float] = {}
        """seconds of each kept launch, by its group and number"""
        self._files: dict[int, Path] = {}
        """file of the PTX of each code that brought its own"""
        self._shares: dict[Group, float] = {}
        self._called: dict[LibraryCall, float] = {}

    def seconds(self, group: Group, work: Work) -> float:
        """Return the duration of a launch on the GPU; 0 for one that cannot be forecast."""
        kept = self._shared.capture.kept_of(group)
        points = [(self._work_of(each), self._forecast(group, each)) for each in kept]
        points = [(math.log(done), math.log(seconds)) for done, seconds in points if seconds > 0]
        if not points:
            return 0.0
        return float(at_work(points, np.array([math.log(max(1, work.thread_instructions))]))[0])

    def share(self, group: Group) -> float:
        """Return which part of the SMs a launch fills; all of them where that is not known."""
        return self._shares.get(group, 1.0)

    def library_seconds(self, call: LibraryCall) -> float:
        """Return the duration of a call of a library."""
        if call not in self._called:
            self._called[call] = forecast_library_calls([call], self._gpu, Options())[0].seconds
        return self._called[call]

    def _work_of(self, kept: KeptLaunch) -> float:
        return max(1.0, float(self._shared.capture.launches.rows["instructions"][kept.launch]))

    def _forecast(self, group: Group, kept: KeptLaunch) -> float:
        key = group, kept.launch
        if key not in self._known:
            self._known[key], self._shares[group] = self._simulated(group, kept.memory)
        return self._known[key]

    def _simulated(self, group: Group, memory: Memory) -> tuple[float, float]:
        """Return the duration of a launch, and which part of the SMs it fills; 0 where it cannot be forecast."""
        found = self.forecast(group, memory, Timing.PROFILER)
        return (found.predictions[0].seconds, share_of(found.cases[0], self._gpu)) if found else (0.0, 1.0)

    def forecast(self, group: Group, memory: Memory, timing: Timing) -> Forecast | None:
        """Return the forecast of a launch; None, and a remark, where there is none."""
        launch = self._launch_of(group, memory)
        try:
            found = forecast_all([launch], [(self._gpu, ())], Options(timing=timing))
        except KerncastError as error:
            self._shared.remarks.add(f"{launch.kernel} takes no time on the program's clock: {error}")
            return None
        if not found.predictions:
            self._shared.remarks.add(f"{launch.kernel} takes no time on the program's clock: {found.refused[0].reason}")
            return None
        return found

    def _launch_of(self, group: Group, memory: Memory) -> Launch:
        kernel = self._shared.kernels[group.kernel]
        origin = self._shared.origins[kernel.code]
        self._shared.capture.flush()
        source = self._source(kernel.code, origin)
        template = Launch(source, None, group.grid, group.block, group.shared_bytes, cluster=group.cluster)
        if origin.request is None:
            return replace(template, kernel=kernel.mangled, memory=memory)
        request = origin.request
        return replace(
            template, kernel=kernel.name, memory=memory, defines=request.defines, include_dirs=request.include_dirs,
            standard=request.standard, fast_math=request.fast_math,
        )  # fmt: skip

    def _source(self, code: int, origin: Origin) -> Path:
        if origin.request is not None:
            return origin.request.source
        if code not in self._files:
            self._files[code] = Path(tempfile.gettempdir()) / f"code{code}.ptx"
            self._files[code].write_text(origin.ptx, encoding="utf-8")
        return self._files[code]
