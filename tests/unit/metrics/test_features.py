"""The feature table: columns, patterns of access against addresses counted by NumPy, files that others read."""

import csv
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.metrics import FEATURES, AccessClass, Accesses, accesses, feature_row, pattern_of
from kerncast.profiles import ProfiledLaunch
from kerncast.report.profile.export import write_features
from tests.helpers.places import ROOT, required_packages
from tests.helpers.profiles import SAXPY, SECTORS, THREADS, TILED, WARPS, access, accessed

DOCUMENT = ROOT / "docs" / "profile.md"
LAUNCHES = (ProfiledLaunch(SAXPY, load_gpu("titan-v")), ProfiledLaunch(TILED, load_gpu("titan-v")))
COLUMNS = """
kernel launch gpu flops fp32_flops fp64_flops fp16_flops special_ops integer_ops ptx_warp_instructions
machine_warp_instructions global_bytes_requested global_bytes_moved working_set_bytes wave_bytes_touched dram_bytes
flops_per_working_set_byte flops_per_dram_byte local_bytes shared_bytes_per_block registers_per_thread
load_access_class load_is_coalesced load_may_be_random load_stride_elements load_sectors_per_request
store_access_class store_is_coalesced store_may_be_random store_stride_elements store_sectors_per_request
has_bank_conflicts shared_wavefronts_per_request shared_conflicts has_divergence divergent_branches
active_lanes_per_warp_instruction atomic_operations atomic_threads_per_address barriers_per_warp
theoretical_occupancy blocks_per_sm waves threads_per_block blocks grid_x grid_y grid_z block_x block_y block_z
executed_share
"""


def loads(**counts: float) -> Accesses:
    return accesses(accessed(access("global", "ld", **counts)), "global", {"ld"})


def counted(addresses: npt.NDArray[np.int64], width: int) -> Accesses:
    """Count sectors and lines of requests [requests, lanes] as the executor does, with NumPy."""
    firsts, lasts = addresses, addresses + width - 1
    both = np.concatenate([firsts, lasts], axis=1)
    return loads(
        requests=len(addresses),
        threads=addresses.size,
        nbytes=addresses.size * width,
        sectors=sum(len(np.unique(row // 32)) for row in both),
        lines=sum(len(np.unique(row // 128)) for row in both),
    )


def row_of(launch: ProfiledLaunch) -> dict[str, object]:
    return dict(zip((feature.name for feature in FEATURES), feature_row(launch), strict=True))


@given(st.integers(2, 31), st.sampled_from([4, 8, 16]), st.integers(0, 50))
def test_strides_below_a_line_are_found(stride: int, width: int, start: int) -> None:
    lanes = 128 * start + np.arange(32)[None, :] * stride * width
    pattern = pattern_of(counted(lanes.astype(np.int64), width))
    if stride * width >= 128:
        assert pattern.access_class is AccessClass.SCATTERED
    elif stride * width < 0.9 * 128:
        assert pattern.access_class is AccessClass.STRIDED
        # The range may begin and end inside a sector or a line.
        assert pattern.stride_elements == pytest.approx(stride, rel=0.15)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("shift", [0, 1])
def test_neighbouring_words_are_coalesced_wherever_they_begin(width: int, shift: int) -> None:
    lanes = (np.arange(32)[None, :] + shift) * width
    assert pattern_of(counted(lanes.astype(np.int64), width)).access_class is AccessClass.COALESCED


def test_the_other_classes() -> None:
    rng = np.random.default_rng(0)
    one = np.full((4, 32), 4096, np.int64)
    assert pattern_of(counted(one, 4)).access_class is AccessClass.BROADCAST
    far = rng.integers(0, 2**20, (64, 32)) * 4
    assert pattern_of(counted(far, 4)).access_class is AccessClass.SCATTERED
    assert pattern_of(counted(far, 4)).may_be_random is True
    near = rng.integers(0, 1024, (64, 32)) * 4
    assert pattern_of(counted(near, 4)).access_class is AccessClass.IRREGULAR
    assert pattern_of(counted(near, 4)).may_be_random is True
    assert pattern_of(counted(far[:, :1], 4)).access_class is AccessClass.SINGLE
    assert pattern_of(loads()).access_class is AccessClass.NONE
    # A column of a matrix in blocks of 16 x 16: two neighbours in each of 16 rows.
    rows = np.arange(16).repeat(2) * 4096 + np.tile([0, 4], 16)
    assert pattern_of(counted(rows[None, :], 4)).access_class is AccessClass.SCATTERED
    # Half of the requests are broadcast, half coalesced, as the two loads of a product of matrices.
    mixed = np.concatenate([one, np.arange(4 * 32).reshape(4, 32) * 4])
    assert pattern_of(counted(mixed.astype(np.int64), 4)).access_class is AccessClass.COALESCED


def test_the_columns_are_a_promise() -> None:
    assert [feature.name for feature in FEATURES] == COLUMNS.split()
    documented = re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in documented if name in COLUMNS.split()] == COLUMNS.split()


def test_every_cell_has_the_type_of_its_column() -> None:
    for launch in LAUNCHES:
        for feature, cell in zip(FEATURES, feature_row(launch), strict=True):
            assert cell is None or type(cell) is feature.type, feature.name


def test_values_by_hand() -> None:
    saxpy, tiled = map(row_of, LAUNCHES)
    assert saxpy["flops"] == 2 * THREADS
    assert saxpy["global_bytes_moved"] == 3 * SECTORS * 32
    assert saxpy["dram_bytes"] == 9 * THREADS
    assert (saxpy["load_access_class"], saxpy["load_is_coalesced"]) == ("coalesced", True)
    assert (saxpy["has_bank_conflicts"], saxpy["has_divergence"], saxpy["blocks_per_sm"]) == (False, False, 8)
    assert (tiled["load_access_class"], tiled["load_stride_elements"]) == ("strided", 4.0)
    assert (tiled["has_bank_conflicts"], tiled["has_divergence"], tiled["barriers_per_warp"]) == (True, True, 128)
    assert tiled["atomic_threads_per_address"] == (32 + 4) / 2
    assert (tiled["shared_bytes_per_block"], tiled["registers_per_thread"]) == (3072, 40)
    assert tiled["atomic_operations"] == 64 * WARPS
    assert tiled["executed_share"] == 240 / 4096


def test_without_a_gpu_what_depends_on_one_is_unknown() -> None:
    row = row_of(ProfiledLaunch(SAXPY))
    unknown = {name for name, cell in row.items() if cell is None}
    assert unknown == {
        "gpu", "machine_warp_instructions", "wave_bytes_touched", "dram_bytes", "flops_per_dram_byte",
        "registers_per_thread", "theoretical_occupancy", "blocks_per_sm", "waves", "shared_wavefronts_per_request",
        "atomic_threads_per_address",
    }  # fmt: skip


def test_what_was_not_executed_is_unknown() -> None:
    row = row_of(ProfiledLaunch(replace(SAXPY, mix=None, sampling=None, resources=None)))
    for name in ("load_access_class", "has_divergence", "has_bank_conflicts", "executed_share", "shared_conflicts"):
        assert row[name] is None


def test_csv_and_parquet_hold_the_same_cells(tmp_path: Path) -> None:
    write_features(LAUNCHES, tmp_path / "f.csv")
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS.split()
    assert (rows[0]["load_is_coalesced"], rows[0]["atomic_threads_per_address"]) == ("true", "")
    parquet = pytest.importorskip("pyarrow.parquet")
    write_features(LAUNCHES, tmp_path / "f.parquet")
    cells = parquet.read_table(tmp_path / "f.parquet").to_pylist()
    assert cells == [row_of(launch) for launch in LAUNCHES]
    assert [float(row["flops"]) for row in rows] == [row["flops"] for row in cells]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv", "f.parquet"]


@pytest.mark.parametrize(
    ("name", "words"), [("f.txt", "not a feature table"), ("f", "not a feature table"), ("no/f.csv", "does not exist")]
)
def test_where_no_table_can_be_written(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        write_features(LAUNCHES, tmp_path / name)


def test_a_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "f.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_features(LAUNCHES, tmp_path / "f.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    asked = [each for each in required_packages() if each.startswith("pyarrow")]
    with pytest.raises(InputError, match=f"pip install '{asked[0]}'"):
        write_features(LAUNCHES, tmp_path / "f.parquet")
    write_features(LAUNCHES, tmp_path / "f.csv")
