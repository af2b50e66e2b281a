"""The curves that bounds are scored on, and the picture of bounds."""

import sys

import numpy as np
import pytest

from kerncast.gpu import load_gpu
from kerncast.measurements import PartitionTimes
from kerncast.report.bounds.bound_picture import draw_bounds
from kerncast.report.pictures.picture_files import svg_text
from kerncast.studies.bounding import BoundOptions, bound_times
from kerncast.studies.bounds.base import spread_of
from kerncast.studies.partitions import most_tpcs, part_of
from tests.helpers.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import bound_curves
import score_bounds

GPU = load_gpu("TITAN V")


def test_curves_are_drawn_alike_each_time_and_never_rise_without_repeats() -> None:
    first, again = (list(bound_curves.drawn_curves(7, 2)) for _ in range(2))
    assert first == again
    assert {each.shape for each in first} == {*bound_curves.SHAPES, *bound_curves.NOISE}
    for each in first:
        if each.shape in bound_curves.SHAPES:
            assert (np.diff(each.times.seconds) <= 1e-12).all()


def test_the_default_holds_for_every_shape_from_two_anchors() -> None:
    """No time without repeats is above the bound; on average a third above; with a third anchor a fifth."""
    curves = [each for each in bound_curves.drawn_curves(20, 10) if each.shape in bound_curves.SHAPES]
    judged = [score_bounds.judge(each, "list-scheduling", GPU) for each in curves]
    assert sum(each.violations for each in judged) == 0
    assert np.mean([share for each in judged for share in each.over]) < 0.42
    over = []
    for each in curves:
        third = bound_times(
            each.times, GPU, each.times.counts, BoundOptions("list-scheduling", (1, 20))
        ).answer.measure_next
        assert third is not None
        bound = bound_times(
            each.times, GPU, each.times.counts, BoundOptions("list-scheduling", (1, third, 20))
        ).answer.bound
        # Nothing is repeated: what is left without the allowance for runs is Graham's bound.
        shares = np.array(bound) / spread_of(each.times, 0.01).factor / np.array(each.times.seconds) - 1
        assert (shares > -1e-9).all()
        over.append(float(shares.sum() / 17))
    assert np.mean(over) < 0.25


def test_measured_grids_are_read_as_parts_of_a_gpu() -> None:
    if not (score_bounds.DATA / "rodinia_k40_repeats.parquet").exists():
        pytest.skip("measured data are not there")
    curves = list(bound_curves.weak_scaling_curves(score_bounds.DATA, ("lud_perimeter", 8192), "median"))
    assert len(curves) == 204
    judged = [score_bounds.judge(each, "list-scheduling", GPU) for each in curves[::8]]
    assert min(share for each in judged for share in each.over) > -0.01


def test_a_part_of_a_gpu_has_its_sms_and_all_of_l2() -> None:
    part = part_of(GPU, 10)
    assert (most_tpcs(GPU), part.sm_count, part.l2_bytes) == (40, 20, GPU.l2_bytes)
    kepler = load_gpu("Tesla K40")
    assert (most_tpcs(kepler), part_of(kepler, 3).sm_count) == (15, 3)


def test_the_picture_names_its_curves() -> None:
    times = PartitionTimes((1, 2, 4), (4e-3, 2.5e-3, 1e-3))
    text = svg_text(draw_bounds(bound_times(times, GPU, (1, 2, 3, 4), BoundOptions("list-scheduling", (1, 4)))))
    for word in ("bound", "expected", "measured, used", "measured, not used", "list-scheduling: 0 of 1"):
        assert word in text
