"""Score operators on KernelBench's level-1 tasks (MIT), run eagerly: nothing was fitted on them.

Only tasks that are one operator of the list, over 200 us, their fastest of 100 trials. Prints Markdown.
"""

import itertools
import math
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
from operator_rows import DATA

from kerncast import predict
from kerncast.gpu import load_gpu
from kerncast.operators import parse_operator
from kerncast.units import MICROSECOND, PERCENT

#: The A10G of the data calls itself an A10.
_GPUS = {"A100 40GB": "a100-sxm-40gb", "A10G": "a10", "L4": "l4", "T4": "t4"}
#: Task numbers and the operator of each; transposed operands count as others.
_OPERATORS = {
    1: "linear(M=2048,N=2048,K=2048)", 2: "linear(M=1024,N=4096,K=2048)", 3: "bmm(B=128,M=128,N=256,K=512)",
    4: "linear(M=256,N=131072,K=1)", 5: "mulu(B=16384,H=4096)", 6: "linear(M=256,N=131072,K=256)",
    7: "linear(M=16384,N=32,K=16384)", 8: "linear(M=8205,N=2949,K=5921)", 9: "linear(M=16384,N=16,K=16384)",
    10: "linear(M=16384,N=2048,K=768)", 11: "linear(M=2097152,N=256,K=768)", 13: "linear(M=4096,N=4096,K=4096)",
    16: "linear(M=1024,N=4096,K=2048)", 17: "linear(M=1024,N=4096,K=2048)", 18: "linear(M=1024,N=4096,K=2048)",
    19: "relu(B=16,H=16384)", 21: "sigmoid(B=16,H=16384)", 22: "tanh(B=16,H=16384)", 23: "softmax(B=16,H=16384)",
    26: "gelu(B=16,H=16384)", 40: "ln(B=16,H=4194304)",
}  # fmt: skip
_LEAST_S, _APART = 200 * MICROSECOND, 1.1


@dataclass(frozen=True, slots=True)
class Row:
    """One task on one GPU."""

    task: int
    gpu: str
    measured: float
    forecast: float

    @property
    def error(self) -> float:
        """Forecast over measured, less one, in percent."""
        return (self.forecast / self.measured - 1) / PERCENT


def rows() -> list[Row]:
    """Return measured and forecast times of all tasks that are one operator."""
    table = pd.read_parquet(DATA / "kernelbench" / "times.parquet")
    table = table[(table["mode"] == "eager") & (table["level"] == "level1")]
    found = []
    for name, gpu, least in zip(table["task"], table["gpu"], table["min_us"], strict=True):
        number, measured = int(str(name).split("_", 1)[0]), float(least) * MICROSECOND
        if number in _OPERATORS and measured > _LEAST_S:
            [forecast] = predict([parse_operator(_OPERATORS[number])], load_gpu(_GPUS[str(gpu)]))
            found.append(Row(number, str(gpu), measured, forecast.seconds))
    return found


def main() -> None:
    """Print the errors, and how many pairs of GPUs are in the right order."""
    if not (DATA / "kernelbench").exists():
        print("Skipped: ../shared/data/kernelbench is not there.")
        sys.exit()
    found = rows()
    print("| task | operator |" + "".join(f" {gpu} |" for gpu in _GPUS) + "\n|---|---|" + "---|" * len(_GPUS))
    for number in sorted({each.task for each in found}):
        cells = {each.gpu: f"{each.error:+.0f} %" for each in found if each.task == number}
        print(f"| {number} | {_OPERATORS[number]} |" + "".join(f" {cells.get(gpu, '–')} |" for gpu in _GPUS))
    errors = np.abs([each.error for each in found])
    print(f"\n{len(found)} rows: median {np.median(errors):.1f} %, mean {errors.mean():.1f} %,")
    print(f"bias {np.median([each.error for each in found]):+.1f} %.")
    pairs = [
        (one.measured > other.measured) == (one.forecast > other.forecast)
        for one, other in itertools.combinations(found, 2)
        if one.task == other.task and abs(math.log(one.measured / other.measured)) > math.log(_APART)
    ]
    print(f"Order of two GPUs over 10 % apart: {sum(pairs)} of {len(pairs)} right, {np.mean(pairs):.0%}.")


if __name__ == "__main__":
    main()
