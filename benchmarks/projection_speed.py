"""Time the projection of a profile of 1,000 kernels onto 20 GPUs, from the command line.

python benchmarks/projection_speed.py [--kernels N] [--gpus N] [--runs N] [--model NAME]…
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kerncast.gpu import list_gpus
from kerncast.models.missing_facts import missing_facts

MOST_SECONDS = 5.0
#: The default, and the published models that carry a run over.
MODELS = ("pipes", "algorithm1", "ceilings")
#: Unit of each metric, and its value in the kernel of this number.
COLUMNS = (
    ("device__attribute_display_name", ""), ("gpu__time_duration.sum", "nsecond"),
    ("launch__registers_per_thread", "register/thread"), ("launch__shared_mem_per_block_static", "byte/block"),
    ("launch__shared_mem_per_block_dynamic", "byte/block"), ("sm__cycles_elapsed.avg.per_second", "cycle/nsecond"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
    ("smsp__thread_inst_executed_per_inst_executed.ratio", ""), ("smsp__inst_executed.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", "inst"),
    ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", "inst"),
    ("l1tex__t_bytes.sum", "byte"), ("smsp__sass_data_bytes_mem_shared.sum", "byte"),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", ""), ("lts__t_bytes.sum", "byte"),
    ("dram__bytes_read.sum", "byte"), ("dram__bytes_write.sum", "byte"),
)  # fmt: skip
FIXED = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip


def write_profile(path: Path, kernels: int) -> None:
    """Write a raw page with made-up kernels, each unlike the others."""
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow((*FIXED, *(name for name, _ in COLUMNS)))
        writer.writerow(("",) * len(FIXED) + tuple(unit for _, unit in COLUMNS))
        for number in range(kernels):
            name = f"void part{number % 40}::step<float, (int){number}>(const T1 *, T1 *, int)"
            place = ("1", "7", "(256, 1, 1)", f"({1024 + number}, 1, 1)", "0", "7.0")
            writer.writerow((number, "900", "app", "127.0.0.1", name, *place, *_values(number)))


def _values(number: int) -> tuple[str, ...]:
    scale = 1 + number % 97
    dram = 4_000_000 * scale
    return (
        "Tesla V100-PCIE-32GB", f"{20_000 * scale:,}", str(32 + number % 31), "0", f"{1024 * (number % 8):,}", "1.38",
        f"{50 + number % 50}.25", "31.50", f"{600_000 * scale:,}", f"{1_000_000 * scale:,}", f"{2_000_000 * scale:,}",
        f"{3_000_000 * scale:,}", "0", "0", f"{1000 * (number % 3):,}", f"{3 * dram:,}", f"{dram // 2:,}",
        f"{dram // 256:,}", f"{2 * dram:,}", f"{dram // 2:,}", f"{dram // 2:,}",
    )  # fmt: skip


def time_command(path: Path, gpus: int, model: str) -> tuple[float, int]:
    """Return the seconds of one command, and how many forecasts it printed as JSON."""
    complete = [gpu for gpu in list_gpus() if not missing_facts(gpu)]
    names = [option for gpu in complete[:gpus] for option in ("--gpu", gpu.id)]
    command = [sys.executable, "-m", "kerncast", "predict", str(path), *names, "--model", model, "--json"]
    began = time.perf_counter()
    done = subprocess.run([*command, "-q"], capture_output=True, text=True, check=False)  # noqa: S603  our own command
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, len(json.loads(done.stdout)["predictions"])


def main() -> int:
    """Print how long it takes; exit 1 where that is too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model", action="append", help="repeatable; all that carry a run over by default")
    chosen = parser.parse_args()
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.csv"
        write_profile(path, chosen.kernels)
        for model in chosen.model or MODELS:
            runs = [time_command(path, chosen.gpus, model) for _ in range(chosen.runs)]
            seconds, forecasts = min(runs)
            print(f"{chosen.kernels} kernels onto {chosen.gpus} GPUs, {forecasts} forecasts, {model}: {seconds:.2f} s")
            slow |= seconds > MOST_SECONDS or forecasts != chosen.kernels * chosen.gpus
    print(f"at most {MOST_SECONDS:g} s are allowed")
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
