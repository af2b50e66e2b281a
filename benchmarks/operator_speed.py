"""How long a table of operators takes, beside the plainest roofline in NumPy on the same sizes, in one run.

Prints Markdown: seconds of one core for a million operators, and how often the roofline would have been done.
"""

import time
from collections.abc import Callable

import numpy as np

from kerncast.gpu import load_gpu
from kerncast.models.operators.forecasts import times_of
from kerncast.models.operators.operator_work import Floats, OperatorBatch
from kerncast.operators import format_named, kind_named

_ROWS, _MILLION = 100_000, 1_000_000
_GPU = load_gpu("H200")
#: Kind, format, and the powers of two of the sizes; all further sizes as where none is given.
_TABLES = (
    ("gemm", "bf16", ((0, 14), (6, 14), (6, 14))), ("bmm", "fp32", ((0, 7), (4, 12), (4, 12), (4, 12))),
    ("linear", "fp32", ((0, 1), (4, 12), (4, 12), (4, 12))), ("softmax", "fp32", ((0, 14), (4, 14))),
    ("add", "fp32", ((0, 14), (4, 14))), ("context_attention", "bf16", ((0, 6), (4, 14), (2, 6))),
    ("generation_attention", "bf16", ((0, 6), (4, 14), (2, 6))),
)  # fmt: skip


def table(kind: str, dtype: str, powers: tuple[tuple[int, int], ...]) -> OperatorBatch:
    """Return operators of random sizes; seeded."""
    found, draw = kind_named(kind), np.random.default_rng(0)
    columns = [np.exp2(draw.integers(low, high, _ROWS)) for low, high in powers]
    columns += [np.full(_ROWS, float(size.default or 0)) for size in found.sizes[len(columns) :]]
    nobody = np.full(_ROWS, "")
    return OperatorBatch(found, format_named(dtype), format_named(dtype), np.column_stack(columns), nobody, nobody)


def roofline(batch: OperatorBatch) -> Floats:
    """Return the larger of operations over the FP32 peak and bytes over the bandwidth of a product of all sizes."""
    work = np.prod(np.maximum(batch.sizes, 1.0), axis=1)
    return np.asarray(
        np.maximum(2 * work / _GPU.peak_fp32_flops_per_s, batch.dtype.nbytes * work / _GPU.dram_bytes_per_s)
    )


def seconds_of(call: Callable[[], object]) -> float:
    """Return the processor's time of the second of two calls."""
    call()
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Time, print."""
    print("| operators | a million | over the roofline's time |\n|---|---|---|")
    for kind, dtype, powers in _TABLES:
        batch = table(kind, dtype, powers)
        ours, plain = seconds_of(lambda b=batch: times_of(b, _GPU)), seconds_of(lambda b=batch: roofline(b))  # type: ignore[misc]
        print(f"| {kind} {dtype} | {ours * _MILLION / _ROWS:.1f} s | {ours / plain:.0f} |")


if __name__ == "__main__":
    main()
