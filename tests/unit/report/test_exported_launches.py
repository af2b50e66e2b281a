"""Launch files of recordings: read again they do what was recorded; what they cannot state is named."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.forecast import profile_launch
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.metrics import metrics_of
from kerncast.read.launches import launches_of
from kerncast.report.files.recorded_launches import Exported, export_launches
from tests.helpers.recorded_programs import SCALE, WHERE, X, parameters, written

GPU = load_gpu("t4")


def exported(tmp_path: Path, kernels: list[int], **options: dict[int, bytes]) -> Exported:
    recording = written(tmp_path, [(each, 512) for each in kernels], raw=options.get("raw"))
    return export_launches(launches_of(recording), GPU, tmp_path / "launches.toml")


def test_what_is_read_again_does_what_was_recorded(tmp_path: Path) -> None:
    found = exported(tmp_path, [0, 1])
    assert (found.files, found.launches, found.left_out) == ((tmp_path / "launches.toml",), 2, ())
    again = load_launches(tmp_path / "launches.toml")
    recorded = launches_of(written(tmp_path, [(0, 512), (1, 512)]))
    for one, other in zip(again, recorded, strict=True):
        assert (one.kernel, one.grid, one.block) == (other.kernel, other.grid, other.block)
        counted = [[each.count for each in metrics_of(profile_launch(launch, GPU), GPU)] for launch in (one, other)]
        assert counted[0] == counted[1]


def test_values_are_those_that_memory_held(tmp_path: Path) -> None:
    exported(tmp_path, [0, 1])
    text = (tmp_path / "launches.toml").read_text(encoding="utf-8")
    assert "n = 500\nfactor = 0.5\n" in text
    assert 'first = "&x[16]"' in text
    (file,) = (tmp_path / "launches-data").glob("*-i32.npy")
    assert np.load(file).tolist() == list(range(128))
    assert '[launch.globals]\ntable = "f32[4] file(launches-data/' in text


@pytest.mark.parametrize(
    ("kernel", "raw", "reason"),
    [
        (2, None, "pair holds a pointer, which a launch file cannot state"),
        (0, parameters(4096, np.int32(1), np.float64(1)), "x points to memory that is not the GPU's"),
        (1, parameters(X, WHERE, X + 66), "first points between two elements of x"),
    ],
)
def test_what_a_launch_file_cannot_state_is_left_out(
    tmp_path: Path, kernel: int, raw: bytes | None, reason: str
) -> None:
    found = exported(tmp_path, [kernel], raw={kernel: raw} if raw else {})
    assert found.launches == 0
    assert [reason in each for each in found.left_out] == [True]
    assert found.files == ()
    assert not (tmp_path / "launches.toml").exists()


def test_a_null_pointer_is_zero(tmp_path: Path) -> None:
    found = exported(tmp_path, [0], raw={0: parameters(0) + SCALE[8:]})
    assert found.launches == 1
    assert "x = 0\n" in (tmp_path / "launches.toml").read_text(encoding="utf-8")
