"""What a measurement says of its samples, against other ways to compute it."""

import statistics
from dataclasses import fields, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.measurements import ClockState, Failure, Machine, Measurement, Method, Trial, outliers, summarise

MACHINE = Machine(
    gpu_name="NVIDIA H200",
    gpu_uuid="GPU-1",
    compute_capability="9.0",
    sm_count=132,
    memory_bytes=150_000_000_000,
    l2_bytes=62_914_560,
    clock_max_hz=1.98e9,
    memory_clock_hz=3.2e9,
    memory_bus_bits=6144,
    power_limit_w=700.0,
    ecc_enabled=True,
    mig_enabled=False,
    driver="570.1, CUDA 12.8",
    compiler="NVRTC 12.9",
    host="Linux",
    software="kerncast 0.1",
)


def at(microsecond: int) -> str:
    """Return a moment as the harness writes it."""
    return datetime(2026, 1, 2, 3, 4, 5, microsecond, UTC).isoformat(timespec="microseconds")


def trial(number: int, seconds: tuple[float, ...], **more: object) -> Trial:
    whole = Trial("saxpy#0", Method.SERIES, number, seconds, (), 1, ClockState(), ClockState(), at(0))
    return replace(whole, **more)  # type: ignore[arg-type]


# --- summaries ------------------------------------------------------------------------------------


def test_a_summary_agrees_with_numpy() -> None:
    samples = np.random.default_rng(0).lognormal(-10, 0.2, (10, 100))
    found = summarise(trial(i, tuple(row.tolist())) for i, row in enumerate(samples))
    assert (found.trials, found.samples) == (10, 1000)
    assert found.mean == pytest.approx(samples.mean(), rel=1e-12)
    assert found.median == pytest.approx(np.median(samples), rel=1e-12)
    assert found.deviation == pytest.approx(samples.mean(axis=1).std(ddof=1), rel=1e-9)
    assert (found.lowest, found.highest) == (samples.min(), samples.max())


def test_trials_of_unequal_length_count_by_samples() -> None:
    found = summarise([trial(0, (1.0, 2.0, 3.0)), trial(1, (10.0,))])
    assert found.mean == 4.0
    assert found.deviation == pytest.approx(statistics.stdev([2.0, 10.0]))


def test_the_spread_of_one_trial_is_unknown() -> None:
    assert summarise([trial(0, (1.0, 2.0))]).deviation is None
    assert summarise([trial(0, (1.0, 2.0)), trial(1, (1.5,))]).deviation == 0


def test_the_largest_samples_have_a_finite_summary() -> None:
    found = summarise([trial(i, (1e100,) * 100 + (5e-324,)) for i in range(10)])
    assert found.mean == pytest.approx(1e100 * 100 / 101)
    assert found.deviation == 0


def test_a_throttled_trial_is_counted_once() -> None:
    hot = ClockState(throttle_reasons=("hw_thermal_slowdown",))
    trials = [trial(0, (1.0,), before=hot, after=hot), trial(1, (1.0,), after=hot), trial(2, (1.0,))]
    assert summarise(trials).throttled_trials == 2


def test_a_warm_up_is_no_sample() -> None:
    assert summarise([trial(0, (1.0, 1.0), warmup_seconds=(100.0,))]).highest == 1.0


# --- outliers -------------------------------------------------------------------------------------


def test_two_outliers_do_not_hide_each_other() -> None:
    """Worked by hand: median 2.45, median deviation 0.15, so the limit is 3.5 * 0.15 / 0.6745 = 0.778.

    The mean is 3.54 and the standard deviation 2.5: by ordinary z-scores (1.86 and 1.9) neither would be found.
    """
    values = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]
    assert outliers(values) == (False,) * 8 + (True, True)
    assert max(abs(np.array(values) - np.mean(values)) / np.std(values, ddof=1)) < 3


@pytest.mark.parametrize(("value", "is_flagged"), [(8.18, False), (8.20, True), (-2.18, False), (-2.20, True)])
def test_the_limit_is_three_and_a_half_scaled_deviations(value: float, is_flagged: bool) -> None:
    """Seven values, and one far out on each side: median 3, median deviation 1, limit 3.5 / 0.6745 = 5.19."""
    assert outliers([1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, value, 6 - value])[-2:] == (is_flagged, is_flagged)


def test_equal_samples_flag_nothing() -> None:
    assert outliers([1.0, 1.0, 1.0, 9.0]) == (False,) * 4
    assert outliers([1.0]) == (False,)


# --- machines and trials --------------------------------------------------------------------------


def test_any_other_fact_forbids_mixing_but_host_and_software() -> None:
    allowed = set()
    for field in fields(MACHINE):
        other = replace(MACHINE, **{field.name: "other"})  # type: ignore[arg-type]
        if not MACHINE.differences(other):
            allowed.add(field.name)
    assert allowed == {"host", "software"}


def test_a_difference_shows_both_values() -> None:
    other = replace(MACHINE, driver="580.2, CUDA 13.0", power_limit_w=600.0)
    assert MACHINE.differences(other) == (
        "power_limit_w is 700.0, not 600.0",
        "driver is '570.1, CUDA 12.8', not '580.2, CUDA 13.0'",
    )


NO_TIMES = (0.0, -1.0, float("nan"), float("inf"), 1.001e100)


@pytest.mark.parametrize("seconds", [(), *((1.0, value) for value in NO_TIMES)])
def test_a_trial_without_a_time_is_refused(seconds: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="saxpy#0, series, trial 3"):
        trial(3, seconds)


@pytest.mark.parametrize("value", NO_TIMES)
def test_a_warm_up_without_a_time_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="not a time above zero and at most 1e100 s"):
        trial(3, (1.0,), warmup_seconds=(value,))


def test_trials_come_in_order_and_of_one_method() -> None:
    cold = trial(0, (5.0,), method=Method.COLD)
    measurement = Measurement(MACHINE, trials=(trial(1, (2.0,)), cold, trial(0, (1.0,))))
    assert [t.seconds for t in measurement.trials_of("saxpy#0", Method.SERIES)] == [(1.0,), (2.0,)]
    assert measurement.summary("saxpy#0", Method.GRAPH) is None
    with pytest.raises(KeyError):
        measurement.configuration("saxpy#0")


# --- failures -------------------------------------------------------------------------------------


def test_a_failure_is_open_until_a_trial_of_its_configuration_begins() -> None:
    lost = Failure("saxpy#0", "the GPU gave up", at(500))
    earlier, later = trial(0, (1.0,), began=at(499)), trial(1, (1.0,), began=at(501))
    other = trial(0, (1.0,), configuration="saxpy#0@8", began=at(999))
    for trials, is_open in (((), True), ((other,), True), ((earlier,), True), ((later,), False),
                            ((later, earlier), False), ((earlier, other, later), False)):  # fmt: skip
        found = Measurement(MACHINE, trials=trials, failures=(lost,)).open_failures()
        assert found == ((lost,) if is_open else ()), trials


def test_a_trial_of_the_same_moment_hides_no_failure() -> None:
    lost = Failure("saxpy#0", "the GPU gave up", at(500))
    measurement = Measurement(MACHINE, trials=(trial(0, (1.0,), began=at(500)),), failures=(lost,))
    assert measurement.open_failures() == (lost,)


def test_of_two_failures_the_one_before_the_trial_is_closed() -> None:
    first, second = Failure("saxpy#0", "no memory", at(1)), Failure("saxpy#0", "the GPU gave up", at(3))
    uncompiled = Failure("huge#0", "does not compile", at(1))
    middle = trial(0, (1.0,), began=at(2), method=Method.COLD)
    measurement = Measurement(MACHINE, trials=(middle,), failures=(first, uncompiled, second))
    assert measurement.open_failures() == (uncompiled, second)


def test_a_whole_second_sorts_before_its_fractions() -> None:
    """A moment without microseconds, which ``isoformat`` writes unless told otherwise, would sort as it should."""
    whole = datetime(2026, 1, 2, 3, 4, 5, 0, UTC)
    assert whole.isoformat() < at(1) < whole.replace(second=6).isoformat()
    assert at(0) == whole.isoformat(timespec="microseconds")
