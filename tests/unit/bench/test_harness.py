"""The harness on a device that is the executor: protocol, checks, restoring, resuming, failures, partitions."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.bench import harness
from kerncast.bench import plan as plan_module
from kerncast.bench.ceilings import Ceiling
from kerncast.bench.device import Copy, Flush, Step, Timed, Untimed
from kerncast.bench.harness import Conditions, Deadline, Harness, compiled_for
from kerncast.bench.plan import Subject, launch_file_subjects, partition_subjects
from kerncast.bench.workspace import Workspace, sets_to_rotate
from kerncast.errors import DeviceLostError, InputError, UnsupportedError
from kerncast.execute import Budget
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.measurements import ClockState, Measurement, Method, Outcome, Protocol, Recorder, read_measurement
from tests.helpers.executor_device import (
    COLD_SECONDS,
    LAUNCH_SECONDS,
    MACHINE,
    THREAD_INSTRUCTIONS_PER_S,
    ExecutorDevice,
)

SOURCE = """
extern "C" __global__ void add(const float *x, const float *y, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
extern "C" __global__ void bump(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
extern "C" __global__ void beyond(float *x, int n) { x[threadIdx.x + n] = 1.0f; }
extern "C" __global__ void sums(const float *x, float *y) { atomicAdd(y + threadIdx.x % 4, x[threadIdx.x]); }
__device__ int state = 5;
extern "C" __global__ void reads_state(int *x) { x[threadIdx.x] = state + threadIdx.x; }
"""
ADD = """
[[launch]]
kernel = "add"
grid = [4]
block = [64]
args = { x = "f32[250] random", y = "f32[250] random", z = "f32[250] zeros", n = 250 }
"""
BUMP = """
[[launch]]
kernel = "bump"
grid = [4]
block = [64]
args = { x = "i32[250] iota", n = 250 }
"""
BEYOND = """
[[launch]]
kernel = "beyond"
grid = [1]
block = [32]
args = { x = "f32[16] zeros", n = 16 }
"""
HUGE = """
[[launch]]
kernel = "bump"
grid = [1]
block = [32]
args = { x = "i32[33554432] zeros", n = 32 }
"""
STATE = """
[[launch]]
kernel = "reads_state"
grid = [1]
block = [32]
args = { x = "i32[32] zeros" }
"""
SUMS = """
[[launch]]
kernel = "sums"
grid = [1]
block = [32]
args = { x = "f32[32] random", y = "f32[64] zeros" }
"""
QUICK = Protocol(trials=2, iterations=4, warmups=3, methods=(Method.SERIES, Method.SINGLE))

Plan = Callable[..., tuple[Subject, ...]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Write launches of the kernels above and return them as subjects."""
    (tmp_path / "kernels.cu").write_text(SOURCE)

    def subjects(*launches: str, protocol: Protocol = QUICK) -> tuple[Subject, ...]:
        path = tmp_path / "kernels.toml"
        path.write_text('source = "kernels.cu"\n' + "".join(launches))
        return launch_file_subjects(path, protocol)

    return subjects


def measure(
    device: ExecutorDevice,
    subjects: Sequence[Subject],
    path: Path,
    deadline: Deadline | None = None,
    **conditions: bool | float | Budget,
) -> Measurement:
    with Recorder.open(path, device.machine) as recorder:
        settings = {"waking_seconds": 0.0, **conditions}
        found = Conditions(deadline or Deadline(), **settings)  # type: ignore[arg-type]
        Harness(device, recorder, found, None).measure(subjects)
    return read_measurement(path)


def test_results_are_checked_and_memory_is_given_back(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    found = measure(device, plan(ADD, BUMP, STATE), tmp_path / "m.jsonl")
    assert [(check.outcome, check.blocks) for check in found.checks] == [
        (Outcome.EQUAL, 4), (Outcome.EQUAL, 4), (Outcome.EQUAL, 1),
    ]  # fmt: skip
    assert device.live == {}
    assert not found.failures


def test_a_gpu_that_computes_something_else_is_found_out(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()

    def spoil() -> None:
        place = device._arena.allocations[2]  # z
        device._arena.bytes_of(place)[:4] = 0

    device.spoil = spoil
    found = measure(device, plan(ADD), tmp_path / "m.jsonl")
    assert found.checks[0].outcome is Outcome.DIFFERENT
    assert "z differs" in found.checks[0].reason
    assert found.trials, "it is measured all the same"


def test_a_device_that_rounds_otherwise_is_close(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()

    def spoil() -> None:
        values = device._arena.bytes_of(device._arena.allocations[2]).view("f4")
        values *= 1 + 2e-7

    device.spoil = spoil
    check = measure(device, plan(ADD), tmp_path / "m.jsonl").checks[0]
    assert check.outcome is Outcome.CLOSE
    assert 0 < check.largest_difference < 1e-6


def test_a_sampled_check_compares_what_its_blocks_changed(plan: Plan, tmp_path: Path) -> None:
    wide = ADD.replace("[4]", "[4000]").replace("250", "256000")
    budget = Budget(sample_seconds=0.001)
    check = measure(ExecutorDevice(), plan(wide), tmp_path / "m.jsonl", check_budget=budget).checks[0]
    assert check.outcome is Outcome.EQUAL
    assert 10 <= check.blocks < 4000


def test_a_sample_of_blocks_that_change_what_they_read_is_not_compared(plan: Plan, tmp_path: Path) -> None:
    wide = BUMP.replace("[4]", "[4000]").replace("250", "256000")
    budget = Budget(sample_seconds=0.001)
    check = measure(ExecutorDevice(), plan(wide), tmp_path / "m.jsonl", check_budget=budget).checks[0]
    assert check.outcome is Outcome.UNCHECKED
    assert "of 4000 blocks" in check.reason


def test_times_are_those_of_the_device(plan: Plan, tmp_path: Path) -> None:
    """32 threads of 4 blocks of 64, all instructions counted: the formula of the device, worked out by hand."""
    found = measure(ExecutorDevice(factors=(1.0,)), plan(STATE), tmp_path / "m.jsonl")
    single, series = (found.trials_of("kernels/kernels#0", method)[0] for method in (Method.SINGLE, Method.SERIES))
    instructions = (single.seconds[0] - LAUNCH_SECONDS) * THREAD_INSTRUCTIONS_PER_S
    assert instructions == pytest.approx(32 * round(instructions / 32))
    assert 5 <= instructions / 32 <= 20
    assert series.seconds == pytest.approx(single.seconds[:1])
    assert (series.launches_per_sample, single.launches_per_sample) == (4, 1)
    assert len(single.seconds) == 4
    assert len(series.warmup_seconds) == len(single.warmup_seconds) == 3


@pytest.mark.parametrize(("factor", "warmups", "iterations"), [(1, 20, 100), (600, 10, 50), (50_000, 5, 5)])
def test_how_often_a_kernel_is_launched_follows_its_duration(
    plan: Plan, tmp_path: Path, factor: float, warmups: int, iterations: int
) -> None:
    """2 µs, 1.2 ms and 0.1 s per launch: the counts of the published protocol, fewer for what takes too long."""
    protocol = Protocol(trials=1, methods=(Method.SINGLE,))
    found = measure(ExecutorDevice(factors=(factor,)), plan(STATE, protocol=protocol), tmp_path / "m.jsonl")
    trial = found.trials[0]
    assert len(trial.seconds) == iterations
    assert len(trial.warmup_seconds) == warmups


def test_cold_flushes_before_every_launch(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice(factors=(1.0,))
    protocol = replace(QUICK, methods=(Method.SINGLE, Method.COLD))
    found = measure(device, plan(ADD, protocol=protocol), tmp_path / "m.jsonl")
    warm, cold = (found.trials_of("kernels/kernels#0", m)[0].seconds for m in (Method.SINGLE, Method.COLD))
    assert [c - w for w, c in zip(warm, cold, strict=True)] == pytest.approx([COLD_SECONDS] * 4)
    assert device.events.count("Flush") == 2 * 4


def test_rotated_buffers_together_exceed_l2(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    called: set[bytes] = set()
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        called.update(call.parameters for step in steps if isinstance(step, Timed) for call in step.calls)
        return run(steps, sm_count)

    device.run = noted  # type: ignore[method-assign]
    protocol = replace(QUICK, iterations=80, methods=(Method.ROTATED,))
    measure(device, plan(ADD, protocol=protocol), tmp_path / "m.jsonl")
    assert len(called) * 3 * 1000 > 2 * MACHINE.l2_bytes
    assert device.live == {}


def test_a_kernel_in_place_finds_its_buffer_restored(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    states: list[int] = []
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        times = run(steps, sm_count)
        states.append(int(device._arena.bytes_of(device._arena.allocations[0]).view("i4")[7]))
        return times

    device.run = noted  # type: ignore[method-assign]
    protocol = replace(QUICK, trials=1, methods=(Method.SINGLE, Method.SERIES))
    found = measure(device, plan(BUMP, protocol=protocol), tmp_path / "m.jsonl")
    assert found.configurations[0].in_place == ("x",)
    # After the check; then per method after the pilots and after the samples: iota leaves 7, each launch adds 1.
    assert states == [7 + 1, 7 + 3, 7 + 1, 7 + 3, 7 + 4]


def test_a_lost_device_ends_the_run_and_the_next_one_goes_on(plan: Plan, tmp_path: Path) -> None:
    path, subjects = tmp_path / "m.jsonl", plan(ADD, BUMP)
    with pytest.raises(DeviceLostError):
        measure(ExecutorDevice(fails_at=40), subjects, path)
    before = read_measurement(path)
    assert len(before.failures) == 1
    assert 0 < len(before.trials) < 8
    after = measure(ExecutorDevice(), subjects, path, retries=True)
    assert after.trials[: len(before.trials)] == before.trials
    assert {(t.configuration, t.method, t.number) for t in after.trials} == {
        (f"kernels/kernels#{i}", method, n) for i in range(2) for method in QUICK.methods for n in range(2)
    }
    assert len(after.trials) == 8
    again = ExecutorDevice()
    assert measure(again, subjects, path, retries=True) == after
    assert again.launches == 0


def test_what_failed_is_not_tried_again_unless_asked(plan: Plan, tmp_path: Path) -> None:
    path, subjects = tmp_path / "m.jsonl", plan(BEYOND)
    measure(ExecutorDevice(), subjects, path)
    assert len(measure(ExecutorDevice(), subjects, path).failures) == 1
    assert len(measure(ExecutorDevice(), subjects, path, retries=True).failures) == 2


def test_a_deadline_that_has_passed_leaves_the_rest(plan: Plan, tmp_path: Path) -> None:
    device, path, subjects = ExecutorDevice(), tmp_path / "m.jsonl", plan(ADD, BUMP)
    with Recorder.open(path, device.machine) as recorder:
        harness = Harness(device, recorder, Conditions(Deadline(1e-9)), None)
        assert harness.measure(subjects) == 2
        assert device.launches == 0
        assert harness.measure(subjects, Deadline(60)) == 0
        assert harness.measure(subjects, Deadline(1e-9)) == 0, "nothing is left to do"


def test_a_kernel_that_misbehaves_never_reaches_the_gpu(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    found = measure(device, plan(BEYOND, ADD), tmp_path / "m.jsonl")
    assert [failure.configuration for failure in found.failures] == ["kernels/kernels#0"]
    assert "past the end of x" in found.failures[0].reason
    assert "load beyond" not in device.events
    assert {trial.configuration for trial in found.trials} == {"kernels/kernels#1"}


def test_a_kernel_that_does_not_end_never_reaches_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(volatile int *x) { while (x[0] == 0) x[1] += 1; }')
    (tmp_path / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [32]\nargs = { x = "i32[2] zeros" }\n'
    )
    device = ExecutorDevice()
    budget = Budget(block_steps=10_000)
    found = measure(device, launch_file_subjects(tmp_path / "k.toml", QUICK), tmp_path / "m.jsonl", check_budget=budget)
    assert "did not end" in found.failures[0].reason
    assert device.launches == 0


def test_buffers_that_do_not_fit_are_a_failure_of_that_launch_alone(plan: Plan, tmp_path: Path) -> None:
    found = measure(ExecutorDevice(), plan(HUGE, ADD), tmp_path / "m.jsonl")
    assert "not free" in found.failures[0].reason
    assert {trial.configuration for trial in found.trials} == {"kernels/kernels#1"}


def test_a_gpu_is_kept_busy_until_its_clock_no_longer_rises(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    clocks = iter([3e8, 6e8, 9e8])

    def state() -> ClockState:
        return ClockState(sm_hz=next(clocks, 1.2e9))

    device.state = state  # type: ignore[method-assign]
    found = measure(device, plan(STATE), tmp_path / "m.jsonl", waking_seconds=5.0)
    assert found.trials[0].before.sm_hz == 1.2e9
    assert device.events.index("Untimed") < device.events.index("Timed")


def test_fewer_sms_are_slower(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice(factors=(1.0,))
    subjects = partition_subjects((2, 4, 8), plan(ADD))
    found = measure(device, subjects, tmp_path / "m.jsonl")
    keys = [f"kernels/kernels#0@{size}" for size in (2, 4, 8)]
    means = [s.mean for key in keys if (s := found.summary(key, Method.SINGLE))]
    assert means == sorted(means, reverse=True)
    assert means[0] > means[2]
    assert [found.configuration(key).sm_count for key in keys] == [2, 4, 8]
    assert all(len(trial.seconds) == 30 for trial in found.trials)
    assert len(found.checks) == 1


def test_the_counted_replay_of_a_graph_is_the_second_and_finds_restored_buffers(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice(factors=(1.0, 1.0, 1.0, 5.0, 1.0))
    graphs: list[tuple[str, ...]] = []
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        if any(isinstance(step, Timed) and step.as_graph for step in steps):
            graphs.append(tuple(type(step).__name__ for step in steps))
        return run(steps, sm_count)

    device.run = noted  # type: ignore[method-assign]
    protocol = replace(QUICK, trials=1, methods=(Method.GRAPH,))
    trial = measure(device, plan(BUMP, protocol=protocol), tmp_path / "m.jsonl").trials[0]
    assert graphs == [("Copy", "Timed", "Copy", "Timed")]
    assert len(trial.seconds) == 1
    assert trial.launches_per_sample == 4
    assert len(trial.warmup_seconds) == 3 + 1, "the first replay is kept as a warm-up"
    assert trial.warmup_seconds[-1] == pytest.approx(5 * trial.seconds[0])


def test_l2_is_flushed_after_the_buffers_are_restored(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    protocol = replace(QUICK, trials=1, methods=(Method.COLD,))
    measure(device, plan(BUMP, protocol=protocol), tmp_path / "m.jsonl")
    assert device.events[-1 - 3 * 4 : -1] == ["Copy", "Flush", "Timed"] * 4


def test_buffers_are_filled_again_after_the_check(plan: Plan, tmp_path: Path) -> None:
    """What a kernel only writes is not restored, but the first trial begins on what the launch file says."""
    device = ExecutorDevice()
    seen: list[float] = []
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        seen.append(float(device._arena.bytes_of(device._arena.allocations[2]).view("f4")[:8].sum()))
        return run(steps, sm_count)

    device.run = noted  # type: ignore[method-assign]
    measure(device, plan(ADD), tmp_path / "m.jsonl")
    assert seen[0] == seen[1] == 0.0
    assert seen[2] > 0.0


def test_fills_follow_the_seed(plan: Plan, tmp_path: Path) -> None:
    first = plan(ADD)[0]
    other = replace(first, launch=replace(first.launch, seed=7))
    device = ExecutorDevice()
    kernel = compiled_for(first.launch, device.machine)
    contents = []
    for subject in (first, other, first):
        with Workspace(device, kernel, subject.launch) as space:
            contents.append(space.read()["x"].tobytes())
    assert contents[0] == contents[2] != contents[1]
    del tmp_path


def test_all_of_a_buffer_is_restored(plan: Plan) -> None:
    device, subject = ExecutorDevice(), plan(BUMP)[0]
    with Workspace(device, compiled_for(subject.launch, device.machine), subject.launch) as space:
        copies = space.restoring(("x",))
        device.run([Untimed((space.call(),)), *copies])
        assert (space.read()["x"] == range(250)).all()
        assert space.restoring(()) == ()


def test_a_buffer_that_does_not_fit_leaves_nothing_behind(plan: Plan, tmp_path: Path) -> None:
    two = HUGE.replace("33554432", "8000000").replace('x = "i32', 'x = "i32[8000000] zeros", y = "i32')
    device = ExecutorDevice()
    (tmp_path / "two.cu").write_text('extern "C" __global__ void bump(int *x, int *y, int n) { x[0] = y[0] = n; }')
    (tmp_path / "two.toml").write_text('source = "two.cu"\n' + two.replace('8000000] zeros", n', '12000000] zeros", n'))
    subjects = launch_file_subjects(tmp_path / "two.toml", QUICK)
    found = measure(device, [*subjects, *plan(ADD)], tmp_path / "m.jsonl")
    assert len(found.failures) == 1
    assert device.live == {}
    assert found.trials


def test_a_kernel_that_has_changed_is_refused(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    measure(ExecutorDevice(), plan(ADD), path)
    for changed in (ADD.replace("[4]", "[5]"), ADD.replace("random", "ones")):
        with pytest.raises(InputError, match="has changed since it was measured"):
            measure(ExecutorDevice(), plan(changed), path)
    same = plan(ADD)[0]
    with pytest.raises(InputError, match="seed is 1, not 0"):
        measure(ExecutorDevice(), [replace(same, launch=replace(same.launch, seed=1))], path)
    (tmp_path / "kernels.cu").write_text(SOURCE.replace("x[i] + y[i]", "x[i] - y[i]"))
    plan_module._source_bytes.cache_clear()
    subject = launch_file_subjects(tmp_path / "kernels.toml", QUICK)
    with pytest.raises(InputError, match="has changed since it was measured"):
        measure(ExecutorDevice(), subject, path)


def test_an_included_header_counts_as_code(tmp_path: Path) -> None:
    def subjects(factor: str) -> tuple[Subject, ...]:
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}")
        (tmp_path / "k.cu").write_text(
            '#include "factor.h"\nextern "C" __global__ void k(float *x) { x[threadIdx.x] = FACTOR; }'
        )
        (tmp_path / "k.toml").write_text(
            'source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [32]\nargs = { x = "f32[32] zeros" }\n'
        )
        return launch_file_subjects(tmp_path / "k.toml", replace(QUICK, trials=1))

    path = tmp_path / "m.jsonl"
    measure(ExecutorDevice(), subjects("2.0f"), path)
    harness._compiled_once.cache_clear()
    more = tuple(replace(each, protocol=QUICK) for each in subjects("3.0f"))
    with pytest.raises(InputError, match="code_sha256"):
        measure(ExecutorDevice(), more, path)


def test_without_a_check_every_buffer_is_restored(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    found = measure(ExecutorDevice(), plan(BUMP, protocol=replace(QUICK, trials=1)), path, is_checked=False)
    assert found.configurations[0].in_place == ("x",)
    assert not found.checks
    later = measure(ExecutorDevice(), plan(BUMP), path)
    assert len(later.trials) == 4
    assert later.checks[0].outcome is Outcome.EQUAL


def test_a_failure_on_parts_is_one_of_each_part(plan: Plan, tmp_path: Path) -> None:
    found = measure(ExecutorDevice(), partition_subjects((2, 4), plan(BEYOND)), tmp_path / "m.jsonl")
    assert [each.configuration for each in found.failures] == ["kernels/kernels#0@2", "kernels/kernels#0@4"]
    assert len(found.open_failures()) == 2


def test_the_state_before_a_trial_is_asked_before_it(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    device.state = lambda: ClockState(sm_hz=float(device.launches + 1))  # type: ignore[method-assign]
    trial = measure(device, plan(STATE), tmp_path / "m.jsonl").trials[0]
    assert trial.before.sm_hz is not None
    assert trial.after.sm_hz is not None
    assert trial.before.sm_hz < trial.after.sm_hz


def test_a_share_of_the_time_ends_before_all_of_it() -> None:
    whole = Deadline(1000)
    part = whole.share(1e-5)
    time.sleep(0.05)
    assert part.has_passed
    assert not whole.has_passed
    assert not Deadline().share(0.5).has_passed


def test_what_the_executor_does_not_cover_is_measured_with_every_buffer_restored(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedError("wmma is not covered")

    monkeypatch.setattr("kerncast.bench.check.execute", refuse)
    found = measure(ExecutorDevice(), plan(ADD), tmp_path / "m.jsonl")
    assert found.checks[0].outcome is Outcome.UNCHECKED
    assert "wmma" in found.checks[0].reason
    assert found.configurations[0].in_place == ("x", "y", "z")
    assert found.trials


def test_sums_in_another_order_are_close(plan: Plan, tmp_path: Path) -> None:
    assert measure(ExecutorDevice(), plan(SUMS), tmp_path / "m.jsonl").checks[0].outcome is Outcome.EQUAL


def test_a_ceiling_is_set_up_and_read_after_every_trial(tmp_path: Path) -> None:
    (tmp_path / "c.cu").write_text(
        'extern "C" __global__ void prepare(int *x) { x[threadIdx.x] = 40 + threadIdx.x; }\n'
        'extern "C" __global__ void reads(const int *x, float *cycles) { cycles[0] = x[2]; }\n'
    )
    x, cycles = (Argument(n, Buffer(t, (4,), Fill("zeros"))) for n, t in (("x", "i32"), ("cycles", "f32")))
    launch = Launch(tmp_path / "c.cu", "reads", (1, 1, 1), (1, 1, 1), arguments=(x, cycles))
    setup = replace(launch, kernel="prepare", block=(4, 1, 1), arguments=(x,))
    ceiling = Ceiling("some_latency", launch, 1.0, "step", reading=("cycles", "latency", "cycle"), setup=setup)
    subject = Subject("ceilings", "some_latency", launch, replace(QUICK, methods=(Method.SERIES,)), ceiling=ceiling)
    device = ExecutorDevice()
    found = measure(device, [subject], tmp_path / "m.jsonl")
    assert [(each.values[0], each.unit) for each in found.readings] == [(42.0, "cycle")] * 2
    assert device.events[:3] == ["load reads", "load prepare", "Untimed"]
    assert (found.configurations[0].amount, found.configurations[0].amount_unit) == (1.0, "step")
    assert device.live == {}


def test_a_reading_that_is_no_number_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "c.cu").write_text('extern "C" __global__ void bad(float *cycles) { cycles[0] = 0.0f / cycles[1]; }')
    launch = Launch(
        tmp_path / "c.cu", "bad", (1, 1, 1), (1, 1, 1),
        arguments=(Argument("cycles", Buffer("f32", (2,), Fill("zeros"))),),
    )  # fmt: skip
    ceiling = Ceiling("bad", launch, 1.0, "step", reading=("cycles", "latency", "cycle"))
    found = measure(
        ExecutorDevice(), [Subject("ceilings", "bad", launch, QUICK, ceiling=ceiling)], tmp_path / "m.jsonl"
    )
    assert "is not a number" in found.open_failures()[0].reason
    assert not found.trials


def test_buffers_too_small_to_be_rotated_are_not(plan: Plan, tmp_path: Path) -> None:
    large = replace(MACHINE, l2_bytes=2**30)
    protocol = replace(QUICK, methods=(Method.ROTATED, Method.SERIES))
    found = measure(ExecutorDevice(large), plan(ADD, protocol=protocol), tmp_path / "m.jsonl")
    assert {trial.method for trial in found.trials} == {Method.SERIES}


def test_rotation_goes_on_through_the_trials(plan: Plan, tmp_path: Path) -> None:
    """66 sets of 3 KB in a device with 64 KiB of L2: none comes again before all others have been."""
    device = ExecutorDevice()
    called: list[bytes] = []
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        called.extend(call.parameters for step in steps if isinstance(step, Timed) for call in step.calls)
        return run(steps, sm_count)

    device.run = noted  # type: ignore[method-assign]
    measure(device, plan(ADD, protocol=replace(QUICK, trials=12, methods=(Method.ROTATED,))), tmp_path / "m.jsonl")
    sets = len(set(called))
    assert sets * 3 * 1000 > 3 * MACHINE.l2_bytes
    assert all(len(set(called[i : i + sets])) == sets for i in range(len(called) - sets))


def test_single_launches_restore_their_own_buffers_and_rotated_ones_all(plan: Plan, tmp_path: Path) -> None:
    device = ExecutorDevice()
    asked: list[tuple[int, int, int]] = []
    run = device.run

    def noted(steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        asked.append(tuple(sum(isinstance(step, kind) for step in steps) for kind in (Copy, Flush, Timed)))  # type: ignore[arg-type]
        return run(steps, sm_count)

    device.run = noted  # type: ignore[method-assign]
    protocol = replace(QUICK, trials=1, iterations=8, methods=(Method.SINGLE, Method.ROTATED))
    large = BUMP.replace("[4]", "[40]").replace("250", "2500")
    measure(device, plan(large, protocol=protocol), tmp_path / "m.jsonl")
    sets = sets_to_rotate(10_000, MACHINE.l2_bytes)
    assert sets > 10
    # The check; pilots and samples of single; pilots and samples of rotated.
    assert asked == [(0, 0, 0), (1, 0, 3), (8, 0, 8), (sets, 0, 3), (sets, 1, 1)]
