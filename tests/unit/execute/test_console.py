"""What printf writes, against Python's own formatting."""

import struct

import numpy as np
import pytest

from kerncast.caveats import CaveatKind
from kerncast.execute.setup.state import LIMIT_BYTES, formatted
from tests.helpers.caveats import kinds
from tests.helpers.execute_helpers import compiled, launch, run

SOURCE = """
extern "C" __global__ void prints(const int* x, int* count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 2) count[i] = printf("%d: %s, %.3f\\n", i, x[i] & 1 ? "odd" : "even", x[i] / 4.0);
    else count[i] = printf("small\\n");
}
extern "C" __global__ void floods(int* x)
{
    for (int i = 0; i < 200; i++) x[threadIdx.x] += printf("%d %d\\n", i, x[threadIdx.x]);
}
"""


def strings(address: int) -> str:
    return {8: "text", 0: ""}[address]


@pytest.mark.parametrize(
    ("pattern", "kinds", "values", "expected", "count"),
    [
        ("nothing", "", (), "nothing", 0),
        ("%d %u %x", "iII", (-5, 4000000000, 255), "-5 4000000000 ff", 3),
        ("%lld|%llu|%#llx", "qQQ", (-(2**60), 2**64 - 1, 2**40), f"{-(2**60)}|{2**64 - 1}|{2**40:#x}", 3),
        ("%hd %hhu", "iI", (-70000, 511), f"{np.int32(-70000).astype(np.int16)} 255", 2),
        ("%5.2f|%-9.1e|%g", "ddd", (2.5, 12345.678, 1e-7), " 2.50|1.2e+04  |1e-07", 3),
        ("%*d|%-6s|%c%%", "iiQi", (4, 7, 8, 65), "   7|text  |A%", 4),
        ("%d %f", "id", (1, 0.5), "1 0.500000", 2),
        ("%08.3f %+d % d", "dii", (-1.5, 3, 3), "-001.500 +3  3", 3),
        ("%.2s|%o|%p", "QIQ", (8, 8, 0xABC), "te|10|0xabc", 3),
        ("%.*f|%.f|%.3d", "iddi", (-1, 2.5, 3.5, 7), "2.500000|4|007", 4),
        ("%999999999d", "i", (1,), " " * 1023 + "1", 1),
    ],
)
def test_formats(pattern: str, kinds: str, values: tuple[float, ...], expected: str, count: int) -> None:
    assert formatted(pattern, struct.pack("@" + kinds, *values), strings) == (expected, count)


def test_missing_arguments_read_as_zero() -> None:
    assert formatted("%d %s %f", b"", strings) == ("0  0.000000", 3)


def test_a_kernel_prints(engine: str) -> None:
    del engine
    trace = run(compiled(SOURCE), launch(2, 4, x="i32[8] iota", count="i32[8] zeros"))
    lines = [f"{i}: {'odd' if i % 2 else 'even'}, {i / 4:.3f}\n" if i > 2 else "small\n" for i in range(8)]
    # Lanes that go the same way print together; which way is first is not said.
    assert sorted(trace.printed.splitlines(keepends=True)) == sorted(lines)
    assert trace.printed.index("3:") < trace.printed.index("4:") < trace.printed.index("7:")
    assert trace.memory["count"].tolist() == [0, 0, 0, 3, 3, 3, 3, 3]
    assert kinds(trace.remarks) == [CaveatKind.PRINTF_LEFT_OUT]


def test_the_text_is_bounded(engine: str) -> None:
    del engine
    trace = run(compiled(SOURCE, "floods"), launch(1, 64, x="i32[64] zeros"))
    assert len(trace.printed) == LIMIT_BYTES
    assert trace.memory["x"].tolist() == [400] * 64
