"""Times for scripts that measure: an autotuner and a benchmark get the forecast's, of the GPU that is asked about."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kerncast.device.capture import numbers_of
from kerncast.device.clock import ForecastClock
from kerncast.gpu import GPU, do_bench, launch_overhead_s
from kerncast.models.clock import blame_of
from kerncast.prediction import Prediction, Timing
from kerncast.scripts.recorder import Benchmarked, Recorder
from kerncast.units import MILLISECOND

#: Wall time for all that a script tunes, and for all that it measures: scripts measure dozens of sizes for a picture.
TUNING_SECONDS, MEASURING_SECONDS = 600.0, 20.0
_MOST_ROWS = 1000
_POSITIONAL = ("warmup", "rep", "grad_to_none", "quantiles", "fast_flush", "return_mode")


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration of a kernel, and its forecast time."""

    config: str
    seconds: float | None
    """None: it does not run on this GPU, or could not be forecast"""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What an autotuner has tried, by forecast."""

    kernel: str
    gpu: str
    tried: tuple[Tried, ...]

    @property
    def chosen(self) -> Tried | None:
        """The fastest configuration."""
        known = [each for each in self.tried if each.seconds is not None]
        return min(known, key=lambda each: each.seconds or 0.0, default=None)


Interval = tuple[float, float, float]
"""a time, its low and its high"""
_UNKNOWN: Interval = (math.nan, math.nan, math.nan)


def measured_by_do_bench(cold: Prediction, gpu: GPU) -> Interval:
    """Return the time that do_bench gives of a launch whose time behind a flush of L2 is known.

    Its flush fills an array with zeros: of these a part f of L2, of C bytes, is still to be written back, for which the
    kernel waits as far as DRAM limits it (its share b of the blame), and no longer than it uses DRAM, t:

        more = overhead + b min(t, f C / rate).

    The interval is wider than that of a launch, as another Triton may have made the kernel.
    Source: published medians of do_bench (data/launch_overhead.toml). Fails when: another flush precedes.
    """
    added, overhead = do_bench(), launch_overhead_s("do_bench") - launch_overhead_s(Timing.COLD)
    uses_s = sum(each.seconds for each in cold.terms if each.name == "dram")
    blame = blame_of(cold.seconds, cold.terms).get("dram", 0.0)
    rate = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
    parts = added.dirty_l2, added.dirty_l2_low, added.dirty_l2_high
    middle, least, most = (blame * min(uses_s, part * (gpu.l2_bytes or 0) / rate) for part in parts)
    found, low, high = cold.seconds + overhead + middle, cold.low + overhead + least, cold.high + overhead + most
    return found, found * (low / found) ** added.width, found * (high / found) ** added.width


@dataclass(slots=True)
class Benchmarks:
    """Stands in the place of what measures."""

    recorder: Recorder
    tuned: dict[tuple[str, int], list[Tried]] = field(default_factory=dict)
    _clock: ForecastClock = field(init=False)
    last: Interval = _UNKNOWN
    """what was answered last, in seconds"""
    _known: dict[object, Interval] = field(default_factory=dict)
    _left: dict[bool, float] = field(default_factory=lambda: {True: TUNING_SECONDS, False: MEASURING_SECONDS})
    has_answered: bool = False
    """whether the script was told times of this GPU"""
    _tuning: bool = False
    _before: list[tuple[Any, str, Any]] = field(default_factory=list)
    """what stood where this stands now"""

    def __post_init__(self) -> None:
        shared = self.recorder.shared
        self._clock = ForecastClock(shared.settings.gpu, shared)

    def do_bench(self, fn: Callable[[], Any], *told: Any, **named: Any) -> Any:
        """Return what Triton's do_bench returns, in milliseconds: every quantile is the forecast."""
        named = dict(zip(_POSITIONAL, told, strict=False)) | named
        seconds = self._seconds_of(fn)
        if self._tuning and not seconds < math.inf:
            seconds = math.inf
        quantiles = named.get("quantiles")
        if quantiles:
            return [seconds / MILLISECOND] * len(quantiles) if len(quantiles) > 1 else seconds / MILLISECOND
        return [seconds / MILLISECOND] if named.get("return_mode") == "all" else seconds / MILLISECOND

    def mark(self) -> int:
        """Return a place between two launches, as an event notes it."""
        return len(self.recorder.done)

    def milliseconds_between(self, start: int, end: int) -> float:
        """Return the forecast of the launches between two places; NaN where there are none, or time is over."""
        launches, begun = self.recorder.done[start:end], time.monotonic()
        if not launches or self._left[False] <= 0:
            return math.nan
        self.has_answered = True
        try:
            return sum(self._clock.seconds(group, work) for group, work in launches) / MILLISECOND
        finally:
            self._left[False] -= time.monotonic() - begun

    def _seconds_of(self, fn: Callable[[], Any]) -> float:
        """Return the time of what a function launches; NaN where that is not known."""
        begun, remarks = time.monotonic(), self.recorder.shared.remarks
        if self._left[self._tuning] <= 0:
            what = "tunes" if self._tuning else "measures"
            limit = TUNING_SECONDS if self._tuning else MEASURING_SECONDS
            remarks.add(f"not all that the script {what} was forecast: {limit:g} s were over")
            return math.nan
        self.has_answered = True
        launches = self._launches_of(fn)
        try:
            if not launches:
                remarks.add(
                    "what the script measures beside kernels that are recorded, such as torch's own, has no time"
                )
                return math.nan
            times = [self._forecast(each) for each in launches]
            self.last = sum(t[0] for t in times), sum(t[1] for t in times), sum(t[2] for t in times)
            return self.last[0]
        finally:
            self._left[self._tuning] -= time.monotonic() - begun

    def _launches_of(self, fn: Callable[[], Any]) -> list[Benchmarked]:
        """Return what a function launches; nothing is executed, unless it looks at its results and fails by them."""
        recorder = self.recorder
        outer, executes = recorder.benchmark, recorder.executes_benchmarks
        try:
            try:
                recorder.benchmark = []
                fn()  # which may tune a kernel first
            except AssertionError:
                recorder.benchmark, recorder.executes_benchmarks = [], True
                fn()
            return recorder.benchmark
        finally:
            recorder.benchmark, recorder.executes_benchmarks = outer, executes

    def _forecast(self, launch: Benchmarked) -> Interval:
        # Where the arrays lie changes no time, as far as the forecast knows.
        key = launch.group, tuple(each.chunks for each in launch.memory.regions), numbers_of(launch.call, launch.memory)
        if key not in self._known:
            shared = self.recorder.shared
            shared.report(f"forecasting {shared.kernels[launch.group.kernel].name}")
            found = self._clock.forecast(launch.group, launch.memory, Timing.COLD)
            one = found.predictions[0] if found else None
            self._known[key] = measured_by_do_bench(one, shared.settings.gpu) if one else _UNKNOWN
        return self._known[key]

    @property
    def tunings(self) -> tuple[Tuning, ...]:
        """What was tuned, in the order in which it was."""
        gpu = self.recorder.shared.settings.gpu.name
        return tuple(Tuning(name, gpu, tuple(tried)) for (name, _), tried in self.tuned.items())

    def take_over(self, triton: Any) -> None:
        """Stand in the place of Triton's benchmarks, and note what its autotuner tries."""
        for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
            if hasattr(triton.testing, name):
                self._put(triton.testing, name, self.do_bench)
        autotuner = triton.runtime.autotuner.Autotuner
        bench, whole = autotuner._bench, autotuner.run  # noqa: SLF001  there is no other place to see a configuration

        def noted(own: Any, *arguments: Any, config: Any, **meta: Any) -> Any:
            self._tuning = True
            try:
                found = bench(own, *arguments, config=config, **meta)
            finally:
                self._tuning = False
            self._note(own, str(config), found)
            return found

        def run(own: Any, *arguments: Any, **meta: Any) -> Any:
            own.cache_results = False  # times of another GPU may lie there
            if getattr(own, "benchmarks", self) is not self:  # a program that asks about several GPUs
                own.cache.clear()
                vars(own).pop("do_bench", None)
            own.benchmarks = self
            own.tuned = getattr(own, "tuned", 0) + 1
            return whole(own, *arguments, **meta)

        self._put(autotuner, "_bench", noted)
        self._put(autotuner, "run", run)

    def give_back(self) -> None:
        """Put back what stood there before."""
        while self._before:
            setattr(*self._before.pop())

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _note(self, own: Any, config: str, found: Any) -> None:
        milliseconds = float(found[0] if isinstance(found, list | tuple) else found)
        tried = Tried(config, milliseconds * MILLISECOND if milliseconds < math.inf else None)
        rows = self.tuned.setdefault((own.base_fn.__name__, own.tuned), [])
        if sum(map(len, self.tuned.values())) < _MOST_ROWS:
            rows.append(tried)
