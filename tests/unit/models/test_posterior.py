"""The posterior over residuals: closed forms, an independent implementation, and what evidence may never do."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from kerncast.errors import InputError
from kerncast.models import Estimate
from kerncast.models.transfer.posterior import (
    Effects,
    Posterior,
    Residual,
    Subject,
    covariance,
    era_of,
    read_effects,
    shares_of,
)
from kerncast.prediction import Term
from kerncast.studies.evidence import FITTED, Pair, Pairs
from tests.helpers.places import ROOT

NONE = Effects(**dict.fromkeys(Effects.__slots__, 0.0))
ALONE = replace(NONE, doublings=8.0, body=1.0)
DRAM, ISSUE = (("dram", 1.0),), (("issue", 1.0),)
#: Compute capability and microarchitecture of some GPUs.
GPUS = {
    "k40": (35, "Kepler"),
    "titan-x": (52, "Maxwell"),
    "v100": (70, "Volta"),
    "t4": (75, "Turing"),
    "tu102": (75, "Turing"),
    "a2": (86, "Ampere"),
}


def subject(
    kernel: str = "saxpy", size: int = 4096, gpu: str = "v100", shares: tuple[tuple[str, float], ...] = DRAM
) -> Subject:
    """Return a launch on a GPU."""
    return Subject(kernel, f"{kernel} {size}", gpu, *GPUS[gpu], size, shares)


def measured(of: Subject, ratio: float, variance: float = 1e-4) -> Residual:
    """Return a time that is so many times its simulation."""
    return Residual(of, math.log(ratio), variance)


subjects = st.builds(
    subject,
    st.sampled_from(("saxpy", "dot", "gemm")),
    st.sampled_from((1024, 4096, 65536)),
    st.sampled_from(sorted(GPUS)),
    st.sampled_from((DRAM, ISSUE, (("dram", 0.5), ("issue", 0.5)))),
)
residuals = st.builds(measured, subjects, st.floats(0.3, 3.0), st.floats(1e-5, 0.05))


def test_two_launches_share_what_their_names_say() -> None:
    a = subject()
    others = {
        "kernel": subject(size=2**20, gpu="k40", shares=ISSUE),
        "kernel_era": subject(size=2**20, gpu="a2", shares=ISSUE),
        "kernel_generation": subject(size=2**20, gpu="t4", shares=ISSUE),
        "launch": subject(gpu="k40", shares=ISSUE),
        "launch_generation": subject(gpu="t4", shares=ISSUE),
        "gpu": subject("dot"),
    }
    for name, other in others.items():
        of_one = replace(ALONE, **{name: 0.04})
        nearness = math.exp(-abs(math.log2(a.threads / other.threads)) / 8) if name.startswith("kernel") else 1
        assert covariance([a], [other], of_one)[0, 0] == pytest.approx(0.04 * nearness), name
    foreign = covariance([a], [subject("dot", gpu="k40")], read_effects())
    assert foreign[0, 0] == 0


def test_other_kernels_tell_of_a_gpu_what_limits_both() -> None:
    effects = replace(ALONE, gpu=0.04)
    alike, unlike = subject("dot"), subject("dot", shares=ISSUE)
    half = subject("dot", shares=(("dram", 0.5), ("issue", 0.5)))
    found = [float(covariance([subject()], [other], effects)[0, 0]) for other in (alike, half, unlike)]
    assert found == pytest.approx([0.04, 0.04 * 0.5**3, 0])


def test_an_unseen_microarchitecture_is_learned_from_its_own_times() -> None:
    a, b = (replace(subject(size=size, gpu="t4"), is_unseen=True) for size in (4096, 65536))
    effects = replace(ALONE, unseen=0.05)
    assert covariance([a], [b], effects)[0, 0] == pytest.approx(0.05)
    assert covariance([a], [subject()], effects)[0, 0] == 0


@given(st.lists(residuals, min_size=1, max_size=5), subjects)
def test_mean_and_variance_are_those_of_a_conditional_normal(known: list[Residual], wanted: Subject) -> None:
    effects = replace(read_effects(), body=1.0)
    every = [*(each.subject for each in known), wanted]
    joint = covariance(every, every, effects) + np.diag([*(each.variance for each in known), 0.0])
    a, b, c = joint[:-1, :-1], joint[:-1, -1], joint[-1, -1]
    weights = np.linalg.lstsq(a, b, rcond=None)[0]
    found = Posterior(known, effects).of(wanted)
    assert found.log_error == pytest.approx(float(weights @ [each.log_error for each in known]), abs=1e-6)
    assert found.width**2 == pytest.approx(max(0.0, c - b @ weights) / c, abs=1e-6)


@given(residuals)
def test_the_measured_launch_gets_its_measurement(known: Residual) -> None:
    exact = replace(known, variance=1e-6)
    found = Posterior([exact]).of(known.subject)
    assert found.log_error == pytest.approx(known.log_error, abs=1e-3)
    assert found.width < 0.02


@given(residuals, subjects)
def test_there_and_back_returns_the_measurement(known: Residual, other: Subject) -> None:
    exact = replace(known, variance=1e-6)
    there = Posterior([exact]).of(other)
    supposed = Residual(other, there.log_error, 1e-4)
    assert Posterior([exact, supposed]).of(known.subject).log_error == pytest.approx(known.log_error, abs=2e-3)


@given(st.lists(residuals, min_size=1, max_size=5), residuals, subjects)
def test_more_measurements_never_widen(known: list[Residual], further: Residual, wanted: Subject) -> None:
    assert Posterior([*known, further]).of(wanted).width <= Posterior(known).of(wanted).width + 1e-9


@given(st.lists(residuals, min_size=2, max_size=5), subjects)
def test_the_order_does_not_matter(known: list[Residual], wanted: Subject) -> None:
    one, other = Posterior(known).of(wanted), Posterior(known[::-1]).of(wanted)
    assert one.log_error == pytest.approx(other.log_error, abs=1e-9)
    assert one.width == pytest.approx(other.width, abs=1e-9)
    assert [each.factor for each in one.moved] == pytest.approx([each.factor for each in other.moved[::-1]])


@given(residuals)
def test_what_is_not_related_moves_nothing(known: Residual) -> None:
    other = Subject("another", "another 1", "another GPU", 90, "Hopper", 4096, known.subject.shares)
    found = Posterior([known]).of(other)
    assert (found.log_error, found.width) == (0, 1)


@given(st.lists(residuals, min_size=1, max_size=5), subjects)
def test_the_factors_of_all_measurements_make_the_forecast(known: list[Residual], wanted: Subject) -> None:
    found = Posterior(known).of(wanted)
    assert math.prod(each.factor for each in found.moved) == pytest.approx(found.factor)


def test_what_limits_the_target_leaves_times_of_its_own_kernel_alone() -> None:
    """A target whose memory becomes faster is limited by something else: its factor must not jump."""
    known = Posterior([measured(subject(gpu="t4"), 1.4)])
    assert known.of(subject(shares=DRAM)).factor == known.of(subject(shares=ISSUE)).factor


def test_a_measurement_that_all_others_contradict_is_named() -> None:
    agreeing = [measured(subject(gpu=gpu), 1.1) for gpu in ("v100", "a2")]
    odd = measured(subject(gpu="t4"), 11.0)
    found = Posterior([*agreeing, odd]).of(subject(gpu="v100"))
    assert [each.contradicts for each in found.moved][-1]
    assert not any(each.contradicts for each in Posterior(agreeing).of(subject(gpu="t4")).moved)


@given(st.lists(residuals, min_size=3, max_size=5))
def test_deviations_are_those_of_leaving_one_out(known: list[Residual]) -> None:
    deviations = Posterior(known).deviations
    for number, each in enumerate(known):
        rest = known[:number] + known[number + 1 :]
        effects = replace(read_effects(), body=1.0)
        found = Posterior(rest, effects).of(each.subject)
        prior = float(covariance([each.subject], [each.subject], effects)[0, 0])
        expected = (each.log_error - found.log_error) / math.sqrt(found.width**2 * prior + each.variance)
        assert deviations[number] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_a_resource_that_is_never_busy_has_no_blame() -> None:
    found = dict(shares_of(Estimate(2.0, "dram", (Term("dram", 2.0), Term("issue", 0.2)), 2.0, 2.0)))
    assert found["dram"] == pytest.approx(1 / 1.0001)
    assert sum(found.values()) == pytest.approx(1)
    assert "latency" not in found


def test_eras_follow_the_instruction_sets() -> None:
    assert [era_of(each) for each in (30, 37, 50, 61, 70, 89, 120)] == [3, 3, 5, 5, 7, 7, 7]


def drawn(truth: Effects, launches: int = 40) -> list[Residual]:
    """Return residuals that some effects have made."""
    every = [subject(f"kernel {k}", gpu=gpu) for k in range(launches) for gpu in ("k40", "v100", "t4")]
    whole = covariance(every, every, truth) + 1e-4 * np.eye(len(every))
    errors = multivariate_normal(np.zeros(len(every)), whole, seed=7).rvs()
    return [Residual(each, float(error), 1e-4) for each, error in zip(every, errors, strict=True)]


def all_pairs(known: list[Residual]) -> list[Pair]:
    """Return all pairs of one launch on two GPUs."""
    launches = [each.subject.launch for each in known]
    places = range(len(known))
    return [Pair(a, b, 1.0) for a in places for b in places if a != b and launches[a] == launches[b]]


def test_an_effect_of_kernels_is_told_from_one_of_launches_on_a_gpu() -> None:
    start = replace(ALONE, measurement=1e-4)
    carried = drawn(replace(ALONE, launch=0.04, launch_gpu=0.002))
    own = drawn(replace(ALONE, launch=0.002, launch_gpu=0.04))
    shares = []
    for known in (carried, own):
        found = Pairs(known, all_pairs(known), start).fit()
        a, b = known[0].subject, known[1].subject
        shares.append(float(covariance([a], [b], found)[0, 0]) / found.prior)
    assert shares[0] > 0.7
    assert shares[1] < 0.3


def test_the_slopes_of_the_score_are_those_of_differences() -> None:
    known = drawn(replace(ALONE, kernel=0.02, launch_gpu=0.01), launches=6)
    pairs = Pairs(known, all_pairs(known), replace(ALONE, measurement=1e-4))
    weights = np.full(len(all_pairs(known)), 1 / len(all_pairs(known)))
    logs = np.log(np.linspace(0.002, 0.02, len(FITTED)))
    slopes = pairs._loss(logs, weights)[1]
    for place in range(len(FITTED)):
        step = np.eye(len(FITTED))[place] * 1e-5
        difference = (pairs._loss(logs + step, weights)[0] - pairs._loss(logs - step, weights)[0]) / 2e-5
        assert slopes[place] == pytest.approx(difference, rel=1e-4, abs=1e-7)


def test_without_pairs_nothing_is_estimated() -> None:
    known = drawn(replace(ALONE, kernel=0.02), launches=2)
    with pytest.raises(InputError, match="no pair of launches"):
        Pairs(known, all_pairs(known), ALONE).fit(np.zeros(len(all_pairs(known)), bool))


def test_the_page_on_evidence_says_how_much_is_carried_over() -> None:
    target, effects = subject(gpu="t4"), read_effects()
    others = [
        target, subject(gpu="tu102"), subject(gpu="v100"), subject(gpu="a2"), subject(gpu="titan-x"),
        subject(size=16384, gpu="t4"), subject("dot", gpu="t4"),
    ]  # fmt: skip
    known = [[other] for other in others] + [[subject(name, gpu="t4") for name in ("dot", "gemm", "scan")]]
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| (\d+) % \| x ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == len(known)
    for (carried, width), each in zip(rows, known, strict=True):
        found = Posterior([Residual(one, 1.0, effects.measurement) for one in each], effects).of(target)
        assert (round(100 * found.log_error), round(found.width, 2)) == (int(carried), float(width))


def all_effects(value: str) -> str:
    """Return a file in which all effects have one value."""
    return "\n".join(("version = 1", "[effects]", *(f"{name} = {value}" for name in Effects.__slots__)))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("version = 2\n[effects]\n", "version is 2"),
        ("version = 1\n", "effects"),
        ("version = 1\n[effects]\nkernel = 1\n", "missing"),
        ("not TOML", "faulty"),
        (all_effects("nan"), "not a positive number"),
        (all_effects("0"), "not a positive number"),
    ],
)
def test_a_faulty_file_of_effects_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "evidence.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=fault):
        read_effects(file)
