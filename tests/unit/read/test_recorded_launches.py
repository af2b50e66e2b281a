"""Launches of a recording as evidence: which ones, how often, from which sources; and the one that is named."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.read.launches import load_launches, nearest_kept, only_launch
from tests.helpers.recorded_programs import SCALE, SOURCE, written

LAUNCHES = [(0, 100), (1, 900), (0, 100), (0, 400)]


def test_each_kept_launch_stands_for_those_of_its_group(tmp_path: Path) -> None:
    recording = written(tmp_path, LAUNCHES)
    scale, gather = load_launches(tmp_path / "app.kc")
    assert (scale.kernel, scale.grid, scale.block, scale.count) == ("scale", (4, 1, 1), (128, 1, 1), 3)
    assert (gather.kernel, gather.grid, gather.count) == ("gather", (1, 1, 1), 1)
    assert scale.source == tmp_path / "app.cu"
    assert scale.memory is not None
    assert scale.memory.parameters == SCALE
    assert nearest_kept(recording).tolist() == [0, 1, 0, 0]


def test_sources_that_changed_are_those_of_the_recording(tmp_path: Path) -> None:
    written(tmp_path, LAUNCHES)
    (tmp_path / "app.cu").write_text("int changed;", encoding="utf-8")
    restored = load_launches(tmp_path / "app.kc")[0].source
    assert restored != tmp_path / "app.cu"
    assert restored.read_text(encoding="utf-8") == SOURCE


def test_one_launch_is_named_by_its_kernel_or_its_number(tmp_path: Path) -> None:
    written(tmp_path, LAUNCHES)
    file = tmp_path / "app.kc"
    assert only_launch(file, "gather") == only_launch(file, "1") == load_launches(file)[1]
    with pytest.raises(InputError, match=r"2 launches: 0 \(scale\), 1 \(gather\).*Name one by its number: --kernel 0"):
        only_launch(file)
    with pytest.raises(InputError, match="no launches of 'mul'"):
        only_launch(file, "mul")


def test_a_recording_of_a_program_that_launched_nothing_is_no_evidence(tmp_path: Path) -> None:
    written(tmp_path, [])
    with pytest.raises(InputError, match="it holds no launch"):
        load_launches(tmp_path / "app.kc")


def test_the_nearest_work_decides(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 8), (0, 10**9)])
    assert np.all(nearest_kept(recording) == 0)  # the first alone is kept
