"""Counts the machine instructions in the hot loop of every ceiling's kernel, and writes the table of docs/ceilings.md.

Needs nvdisasm in the PATH (pip install nvidia-cuda-nvdisasm, then add nvidia/cu13/bin), which reads sm_75 and newer.
``python tools/ceiling_sass.py`` prints the table, ``--write`` puts it into the document, ``--loop KERNEL SM`` prints
one loop.
"""

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.bench.ceilings import SOURCES
from kerncast.compile import compile_request
from kerncast.compile.nouns import CompileRequest

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
DOCUMENT = Path(__file__).parents[1] / "docs" / "ceilings.md"
BEGIN, END = "<!-- table of tools/ceiling_sass.py -->", "<!-- end of the table -->"

#: Patterns that need other words in the table.
_WORDS = {
    r"(LDG|STG)\.E\.128": "LDG.E.128, STG.E.128",
    r"IMAD(?!\.(MOV|IADD|SHL|X))": "IMAD",
    r"V?IADD": "IADD",
    r"LDS(\.U)?\.128": "LDS.128",
}

_LABEL = re.compile(r"^(\.L\w+):")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel, and the opcode whose rate or latency it measures."""

    source: str
    kernel: str
    wanted: str
    """pattern of the opcode with its modifiers"""
    oldest: int = 0
    defines: tuple[tuple[str, str], ...] = ()


ROWS = (
    Row("dram", "dram_read", r"LDG\.E\.128"),
    Row("dram", "dram_init", r"STG\.E\.128"),
    Row("dram", "dram_copy", r"(LDG|STG)\.E\.128"),
    Row("dram", "dram_triad", r"(LDG|STG)\.E\.128", defines=(("UNROLL", "2"),)),
    Row("cache", "l2_read", r"LDG\.E\.128"),
    Row("cache", "l1_read", r"LDG\.E\.128", defines=(("WORDS", "4"),)),
    Row("shared", "shared_read", r"LDS(\.U)?\.128"),
    Row("shared", "shared_conflict", r"LDS"),
    Row("rates", "fma_f32", r"FFMA"),
    Row("rates", "fma_f64", r"DFMA"),
    Row("rates", "fma_f16x2", r"HFMA2"),
    Row("rates", "add_i32", r"V?IADD"),
    Row("rates", "mad_i32", r"IMAD(?!\.(MOV|IADD|SHL|X))"),
    Row("rates", "ex2_f32", r"MUFU\.EX2"),
    Row("rates", "rsqrt_f32", r"MUFU\.RSQ"),
    Row("tensor", "tensor_f16", r"HMMA"),
    Row("tensor", "tensor_i8", r"IMMA"),
    Row("tensor", "tensor_bf16", r"HMMA", 80),
    Row("tensor", "tensor_tf32", r"HMMA", 80),
    Row("tensor", "tensor_f64", r"DMMA", 80),
    Row("matrix_product", "matrix_product", r"FFMA"),
    Row("clock", "clock_under_fma", r"FFMA"),
    Row("atomics", "atomic_global", r"RED"),
    Row("atomics", "atomic_shared", r"ATOMS"),
    Row("latency", "chase", r"LDG"),
    Row("latency", "chase_l1", r"LDG"),
    Row("latency", "chase_shared", r"LDS"),
    Row("latency", "latency_fma", r"FFMA"),
    Row("latency", "latency_iadd", r"V?IADD"),
    Row("latency", "latency_mufu", r"MUFU\.RSQ"),
    Row("latency", "latency_barrier", r"BAR"),
    Row("latency", "latency_atomic", r"ATOMG"),
)


def loops(kernel: str, cubin: bytes) -> Iterator[list[tuple[str, str]]]:
    """Yield a kernel's instructions (opcode, operands) between each backward branch and its target."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "k.cubin"
        file.write_bytes(cubin)
        text = subprocess.run(["nvdisasm", "-c", file], capture_output=True, check=True, text=True).stdout  # noqa: S607
    instructions: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    # The module holds every kernel of the source.
    body = re.split(r"^//-+ \.text\.", text, flags=re.MULTILINE)
    own = next(part for part in body if part.split(maxsplit=1)[0] == kernel)
    for line in own.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            instructions.append((match[1], match[2]))
            target = re.search(r"\((\.L\w+)\)", match[2])
            if match[1].startswith("BRA") and target and target[1] in labels:
                start = labels[target[1]]
                if start < len(instructions) - 1:
                    yield instructions[start:]


def hot_loop(row: Row, cubin: bytes) -> list[tuple[str, str]]:
    """Return the loop that holds most of the wanted instructions, the shortest of those."""
    found = list(loops(row.kernel, cubin))
    return max(found, key=lambda loop: (sum(is_wanted(row, op) for op, _ in loop), -len(loop)), default=[])


def is_wanted(row: Row, opcode: str) -> bool:
    """Whether an opcode is what a row measures."""
    return re.match(row.wanted, opcode) is not None


def compiled(row: Row, architectures: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Compile a row's kernel for each architecture that has what it needs."""
    known = tuple(name for name in architectures if int(name.removeprefix("sm_")) >= row.oldest)
    request = CompileRequest(SOURCES / f"{row.source}.cu", known, kernel=row.kernel, defines=row.defines)
    yield from ((kernel.architecture, kernel.cubin) for kernel in compile_request(request).kernels)


def table() -> str:
    """Return the table in Markdown: wanted instructions of all in the loop by architecture, and the others of one."""
    names = [name.replace("_", "\\_") for name in ARCHITECTURES]
    lines = [
        f"| kernel | wanted | {' | '.join(names)} | the others on {names[-2]} |",
        f"|---|---|{'---|' * len(names)}---|",
    ]
    for row in ROWS:
        found = {name: hot_loop(row, cubin) for name, cubin in compiled(row, ARCHITECTURES)}
        cells = [_share(row, found[name]) if name in found else "" for name in ARCHITECTURES]
        others = Counter(op.split(".")[0] for op, _ in found[ARCHITECTURES[-2]] if not is_wanted(row, op))
        rest = ", ".join(f"{count} {name}" for name, count in others.most_common())
        wanted = _WORDS.get(row.wanted, row.wanted.replace("\\", ""))
        lines.append(f"| `{row.kernel}` | `{wanted}` | {' | '.join(cells)} | {rest} |")
    return "\n".join(lines)


def _share(row: Row, loop: Sequence[tuple[str, str]]) -> str:
    """Return wanted of all instructions; those that only fill time are given apart."""
    wanted = sum(is_wanted(row, opcode) for opcode, _ in loop)
    idle = sum(opcode == "NOP" for opcode, _ in loop)
    return f"{wanted} of {len(loop) - idle}" + (f" + {idle} NOP" if idle else "")


def main() -> None:
    """Print the table, write it, or print one loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/ceilings.md")
    parser.add_argument("--loop", nargs=2, metavar=("KERNEL", "SM"), help="print the hot loop of one kernel")
    chosen = parser.parse_args()
    if chosen.loop:
        row = next(row for row in ROWS if row.kernel == chosen.loop[0])
        for _, cubin in compiled(row, [chosen.loop[1]]):
            print("\n".join(f"{opcode}{operands}" for opcode, operands in hot_loop(row, cubin)))
        return
    text = table()
    if not chosen.write:
        print(text)
        return
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
