"""Count what PTX becomes: writes ``src/kerncast/data/instructions/lowering.csv`` from disassembled programs.

    python tools/calibrate_lowering.py [--old PATH] [--check [--only sm_75 ...]]

Programs: those of the suite, and ``lowering_kernels.cu`` beside this file, which has instructions that the suite lacks.
nvidia-cuda-nvdisasm disassembles sm_75 and newer; ``--old`` names an nvdisasm of CUDA 12 for sm_52 and sm_70, whose
columns stay empty without it. ``--check`` writes nothing: it fits on every second program and prints, for the others,
the geometric mean, the spread and the worst of estimated over disassembled warp instructions.
"""

import argparse
import csv
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import kerncast
from kerncast.bench import KERNELS
from kerncast.compile import CompileRequest, compile_request
from kerncast.errors import KerncastError
from kerncast.execute import Budget, execute
from kerncast.launch import Launch, load_launches
from kerncast.machine.control_flow import machine_graph
from kerncast.machine.forms import forms_of, issuing_blocks
from kerncast.machine.frequencies import block_frequencies
from kerncast.machine.instruction_set import ENTRY
from kerncast.machine.linear_program import NotSolvedError
from kerncast.machine.listing import MachineRoutine, disassembler, parse_listing
from kerncast.machine.mix import Reading
from kerncast.machine.ptx_counts import PtxCounts, count_lines
from kerncast.traces import Trace

DATA = Path(kerncast.__path__[0]) / "data"
TABLE = DATA / "instructions" / "lowering.csv"
EXTRA = Path(__file__).with_name("lowering_kernels.toml")
ARCHITECTURES = ("sm_52", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
OLD = {"sm_52", "sm_70"}
#: The programs beside the suite fill gaps: where the suite has a form, it decides.
EXTRA_WEIGHT = 0.02
#: Instructions that keep a warp together bear the lines of their neighbours; branches cause them.
KEEPING = {"BSSY", "BSYNC", "BMOV", "BREAK", "WARPSYNC", "SSY", "SYNC", "PBK", "BRK", "YIELD", "PCNT", "CONT"}
BRANCH = "bra.skip"
#: Before Volta, these jump to the target that the instruction named here has set.
JUMPS = {"SYNC": "SSY", "BRK": "PBK", "CONT": "PCNT"}
LEAST = 0.02
#: A line whose machine code runs so much more often than it does not belong to it alone.
MOST = 8.0
LONG = {"div", "rem", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "atom", "red"}
MOST_OF_LONG = 200.0

BRANCHES = {"BRA", "EXIT", "BRX", "CALL", "RET"}
KEPLER_LACKS = {"NOP", "DEPBAR", "SYNC"}
KEPLER_NAMES = {
    "XMAD": "IMAD", "MOV32I": "MOV", "LOP32I": "LOP", "LOP3": "LOP", "IADD3": "IADD", "IADD32I": "IADD",
    "LEA": "ISCADD",
}  # fmt: skip

Table = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel on one architecture: what its lines became."""

    program: str
    kernel: str
    work: float
    """PTX instructions per thread"""
    forms: dict[int, str]
    """by line"""
    runs: dict[int, float]
    """executions of each line, per thread"""
    became: dict[int, dict[str, float]]
    """executions of opcodes that bear the line"""
    issued: dict[str, float]
    """by form: warps that issue it, as the estimate reckons them"""
    warp_instructions: float
    """of the disassembled code"""


def main() -> None:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--old", type=Path, help="nvdisasm of CUDA 12, for architectures before sm_75")
    parser.add_argument("--only", nargs="+", default=ARCHITECTURES, metavar="SM", help="with --check: architectures")
    parser.add_argument("--check", action="store_true", help="fit on one half of the programs, print the other")
    options = parser.parse_args()
    tables: dict[str, Table] = {}
    for architecture in options.only if options.check else ARCHITECTURES:
        program = options.old if architecture in OLD else disassembler()
        if program is None:
            print(f"{architecture}: no disassembler")
            continue
        samples = list(read_samples(architecture, program))
        if options.check:
            check(architecture, samples)
        tables[architecture] = fit(samples)
    if not options.check:
        write(tables)


def read_samples(architecture: str, program: Path) -> Iterator[Sample]:
    """Disassemble and execute every kernel."""
    for name, launch in launches():
        request = CompileRequest(launch.source, (architecture,), launch.kernel, launch.defines)
        try:
            kernel = compile_request(request).kernels[0]
            trace, _ = execute(kernel, launch, Budget(sample_seconds=0.1))
            routine = parse_listing(listing(program, kernel.cubin))[kernel.mangled]
            yield sample(name, (with_jumps(routine), trace, count_lines(trace)))
        except (KerncastError, NotSolvedError, KeyError) as error:
            print(f"{architecture} {name} {launch.kernel}: left out ({error!r:.80})")


def launches() -> Iterator[tuple[str, Launch]]:
    """Yield one launch of each kernel; of the convolution's templates, which differ in numbers alone, the first two."""
    for path in (*sorted((KERNELS / "suite").glob("*.toml")), EXTRA):
        if path.stem.endswith("_declared"):
            continue
        first: dict[str | None, Launch] = {}
        for each in load_launches(path):
            first.setdefault(each.kernel, each)
        chosen = list(first.values())
        yield from ((path.stem, each) for each in (chosen[:2] if path.stem == "conv2d_variants" else chosen))


@cache
def listing(program: Path, cubin: bytes) -> str:
    """Run a disassembler; older code shows instructions that issue together in braces."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "code.cubin"
        file.write_bytes(cubin)
        found = subprocess.run([str(program), "-c", "-gp", str(file)], capture_output=True, text=True, check=True)
    return re.sub(r"(\*/\s+)\{\s*", r"\1", found.stdout)


def with_jumps(routine: MachineRoutine) -> MachineRoutine:
    """Turn SYNC and the like into branches to the nearest target ahead that was set before them."""
    code, labels = list(routine.instructions), routine.labels
    for number, ins in enumerate(code):
        if ins.opcode not in JUMPS:
            continue
        setters = [i for i in code[:number] if i.opcode == JUMPS[ins.opcode] and i.targets]
        ahead = [(labels[i.targets[0]], i.targets[0]) for i in setters if labels[i.targets[0]] > number]
        if ahead:
            code[number] = replace(ins, opcode="BRA", modifiers=(ins.opcode,), targets=(min(ahead)[1],))
    return replace(routine, instructions=tuple(code))


def sample(program: str, found: tuple[MachineRoutine, Trace, PtxCounts]) -> Sample:
    """Attribute the machine code of a kernel to the lines of its PTX."""
    routine, trace, executed = found
    graph = machine_graph(routine)
    reading = Reading(graph, executed, block_frequencies(graph, executed))
    warps = trace.counts.block_warps.sum(axis=0).astype(float)
    became: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    total = 0.0
    for block, times in reading.ran.items():
        beside = reading.ptx_block(block, times)
        total += times / float(executed.block_threads[beside]) * warps[beside] * len(reading.code_of(block))
        for ins in reading.code_of(block):
            counted = not ins.guard or ins.opcode in BRANCHES or executed_in_part(executed, ins.line)
            share = 1.0 if counted else reading.share_on(ins, block, times)
            opcode = ins.modifiers[0] if ins.opcode == "BRA" and JUMPS.keys() & ins.modifiers else ins.opcode
            became[ins.line][opcode] += times * share
    forms = forms_of(trace.function, trace.cfg)
    by_line: dict[int, str] = {}
    runs: dict[int, float] = defaultdict(float)
    for form, of_ptx, threads in zip(forms, executed.code, executed.threads.tolist(), strict=True):
        by_line.setdefault(of_ptx.line, form)
        runs[of_ptx.line] += threads
    issued = issued_warps(trace, forms, warps.tolist())
    return Sample(program, trace.function.name, executed.work, by_line, runs, became, issued, total)


def executed_in_part(executed: PtxCounts, line: int) -> bool:
    """Return whether a line becomes several instructions, some with a predicate that seldom holds."""
    return line in executed.on_line and executed.first(line).root in LONG


def issued_warps(trace: Trace, forms: list[str], warps: list[float]) -> dict[str, float]:
    """Return how many warps issue each form, predicated blocks with the block before them."""
    issued: dict[str, float] = defaultdict(float)
    for block, with_block in zip(trace.cfg.blocks, issuing_blocks(trace.function, trace.cfg), strict=True):
        for form in forms[block.start : block.stop]:
            issued[form] += warps[with_block]
    issued[ENTRY] += warps[0]
    return issued


def fit(samples: list[Sample]) -> Table:
    """Return opcodes per execution of each form, and of each beginning of its name; programs count alike."""
    kernels = Counter(each.program for each in samples)
    forms, names = _Sums(), _Sums()
    for each in samples:
        weight = (EXTRA_WEIGHT if each.program == EXTRA.stem else 1.0) / each.work / kernels[each.program]
        forms.ran[ENTRY] += weight
        for line, times in each.runs.items():
            forms.ran[each.forms[line]] += weight * times
            for name in beginnings(each.forms[line])[:-1]:
                names.ran[name] += weight * times
        for form, opcode, times in attributed(each):
            forms.made[form][opcode] += weight * times
            for name in beginnings(form)[:-1]:
                names.made[name][opcode] += weight * times
    return names.table() | forms.table()


class _Sums:
    """Executions of forms, and of the opcodes that they became."""

    def __init__(self) -> None:
        self.ran: dict[str, float] = defaultdict(float)
        self.made: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def table(self) -> Table:
        return {
            form: {opcode: made / ran for opcode, made in self.made[form].items() if made >= LEAST * ran}
            for form, ran in self.ran.items()
            if ran
        }


def attributed(one: Sample) -> Iterator[tuple[str, str, float]]:
    """Yield form, opcode and executions of the machine code of a kernel."""
    keeps = any(one.runs[line] for line, form in one.forms.items() if form == BRANCH)
    for line, opcodes in one.became.items():
        form = one.forms.get(line, ENTRY) if one.runs.get(line) else ENTRY
        most = (MOST_OF_LONG if form.split(".")[0] in LONG else MOST) * one.runs.get(line, 0.0)
        for opcode, times in opcodes.items():
            if opcode not in KEEPING:
                yield form, opcode, times if form == ENTRY else min(times, most)
            elif keeps:
                yield BRANCH, opcode, times


def beginnings(form: str) -> list[str]:
    """Return a form and all names that it is shortened to.

    >>> beginnings("ld.global.32")
    ['ld', 'ld.global', 'ld.global.32']
    """
    parts = form.split(".") if form else []
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def check(architecture: str, samples: list[Sample]) -> None:
    """Print how well each half of the programs predicts the other."""
    names = sorted({each.program for each in samples} - {EXTRA.stem})
    for rest in (0, 1):
        table = fit([s for s in samples if s.program == EXTRA.stem or names.index(s.program) % 2 == rest])
        ratios: dict[str, list[float]] = defaultdict(list)
        for each in samples:
            if each.program != EXTRA.stem and names.index(each.program) % 2 != rest:
                estimated = sum(warps * total(table, form) for form, warps in each.issued.items())
                ratios[each.program].append(np.log(estimated / each.warp_instructions))
        logs = np.array([np.mean(values) for values in ratios.values()])
        off = np.abs(np.exp(logs) - 1)
        worst = sorted(zip(off.tolist(), ratios, strict=True), reverse=True)[:3]
        print(
            f"{architecture}: {len(logs)} programs, geometric mean {np.exp(logs.mean()):.3f},"
            f" spread x/{np.exp(logs.std()):.3f}, median error {np.median(off):.1%}, worst",
            ", ".join(f"{name} {error:.0%}" for error, name in worst),
        )


def total(table: Table, form: str) -> float:
    """Return how many machine instructions a form becomes."""
    known = [name for name in beginnings(form) if name in table]
    return sum(table[known[-1]].values()) if known else 1.0


def kepler(form: str, opcodes: dict[str, float]) -> dict[str, float]:
    """Return what a form becomes on sm_35, which no disassembler reads, from what it becomes on sm_52.

    Kepler multiplies integers in one instruction (XMAD takes three), makes a 64-bit address of a base and a scaled
    index in two (IMAD with carry, IMAD.HI.X), has two-operand LOP and IADD, marks the end of divergence in an
    instruction that is there anyway, and needs neither NOP nor DEPBAR for alignment and dependences.
    """
    words = form.split(".")
    if words[:2] == ["mul", "wide"] and "added" in words:
        return {}
    if words[:2] == ["add", "s64"] and "wide" in words:
        return {"IMAD": 2.0}
    found: dict[str, float] = defaultdict(float)
    for opcode, count in opcodes.items():
        if opcode not in KEPLER_LACKS and not (opcode == "MEMBAR" and words[0] == "bar"):
            found[KEPLER_NAMES.get(opcode, opcode)] += count / 3 if opcode == "XMAD" else count
    return found


def write(tables: dict[str, Table]) -> None:
    """Write the table: a row per form and opcode, a column per architecture."""
    forms = sorted({form for table in tables.values() for form in table})
    columns = ["sm_35", *ARCHITECTURES]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["form", "opcode", *columns])
        for form in forms:
            found = {name: table.get(form, {}) for name, table in tables.items()}
            # A form that the older compiler does not make: as on the next architecture.
            if form not in tables.get("sm_52", {}):
                found["sm_52"] = found.get("sm_70", {})
            found["sm_35"] = kepler(form, found["sm_52"])
            for opcode in sorted({opcode for each in found.values() for opcode in each}) or [""]:
                rows.writerow([form, opcode, *(text(found.get(c, {}).get(opcode, 0.0)) for c in columns)])


def text(count: float) -> str:
    """Return a count with two digits behind the point, or nothing."""
    return f"{count:.2f}".rstrip("0").rstrip(".") if count >= LEAST / 4 else ""


if __name__ == "__main__":
    main()
