"""Rates of tensor cores by type: every row has a source, and data sheets' peaks come out of them."""

import pytest

from kerncast.bounded_file import our_rows
from kerncast.gpu import DATA, FACTORS, load_architecture, load_gpu, tensor_rate

ROWS = our_rows(DATA / "instructions" / "tensor_products.csv")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['from']}-{row['factor']}-{row['total']}")
def test_each_row_is_whole(row: dict[str, str]) -> None:
    assert set(row) == {"from", "factor", "total", "per_sm", "share", "latency", "status", "source"}
    assert row["status"] in {"confirmed", "single-source", "unknown"}
    assert bool(row["per_sm"]) + bool(row["share"]) == bool(row["source"]) == (row["status"] != "unknown")
    assert row["factor"] in FACTORS
    load_architecture(f"sm_{row['from']}")
    assert [(r["from"], r["factor"], r["total"]) for r in ROWS].count((row["from"], row["factor"], row["total"])) == 1


@pytest.mark.parametrize(
    ("name", "factor", "total", "peak"),
    [
        ("v100-sxm2-16gb", "f16", "f32", 125), ("t4", "s8", "s32", 130), ("t4", "s4", "s32", 260),
        ("a100-sxm-80gb", "bf16", "f32", 312), ("a100-sxm-80gb", "tf32", "f32", 156),
        ("a100-sxm-80gb", "u8", "s32", 624), ("a100-sxm-80gb", "s4", "s32", 1248), ("a100-sxm-80gb", "b1", "s32", 4992),
        ("a100-sxm-80gb", "f64", "f64", 19.5), ("rtx-3090", "f16", "f16", 142), ("rtx-3090", "tf32", "f32", 35.6),
        ("rtx-3090", "s8", "s32", 284), ("rtx-4090", "e5m2", "f32", 330), ("rtx-4090", "e4m3", "f16", 661),
        ("l40s", "f16", "f32", 362), ("l40s", "e4m3", "f32", 733), ("l40s", "s8", "s32", 733),
        ("h100-sxm", "f64", "f64", 66.9), ("rtx-5090", "e4m3", "f32", 419), ("rtx-5090", "s8", "s32", 838),
    ],
)  # fmt: skip
def test_peaks_of_data_sheets(name: str, factor: str, total: str, peak: float) -> None:
    gpu = load_gpu(name)
    rate = tensor_rate(gpu.architecture, factor, total)
    assert rate is not None
    assert 2 * rate.per_sm * gpu.sm_count * gpu.clock_boost_hz == pytest.approx(peak * 1e12, rel=0.015)


@pytest.mark.parametrize(
    ("name", "factor", "total"), [("gtx-1080-ti", "f16", "f32"), ("gtx-1650", "s8", "s32"), ("h100-sxm", "s4", "s32")]
)
def test_what_a_gpu_has_not_has_no_rate(name: str, factor: str, total: str) -> None:
    assert tensor_rate(load_gpu(name).architecture, factor, total) is None
