"""Planted changes are named first, and undoing one gains what planting it cost."""

from pathlib import Path

import pytest

from kerncast.forecast import Means
from kerncast.forecast.what_if import WhatIf
from kerncast.gpu import load_gpu
from kerncast.models import Question
from kerncast.studies.sensitivity.lifting import Cause, advise, unrolled
from tests.helpers.planted import SOURCE, launches, planted
from tests.helpers.thorough import sampled

PLANTED = {
    "sum_lines": Cause.UNCOALESCED,
    "far_sums": Cause.ROLLED_LOOP,
    "pairs": Cause.REPEATED_TRAFFIC,
    "iterate": Cause.OCCUPANCY,
    "transpose": Cause.BANK_CONFLICTS,
}


@pytest.mark.parametrize("kernel", sampled(PLANTED, {"pairs", "transpose"}))
def test_what_was_planted_is_named_first(kernel: str) -> None:
    gpu = load_gpu("rtx-3080")
    before = WhatIf.of(launches()[kernel], gpu, Question(), Means()).seconds_on(gpu)
    after = advise(planted(kernel), gpu, Question())
    assert after.seconds > 1.1 * before
    assert not after.refused
    assert after.gains[0].cause is PLANTED[kernel]
    # Lifting it is not worth more than the kernel without it, but for what schedules differ by.
    assert after.gains[0].seconds >= 0.9 * before


def test_the_line_is_that_of_the_source() -> None:
    gain = advise(planted("transpose"), load_gpu("titan-v"), Question()).gains[0]
    (line,) = gain.lines
    assert Path(line.file).name == SOURCE.name
    assert "tile[threadIdx.x][threadIdx.y + k]" in SOURCE.read_text().splitlines()[line.line - 1]
    assert line.taken == 32 * line.needed


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("for (;;) {}\n", 1, "#pragma unroll 4\nfor (;;) {}\n"),
        ("int i;\n  #pragma unroll\nfor (;;) {}\n", 3, "int i;\n#pragma unroll 4\nfor (;;) {}\n"),
        ("#pragma once\nfor (;;) {}\n", 2, "#pragma once\n#pragma unroll 4\nfor (;;) {}\n"),
        ("a;\x0c\nfor (;;) {}\n", 2, "a;\x0c\n#pragma unroll 4\nfor (;;) {}\n"),
        ("#pragma nounroll\nwhile (a) b();", 2, "#pragma unroll 4\nwhile (a) b();"),
    ],
)
def test_a_pragma_goes_before_the_head_of_a_loop(text: str, line: int, expected: str) -> None:
    assert unrolled(text, line, 4) == expected
