"""Kinds of bounds: what no run below them does to them, one count beside a curve, quantiles, the worst path, tails."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import InputError, Refusal
from kerncast.gpu import load_gpu
from kerncast.measurements import PartitionTimes
from kerncast.prediction import Prediction, Term, Timing
from kerncast.read.launches import only_launch
from kerncast.report.bounds.bounds_table import bound_object, caveats_of, guarantee_of
from kerncast.studies.bounding import BoundOptions, KernelBounds, bound_launch, bound_times
from kerncast.studies.bounds import Blocks, BoundMethod, BoundQuestion, Kind, bound_method
from kerncast.studies.bounds.base import Curve, RunTails, passed_with, run_tails
from kerncast.studies.bounds.sequence import bounds_in_order
from kerncast.studies.bounds.shapes import SHARES, read_shapes, shape_bounds
from kerncast.studies.bounds.simulation import SimulatedCurve, SimulationBound, simulated_curve
from kerncast.studies.partitions import simulated_partitions, worst_paths
from kerncast.studies.worst_case import worst_case_of
from tests.helpers.places import ROOT

GPU = load_gpu("TITAN V")
SAXPY = ROOT / "examples" / "saxpy.toml"
COUNTS = (1, 2, 4, 7, 10, 20, 40)
ABOVE = 1 + 1e-9


def curve_of(seconds: Sequence[float], latency: Sequence[float] | None = None) -> SimulatedCurve:
    """A curve that DRAM limits, but for the part of latency on each count."""
    parts = latency or [0.0] * len(seconds)
    predictions = [
        Prediction(
            "k", 0, "g", "g", time, time / 1.5, time * 1.5, 0.99, Timing.SERIES, "dram",
            (Term("dram", time * (1 - part) * 0.999),), (), "simulation",
        )
        for time, part in zip(seconds, parts, strict=True)
    ]  # fmt: skip
    return simulated_curve(COUNTS, predictions, 0.99)


IDEAL = curve_of([40e-3 / k for k in COUNTS])
REGIMES = curve_of([max(40e-3 / k, 2e-3) for k in COUNTS], [0.98, 0.98, 0.95, 0.7, 0.4, 0.1, 0.1])


def asked(times: PartitionTimes | None, curve: SimulatedCurve | None = None, level: float = 0.99) -> BoundQuestion:
    return BoundQuestion(times, times.counts if times else (), COUNTS, 40, level, simulated=curve)


METHODS: dict[str, Callable[[], tuple[BoundMethod, SimulatedCurve | None]]] = {
    "simulation": lambda: (SimulationBound(), REGIMES),
    "shapes": lambda: (bound_method("shapes"), None),
    "list-scheduling": lambda: (bound_method("list-scheduling"), None),
    "equal-blocks": lambda: (bound_method("equal-blocks"), None),
}
RUNS = st.lists(st.tuples(st.sampled_from(COUNTS), st.floats(0.8, 1.6)), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(METHODS)), RUNS, st.floats(0.3, 1.0))
def test_a_run_below_its_bound_raises_no_bound(name: str, runs: list[tuple[int, float]], below: float) -> None:
    """A further run of a count that was measured, anywhere below the bound: all bounds fall, or stay."""
    method, curve = METHODS[name]()
    times = PartitionTimes(tuple(k for k, _ in runs), tuple(max(40e-3 / k, 2e-3) * noise for k, noise in runs))
    before = method.bound(asked(times, curve))
    count = times.tpcs[-1]
    further = below * before.bound[COUNTS.index(count)]
    after = method.bound(asked(PartitionTimes((*times.tpcs, count), (*times.seconds, further)), curve))
    for bound, then, expected in zip(before.bound, after.bound, after.expected, strict=True):
        assert then <= bound * ABOVE
        assert expected <= then * ABOVE
    assert all(fewer * ABOVE >= more for fewer, more in pairwise(before.bound))
    for measured in times.counts:
        assert before.bound[COUNTS.index(measured)] * ABOVE >= times.largest(measured)


def test_a_run_above_its_bound_raises_them() -> None:
    calm = PartitionTimes((7,) * 5, (1.0,) * 5)
    before = bound_method("shapes").bound(asked(calm)).bound
    broken = PartitionTimes((*calm.tpcs, 7), (*calm.seconds, 1.3 * before[3]))
    assert bound_method("shapes").bound(asked(broken)).bound[3] >= broken.seconds[-1]


def test_thousands_of_runs_are_bounded_in_reasonable_time() -> None:
    draw = np.random.default_rng(0)
    counts = tuple(int(count) for count in draw.choice(COUNTS, 20_000))
    times = PartitionTimes(counts, tuple(float(np.exp(draw.normal(0, 0.01))) / count for count in counts))
    calls = 0

    def estimate(_: PartitionTimes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        nonlocal calls
        calls += 1
        return np.array([1.2 / count for count in COUNTS])

    bounds_in_order(times, COUNTS, estimate)
    assert calls < 250


# --- one count beside a curve ----------------------------------------------------------------------


def test_one_count_moves_the_whole_curve_and_says_most_where_the_same_resource_limits() -> None:
    """The board is a fifth slower: ten runs on all TPCs tell so, and little of how slow latency is on one."""
    times = PartitionTimes((40,) * 10, tuple(2e-3 * 1.2 * (1 + 0.001 * n) for n in range(10)))
    answer = SimulationBound().bound(asked(times, REGIMES))
    assert answer.expected == pytest.approx([1.2 * each for each in REGIMES.seconds.seconds], rel=0.05)
    above = [bound / expected for bound, expected in zip(answer.bound, answer.expected, strict=True)]
    assert above[0] > above[4] > above[5] > above[6] > 1
    assert above[5] < 1.15


def test_a_second_count_where_another_resource_limits_tightens_the_rest() -> None:
    one = SimulationBound().bound(asked(PartitionTimes((40,), (2e-3,)), REGIMES))
    two = SimulationBound().bound(asked(PartitionTimes((40, 1), (2e-3, 40e-3)), REGIMES))
    assert two.bound[1] < one.bound[1]
    assert one.measure_next in {1, 2, 4}


def test_a_time_that_no_error_explains_is_told() -> None:
    times = PartitionTimes((7,), (40e-3 / 7 * 3,))
    found = KernelBounds(
        GPU, "simulation", Kind.CONFORMAL, COUNTS, SimulationBound().bound(asked(times, IDEAL)), 0.99, times
    )
    assert caveats_of(found)[0].kind.value == "time-far-from-simulation"


def test_published_methods_are_what_they_say_with_one_anchor() -> None:
    """On 1/k, a simulated curve of 1/k scaled by one time is exact; a table alone takes the median learned kernel."""
    times = PartitionTimes((7, 7), (5.8e-6, 5.82e-6))
    found = bound_times(times, GPU, COUNTS, BoundOptions("linear-regression", form="inverse"))
    assert found.answer.bound[0] == pytest.approx(5.82e-6 * 7 * 1.05)
    for method in ("curve-fit-offset", "curve-fit", "linear-regression"):
        bounds = bound_times(times, GPU, COUNTS, BoundOptions(method)).answer.bound
        assert bounds[0] > 1.3 * bounds[3], method
    with pytest.raises(InputError, match="needs times on two counts"):
        bound_times(times, GPU, COUNTS, BoundOptions("curve-fit", form="affine"))


# --- quantiles -------------------------------------------------------------------------------------


def test_quantiles_of_medians_and_runs_are_those_of_draws() -> None:
    """A million draws: a median from a few nodes, times a run above it with half of a Pareto tail."""
    draw = np.random.default_rng(3)
    nodes, weights = np.array([[0.0], [0.1], [0.3]]), np.array([0.5, 0.3, 0.2])
    tails = RunTails(np.array([4.0]), np.array([0.05]))
    medians = draw.choice(nodes[:, 0], 1_000_000, p=weights)
    above = np.where(draw.random(1_000_000) < 0.5, 0.0, 0.05 * (draw.random(1_000_000) ** (-1 / 4) - 1))
    for risk in (0.1, 0.01, 0.001):
        expected = np.quantile(medians + above, 1 - risk)
        assert passed_with(risk, nodes, weights, tails)[0] == pytest.approx(expected, abs=0.01)


def test_repeats_of_one_count_make_others_wider_and_never_narrower() -> None:
    calm = run_tails(PartitionTimes((1,) * 10, (1.0,) * 10), (1, 2))
    wild = run_tails(PartitionTimes((1,) * 10, tuple(1 + 0.1 * n for n in range(10))), (1, 2))
    alone = run_tails(None, (1, 2))
    zero = np.zeros((1, 2))
    calm_q, wild_q, alone_q = (passed_with(0.01, zero, np.ones(1), each) for each in (calm, wild, alone))
    assert calm_q[0] < calm_q[1] == alone_q[1] < wild_q[1]


@pytest.mark.parametrize("anchors", [(1, 40), (1, 20), (5, 40)])
def test_learned_curves_hold_left_out_families_from_two_counts(anchors: tuple[int, int]) -> None:
    """Each family bounded by the others at 99 %, by the shipped curves: at most 1.5 % of the points are above."""
    shapes = read_shapes()
    points = np.array(SHARES) * 40
    wanted = tuple(sorted({int(each) for each in points if each == int(each)}))
    missed = judged = 0
    for row, family in enumerate(shapes.families):
        truth = np.exp(np.interp(np.log(wanted), np.log(points), shapes.logs[row]))
        known = Curve(anchors, tuple(truth[[wanted.index(each) for each in anchors]].tolist()))
        bounds = shape_bounds(shapes.without(family), known, (wanted, 40), 0.99)
        missed += int((truth > bounds * ABOVE).sum())
        judged += len(wanted) - 2
    assert judged > 2000
    assert missed / judged <= 0.015


@pytest.mark.parametrize("blocks", [40, 50, 82, 100, 170])
def test_known_blocks_make_the_steps_of_a_learned_curve(blocks: int) -> None:
    """Staircases that two counts do not show: with their grid none is above its bound, and bounds are close."""
    counts = tuple(range(1, 41))
    steps = [float(-(-blocks // count)) for count in counts]
    times = PartitionTimes((1, 40), (steps[0], steps[-1]))
    found = bound_times(times, GPU, counts, BoundOptions("shapes", blocks=Blocks(blocks))).answer.bound
    assert all(bound >= time for bound, time in zip(found, steps, strict=True))
    without = bound_times(times, GPU, counts, BoundOptions("shapes")).answer.bound
    assert sum(found) < 1.3 * sum(steps)
    assert any(bound < time for bound, time in zip(without, steps, strict=True)) or sum(without) > sum(found)


def test_faulty_curves_are_told(tmp_path: Path) -> None:
    for number, text in enumerate(
        ("", "shape,k,g,1\n", "allowance,0.9,0\nallowance,0.5,0\nshape,k,g" + ",0" * len(SHARES))
    ):
        path = tmp_path / f"{number}.csv"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="learned curves are faulty"):
            read_shapes(path)


# --- the worst path --------------------------------------------------------------------------------


SUITE = ROOT / "src" / "kerncast" / "kernels" / "suite"


def first_launch(name: str, folder: Path) -> Path:
    """A launch file with only the first launch of a program of the suite."""
    head, *launches = (SUITE / f"{name}.toml").read_text(encoding="utf-8").split("[[launch]]")
    found = folder / f"{name}.toml"
    text = head.replace('source = "', f'source = "{SUITE}/') + "[[launch]]" + launches[0]
    found.write_text(text, encoding="utf-8")
    return found


@pytest.mark.parametrize("name", ["saxpy", "reduce_sum", "shared_transpose", "histogram"])
def test_the_worst_path_is_above_the_simulation_on_every_part(name: str, tmp_path: Path) -> None:
    parts = GPU, (1, 8, 40)
    launch = first_launch(name, tmp_path)
    worst = worst_paths(only_launch(launch), parts, Timing.SERIES)
    expected = simulated_partitions(only_launch(launch), parts, 0.9, Timing.SERIES).curve.seconds
    for bound, time in zip(worst.seconds, expected.seconds, strict=True):
        assert time < bound < 100 * time


def test_a_chain_of_dependent_loads_takes_one_latency_each_at_worst(tmp_path: Path) -> None:
    """One thread, 64 loads one after the other, nothing cached: 64 latencies of DRAM, and little beside."""
    (tmp_path / "k.cu").write_text(
        "__global__ void chase(const int *p, int *out) { int i = 0; for (int n = 0; n < 64; n++) i = p[i]; *out = i; }",
        encoding="utf-8",
    )
    file = tmp_path / "chase.toml"
    arguments = 'args = { p = "i32[4096] zeros", out = "i32[1] zeros" }'
    file.write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "chase"\ngrid = [1]\nblock = [1]\n{arguments}\n', encoding="utf-8"
    )
    (seconds,) = worst_paths(only_launch(file), (GPU, (40,)), Timing.PROFILER).seconds
    base = GPU.at_clock("base")
    assert base.dram_latency is not None
    least = 64 * base.dram_latency / base.clock_hz
    assert least < seconds < 1.5 * least + 5e-6


def test_a_time_above_the_worst_path_raises_it_and_is_told() -> None:
    times = PartitionTimes((40,), (1.0,))
    options = BoundOptions(kind=Kind.ANALYTICAL)
    found = bound_launch(only_launch(SAXPY), times, GPU, ((1, 40), options))
    assert found.answer.bound == (1.0, 1.0)
    assert "time-above-worst-path" in [each.kind.value for each in caveats_of(found)]
    assert "no load hits L1" in guarantee_of(found, found.tpcs[-1])


# --- tails, stand-ins, plans ------------------------------------------------------------------------


def test_many_runs_of_one_count_have_a_tail_and_other_counts_take_it() -> None:
    draw = np.random.default_rng(1)
    runs = np.exp(draw.normal(0, 0.02, 600)) * 1e-3
    times = PartitionTimes((40,) * 600, tuple(runs.tolist()))
    found = bound_times(times, GPU, COUNTS, BoundOptions(kind=Kind.EXTREME))
    bound = dict(zip(COUNTS, found.answer.bound, strict=True))
    assert max(runs) <= bound[40] < 1.15e-3
    assert bound[1] > bound[40]
    assert "shape" in guarantee_of(found, found.tpcs[-1])
    assert bound_object(found)["extremes"]["runs"] == 600
    with pytest.raises(Refusal, match="runs"):
        bound_times(times.first(50), GPU, COUNTS, BoundOptions(kind=Kind.EXTREME))
    with pytest.raises(Refusal, match="nothing was measured"):
        bound_launch(only_launch(SAXPY), None, GPU, ((1,), BoundOptions(kind=Kind.EXTREME)))


def test_where_the_roofline_stands_in_nothing_is_promised() -> None:
    found = bound_launch(only_launch(SAXPY), None, load_gpu("jetson-agx-xavier"), ((1, 4), BoundOptions()))
    assert (found.method, found.kind) == ("roofline", Kind.MARGIN)
    assert guarantee_of(found, found.tpcs[-1]).startswith("none: the roofline stands in")
    orin = bound_launch(only_launch(SAXPY), None, load_gpu("jetson-agx-orin-64gb"), ((1, 8), BoundOptions()))
    assert (orin.method, orin.kind) == ("simulation", Kind.CONFORMAL)
    assert orin.answer.bound[0] > 2 * orin.answer.bound[1]


def test_each_planned_measurement_lowers_the_bounds() -> None:
    times = PartitionTimes((1,) * 5, (40e-3, 40.1e-3, 40e-3, 40.2e-3, 40.1e-3))
    plan = bound_times(times, GPU, tuple(range(1, 41)), BoundOptions(plan=3)).plan
    assert [step.tpcs is None for step in plan] == [True, False, False, False]
    assert all(more.mean_above <= fewer.mean_above * ABOVE for fewer, more in pairwise(plan))


def test_measures_of_bounds() -> None:
    """Nothing missed in 299 times: the probability of a miss is at most 1 %, at 95 % confidence."""
    assert worst_case_of([(1.0, 1.2)] * 299).miss_probability_upper == pytest.approx(0.01, abs=1e-4)
    assert worst_case_of([(1.0, 0.5)]).miss_probability_upper == 1.0


def test_a_bound_of_zero_has_no_tightness() -> None:
    found = worst_case_of([(1.0, 0.0), (2.0, 3.0)])
    assert found.tightness is None
    assert found.misses == 1
