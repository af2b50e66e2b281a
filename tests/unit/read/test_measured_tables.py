"""Files of kerncast measure and of tuners as tables to learn from, against what was written into them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.measurements import Configuration, Counters, Method, Recorder, Trial
from kerncast.read.features.cleaning import CleaningRules
from kerncast.read.features.table_files import gpus_of, read_feature_table, read_launches
from tests.helpers.places import ROOT
from tests.unit.measurements.test_measurement_files import MACHINE, SAXPY, TRIAL

TUNERS = ROOT / "tests" / "golden" / "tuners"


def measured(path: Path, grids: int, *, counted: bool = False) -> Path:
    """Write launches of saxpy that take 1 µs and 1 ns per block, in a series, and once more singly."""
    with Recorder.open(path, MACHINE) as recorder:
        for number in range(grids):
            blocks = 16 * (number + 1)
            key = f"my/saxpy#{number}"
            arguments = (("n", str(256 * blocks)), ("a", "2.0"), ("x", f"f32[{256 * blocks}] iota"))
            launch: Configuration = replace(
                SAXPY, key=key, grid=(blocks, 1, 1), arguments=arguments, amount=None, amount_unit=None
            )
            recorder.add(launch)
            for method, factor in ((Method.SINGLE, 5.0), (Method.SERIES, 1.0)):
                seconds = tuple(factor * (1e-6 + 1e-9 * blocks) * each for each in (1.0, 0.99, 1.4))
                trial: Trial = replace(TRIAL, configuration=key, method=method, seconds=seconds)
                recorder.add(trial)
            if counted:
                recorder.add(Counters(key, (("dram__bytes.sum", 3072.0 * blocks, "byte"),)))
    return path


def test_a_measured_file_is_a_table_of_the_medians_of_its_series(tmp_path: Path) -> None:
    table = read_feature_table([measured(tmp_path / "m.jsonl", 6, counted=True)]).table
    assert table.names == ("grid_x", "n", "dram__bytes.sum")  # what varies; the launch's number is a label
    assert table.values[:, 0].tolist() == [16, 32, 48, 64, 80, 96]
    assert table.values[:, 1].tolist() == [256 * 16 * each for each in range(1, 7)]
    assert table.seconds == pytest.approx(1e-6 + 1e-9 * table.values[:, 0])
    assert (set(table.kernels), set(table.gpus)) == ({"saxpy"}, {"NVIDIA H200"})
    assert gpus_of([tmp_path / "m.jsonl"]) == ("NVIDIA H200",)


def test_parts_of_a_gpu_and_ceilings_are_no_launches_to_learn_from(tmp_path: Path) -> None:
    with Recorder.open(tmp_path / "m.jsonl", MACHINE) as recorder:
        recorder.add(SAXPY)
        recorder.add(TRIAL)
    with pytest.raises(InputError, match="no time of a launch on a whole GPU"):
        read_feature_table([tmp_path / "m.jsonl"])


def test_a_cache_of_kernel_tuner_is_a_table_of_its_parameters() -> None:
    rows = read_launches([TUNERS / "blur_cache.json"])
    assert set(rows.gpus) == {"NVIDIA RTX A4000"}
    assert set(rows.kernels) == {"blur"}
    first = {name: rows.values[0, column] for column, name in enumerate(rows.names)}
    assert (first["tune_block_size_x"], first["tune_block_size_y"], first["tune_use_shared"]) == (16, 4, 0)
    assert rows.seconds[0] == pytest.approx(0.512e-3, rel=1e-3)


@pytest.mark.parametrize("name", ["blur_t4.json", "coulomb_ktt_t4.json", "transpose_ktt.json"])
def test_other_tuners_files_are_tables_too(name: str) -> None:
    rows = read_launches([TUNERS / name])
    assert np.isfinite(rows.seconds).all()
    assert any(each.startswith("tune_") for each in rows.names)


def test_features_of_executed_launches_join_their_measured_times(tmp_path: Path) -> None:
    from kerncast.studies.learning.executed import execute_features

    (tmp_path / "saxpy.cu").write_text(
        "__global__ void saxpy(int n, float a, const float *x, float *y)"
        " { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = a * x[i] + y[i]; }"
    )
    text = 'source = "saxpy.cu"\n'
    for blocks in (16, 32, 48):
        size = 256 * blocks
        text += f'[[launch]]\nkernel = "saxpy"\ngrid = [{blocks}]\nblock = [256]\n'
        text += f'args = {{ n = {size}, a = 2.0, x = "f32[{size}] iota", y = "f32[{size}] zeros" }}\n'
    (tmp_path / "saxpy.toml").write_text(text)
    path = measured(tmp_path / "m.jsonl", 3)
    said: list[str] = []
    executed = execute_features([tmp_path / "saxpy.toml"], gpus_of([path]), lambda what, *_: said.append(what))
    found = read_feature_table([path], CleaningRules(("fp32_flops", "blocks")), executed=executed)
    assert found.table.values.tolist() == [[2 * 256 * blocks, blocks] for blocks in (16, 32, 48)]
    assert found.table.seconds == pytest.approx([1.016e-6, 1.032e-6, 1.048e-6])
    assert [each.name for each in found.files] == ["m.jsonl", "saxpy.toml"]
    assert sum("executing" in each for each in said) >= 3
