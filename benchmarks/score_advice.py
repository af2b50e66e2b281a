"""What the advice names first for ten kernels with a planted change, and what undoing the change really gains.

Each kernel of kernels/planted.cu is forecast without and with its change. The advice is right where it names the cause
of the change first; beside its speed-up stands the real one, the two forecasts' ratio. Prints Markdown.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kerncast.errors import Refusal
from kerncast.forecast import Means
from kerncast.forecast.what_if import WhatIf
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.models import Question
from kerncast.studies.sensitivity.lifting import Advice, Cause, advise
from kerncast.units import format_seconds

_LAUNCHES = Path(__file__).with_name("kernels") / "planted.toml"
_GPUS = ("rtx-3080", "titan-v", "a100-sxm-80gb", "h100-sxm", "gtx-1070")
_PLANTED = {
    "scale_runs": Cause.UNCOALESCED,
    "sum_lines": Cause.UNCOALESCED,
    "filter16": Cause.ROLLED_LOOP,
    "far_sums": Cause.ROLLED_LOOP,
    "centred": Cause.REPEATED_TRAFFIC,
    "pairs": Cause.REPEATED_TRAFFIC,
    "gather": Cause.OCCUPANCY,
    "iterate": Cause.OCCUPANCY,
    "transpose": Cause.BANK_CONFLICTS,
    "count_own": Cause.BANK_CONFLICTS,
}
#: A change that costs less is not felt on that GPU, and nothing is to be named.
_FELT = 1.05


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel on one GPU."""

    kernel: str
    gpu: str
    slower: float
    """time with the change over the time without it"""
    advice: Advice

    @property
    def is_felt(self) -> bool:
        """Whether the change costs anything to speak of."""
        return self.slower >= _FELT

    @property
    def is_named_first(self) -> bool:
        """Whether the advice names the change first."""
        return bool(self.advice.gains) and self.advice.gains[0].cause is _PLANTED[self.kernel]


def rows_on(gpu: GPU) -> Iterator[Row]:
    """Yield a row per kernel that can be simulated on a GPU."""
    for launch in load_launches(_LAUNCHES):
        try:
            before = WhatIf.of(launch, gpu, Question(), Means()).seconds_on(gpu)
            advice = advise(_with_change(launch), gpu, Question())
        except Refusal as refusal:
            print(f"{launch.kernel} on {gpu.name}: {refusal}")
            continue
        yield Row(str(launch.kernel), gpu.name, advice.seconds / before, advice)


def _with_change(launch: Launch) -> Launch:
    return replace(launch, defines=(*launch.defines, ("PLANTED", "1")))


def _line(row: Row) -> str:
    gains = row.advice.gains
    first = f"{gains[0].cause.value} ×{gains[0].speed_up:.2f}" if gains else "nothing"
    verdict = "yes" if row.is_named_first else "no" if row.is_felt else "not felt"
    cells = (
        row.kernel, row.gpu, _PLANTED[row.kernel].value, format_seconds(row.advice.seconds, 3), f"×{row.slower:.2f}",
        first, verdict,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row per kernel and GPU, and how many changes are named first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="append", help="GPU; repeatable")
    names = parser.parse_args().gpu or _GPUS
    print("| kernel | GPU | planted | time | slower by | named first | right |")
    print("|---|---|---|---:|---:|---|---|")
    rows = []
    for name in names:
        for row in rows_on(load_gpu(name)):
            print(_line(row), flush=True)
            rows.append(row)
    felt = [row for row in rows if row.is_felt]
    right = sum(row.is_named_first for row in felt)
    print(f"\n{right} of {len(felt)} changes that cost 5 % or more are named first; {len(rows) - len(felt)} cost less.")


if __name__ == "__main__":
    main()
