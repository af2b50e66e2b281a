"""Measured operators as batches: NeuSight's tables (MIT) and aiconfigurator's (Apache-2.0).

Both lie beside the project. ``docs/operators.md`` says how each was timed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.operator_work import Floats, OperatorBatch
from kerncast.operators import KINDS, Kind, format_named
from kerncast.units import MICROSECOND

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
#: NeuSight's names of GPUs, and the catalogue's.
_NEUSIGHT_GPUS = {
    "Tesla P4": "p4", "Tesla P100-PCIE-16GB": "p100-pcie", "Tesla T4": "t4", "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
}  # fmt: skip
#: Timed by other kernels than the rest of its operator (docs/operators.md).
_LEFT_OUT = {("linear", "p4")}
_AICONFIGURATOR = ("gemm", "moe", "context_attention", "generation_attention", "encoder_attention")


@dataclass(frozen=True, slots=True)
class MeasuredOperators:
    """Operators of one kind and format on one GPU, with their times."""

    batch: OperatorBatch
    gpu: GPU
    seconds: Floats
    data: str

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, chosen: Any) -> "MeasuredOperators":
        """Return some rows, by their numbers or by a mask."""
        return MeasuredOperators(self.batch.rows(chosen), self.gpu, self.seconds[chosen], self.data)


@cache
def neusight() -> tuple[MeasuredOperators, ...]:
    """Return NeuSight's operators in FP32 on five GPUs: one eager call between events, rows measured once."""
    table = pd.read_parquet(DATA / "neusight" / "ops.parquet")
    table = table[~table["dup_in_gpu"] & table["op"].isin(KINDS)]
    found = []
    for (op, name), rows in table.groupby(["op", "gpu"], sort=True):
        gpu = _NEUSIGHT_GPUS[str(name)]
        if (op, gpu) not in _LEFT_OUT:
            found.append(_measured(KINDS[str(op)], rows, load_gpu(gpu), "fp32", "NeuSight"))
    return tuple(found)


@cache
def aiconfigurator() -> tuple[MeasuredOperators, ...]:
    """Return aiconfigurator's operators on three GPUs: repeated calls in CUDA graphs."""
    return tuple(each for name in _AICONFIGURATOR for each in _of_aiconfigurator(name))


def _of_aiconfigurator(name: str) -> Iterator[MeasuredOperators]:
    table = pd.read_parquet(DATA / "aiconfigurator" / f"{name}.parquet")
    for (gpu, dtype), rows in table.groupby(["gpu", "dtype"], sort=True):
        yield _measured(KINDS[name], rows, load_gpu(str(gpu)), str(dtype), "aiconfigurator")


def _measured(kind: Kind, rows: pd.DataFrame, gpu: GPU, dtype: str, data: str) -> MeasuredOperators:
    columns = {str(column).lower(): column for column in rows.columns}
    sizes = np.empty((len(rows), len(kind.sizes)))
    for place, size in enumerate(kind.sizes):
        column = next((columns[each.lower()] for each in (*size.also, size.name) if each.lower() in columns), None)
        if column is None:
            sizes[:, place] = size.default
            continue
        words = dict(size.words)
        cells = rows[column].map(lambda cell, words=words: words.get(cell, cell)) if words else rows[column]
        sizes[:, place] = cells.to_numpy(np.float64)
    own, _, cached = dtype.partition("/")
    names = [
        rows[name].to_numpy(str) if name in columns else np.full(len(rows), "")
        for name in ("framework", "kernel_source")
    ]
    batch = OperatorBatch(kind, format_named(own), format_named(cached or own), sizes, *names)
    return MeasuredOperators(batch, gpu, rows["time_us"].to_numpy(np.float64) * MICROSECOND, data)
