"""Forecasts of operators, as a user asks for them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kerncast as package
from kerncast.operators import parse_operator
from tests.helpers.places import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

BMM = "bmm(B=64,M=512,N=512,K=64,dtype=bf16)"
MODEL = ROOT / "examples" / "transformer_layer.json"


def forecast(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_an_operator_of_the_contract(kerncast: Run) -> None:
    found = forecast(kerncast("predict", "--op", BMM, "--gpu", "h200", "--json"))
    [row] = found["predictions"]
    assert (row["kernel"], row["launch"], row["gpu_id"], row["model"]) == (
        parse_operator(BMM).text,
        0,
        "h200",
        "operators",
    )
    assert row["low"] < row["seconds"] < row["high"]
    # 4.3 GFLOP at 1,070 TFLOP/s are 4 us; 20 MB at 4.8 TB/s as many.
    assert 4e-6 < row["seconds"] < 4e-5
    assert set(row["terms"]) == {"tensor", "l2", "dram", "launch"}
    assert row["timing"] == "series"


def test_a_table_of_operators_on_several_gpus(kerncast: Run, write: Write) -> None:
    table = "op,B,M,N,K,H,dtype\nbmm,64,512,512,64,,fp32\nsoftmax,4096,,,,1024,\nconv,1,,,,,\n"
    done = kerncast("predict", write("ops.csv", table), "--gpu", "t4", "--gpu", "v100-pcie-32gb", "--json")
    found = forecast(done)
    assert [(row["launch"], row["gpu_id"]) for row in found["predictions"]] == [
        (0, "t4"), (0, "v100-pcie-32gb"), (1, "t4"), (1, "v100-pcie-32gb"),
    ]  # fmt: skip
    assert {row["timing"] for row in found["predictions"]} == {found["timing"]} == {"single"}
    assert [(row["kernel"], row["launch"], row["gpu"]) for row in found["refused"]] == [("conv", 2, None)]


def test_a_model_is_summed_with_its_counts(kerncast: Run) -> None:
    found = forecast(kerncast("predict", MODEL, "--gpu", "h100-sxm", "--json"))
    rows, [total] = found["predictions"], found["totals"]
    assert total["launches"] == 8
    assert total["seconds"] == pytest.approx(sum(row["count"] * row["seconds"] for row in rows))
    assert {row["timing"] for row in rows} == {"series"}
    shown = kerncast("predict", MODEL, "--gpu", "h100-sxm")
    assert "together" in shown.stdout
    assert "What limits them on H100 SXM, by time" in shown.stdout


def test_reports_are_written(kerncast: Run, tmp_path: Path) -> None:
    done = kerncast("predict", MODEL, "--gpu", "h100-sxm", "--report", "r.html", "--report", "r.html")
    assert done.returncode == 0, done.stderr
    assert "context_attention" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--op", "conv(B=1)"), 3, "no measured data cover an operator called 'conv'"),
        (("--op", "gemm(M=1,N=1,K=1,dtype=fp8)"), 3, "has no tensor cores for fp8"),
        (("--op", "softmax(B=1)"), 2, "softmax needs H"),
        (("--op", "softmax(B=1,H=1)", str(ROOT / "examples" / "saxpy.toml")), 2, "are both given"),
        (("--op", "gemm(M=1,N=1,K=1,dtype=nvfp4)"), 3, "no measured data cover the number format 'nvfp4'"),
        (("--op", "moe(T=1,H=1,F=1,topk=1,E=1,routing=zipf)"), 3, "no measured data cover routing 'zipf'"),
        (("--op", "gemm(M=1,N=1,K=1,library=mine)"), 3, "Known: trtllm, vllm, sglang"),
        (("--op", "attention(B=1,S=1,H=1,KV=2)"), 2, "H is 1 and KV is 2"),
        ((), 2, "no evidence is given: name a launch file"),
        (("--op", "softmax(B=1,H=1)", "-k", "gemm"), 2, "no kernel is called 'gemm'. It holds softmax"),
        (("--op", "softmax(B=1,H=1)", "--source-gpu", "t4"), 2, "make no use of --source-gpu"),
        ((MODEL, "--source", ROOT / "examples" / "saxpy.toml"), 2, "make no use of --source."),
        ((MODEL, "--grid", "1"), 2, "make no use of --grid"),
        (("--op", "softmax(B=1,H=1)", "--block", "1"), 2, "make no use of --block"),
        (("--op", "softmax(B=1,H=1)", "--arg", "n=1", "--define", "N"), 2, "make no use of --arg, --define"),
        (("--op", "softmax(B=1,H=1)", "--shared", "4"), 2, "make no use of --shared"),
        (("--op", "softmax(B=1,H=1)", "--use-fast-math"), 2, "make no use of --use-fast-math"),
        (("--op", "softmax(B=1,H=1)", "--model", "roofline"), 2, "--model roofline times no operators"),
        (("--op", "softmax(B=1,H=1)", "--measured", "T4=1ms"), 2, "measured times do not move forecasts of operators"),
    ],
)
def test_mistakes_end_with_a_reason(kerncast: Run, arguments: tuple[str | Path, ...], status: int, said: str) -> None:
    done = kerncast("predict", *arguments, "--gpu", "a100-sxm-80gb")
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert said in " ".join(done.stderr.split())


def test_operators_are_evidence_for_python() -> None:
    operators = [parse_operator(BMM), parse_operator("gemm(M=128,N=256,K=512)")]
    found = package.predict(operators, "H100 SXM")
    assert [row.launch for row in found] == [0, 1]
    assert package.predict(operators[1], "H100 SXM")[0].seconds == found[1].seconds
    cold = package.predict(operators, "H100 SXM", timing="cold")
    assert all(c.seconds >= warm.seconds for c, warm in zip(cold, found, strict=True))


def test_operators_are_selected(kerncast: Run, write: Write) -> None:
    def chosen(*options: object) -> list[int]:
        found = forecast(kerncast("predict", *options, "--gpu", "h100-sxm", "--json"))
        return [row["launch"] for row in found["predictions"]]

    assert chosen(MODEL, "-k", "linear") == [1, 3, 4, 5]
    assert chosen(MODEL, "-k", "regex:^attention$") == [2]
    assert chosen(MODEL, "-k", "linear", "--launch-skip", "1", "--launch-count", "2") == [3, 4]
    table = write("ops.csv", "op,B,H\nsoftmax,1,2\nconv,,\nln,1,2\n")
    assert chosen(table, "-k", "ln") == [2]
    assert chosen("--op", BMM, "--op", "softmax(B=1,H=2)", "--launch-count", "1") == [0]


def test_the_total_has_the_calls_of_the_only_operator(kerncast: Run) -> None:
    once = kerncast("predict", "--op", "softmax(B=64,H=512)", "--gpu", "t4")
    assert (once.returncode, "Total" in once.stdout) == (0, False)
    often = kerncast("predict", "--op", "softmax(B=64,H=512,count=12)", "--gpu", "t4")
    total = " ".join(often.stdout.split("Total of all launches")[1].split())
    assert total.startswith("GPU launches time interval")
    assert " T4 12 " in total


@pytest.mark.parametrize("count", [1, 12])
def test_the_total_says_what_it_lacks(kerncast: Run, tmp_path: Path, count: int) -> None:
    arguments = ("--op", f"softmax(B=64,H=512,count={count})", "--op", "conv(B=1)", "--gpu", "t4")
    done = kerncast("predict", *arguments, "--report", "r.md")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "Total of all launches that were forecast, without those that were refused" in shown
    assert f" T4 {count} 1 " in shown.split("GPU launches refused time interval")[1]
    assert f"| T4 | {count} | 1 |" in (tmp_path / "r.md").read_text(encoding="utf-8")


def test_a_gpu_that_refuses_all_takes_nothing_from_the_total_of_another(kerncast: Run) -> None:
    done = kerncast("predict", "--op", "gemm(M=9,N=9,K=9,dtype=fp8,count=4)", "--gpu", "h100-sxm", "--gpu", "t4")
    assert "Total of all launches\n" in done.stdout
    assert "GPU launches time interval" in " ".join(done.stdout.split())


def test_the_conclusion_of_many_says_that_some_were_refused(kerncast: Run) -> None:
    arguments = ("--op", "softmax(B=64,H=512,count=2)", "--op", "ln(B=64,H=512)", "--op", "conv(B=1)", "--gpu", "t4")
    assert "All 3 launches that were forecast take " in " ".join(kerncast("predict", *arguments).stdout.split())


def test_a_report_of_operators_claims_no_counters(kerncast: Run, tmp_path: Path) -> None:
    done = kerncast("predict", MODEL, "--gpu", "h100-sxm", "--gpu", "a100-sxm-80gb", "--report", "r.md")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    told = text.partition("## GPU facts")[0]  # sources of facts may be counters
    for word in ("counter", "PTX", "Distance to each roof", "## Operations", "## Memory", "## Occupancy"):
        assert word not in told, word
    assert "## Total" in told


def test_the_limit_is_for_one_call(kerncast: Run) -> None:
    arguments = ("predict", "--op", "softmax(B=64,H=512,count=1000000)", "--gpu", "t4")
    assert kerncast(*arguments, "--max", "1ms").returncode == 0
    assert kerncast(*arguments, "--max", "1us").returncode == 4
    assert "one call of it" in " ".join(kerncast("predict", "--help").stdout.replace("│", " ").split())
