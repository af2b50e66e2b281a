"""Run every launch file of a folder on its whole grid and print what came of it as a Markdown table.

    python benchmarks/run_programs.py FOLDER [--only NAME ...] [--seconds 120] [--architecture sm_70]

It is meant for programs that were written elsewhere: launch files may name their sources through environment variables
(``source = "${SUITE}/bfs/bfs.cu"``). Each launch file runs in a child process of its own, which may crash or hang
without harm to the others. Where FOLDER holds a ``checks.py``, a function ``NAME__KERNEL`` in it gets the arguments
before the launch, with ``grid`` and ``block``, and returns the expected contents of buffers; ``TOLERANCE`` holds the
tolerances that differ from 1e-5 of the largest magnitude.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel, CompileRequest, compile_request
from kerncast.errors import KerncastError
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup.arguments import ELEMENT_DTYPES, fill_buffer
from kerncast.launch import Buffer, Launch, load_launches

Arrays = Mapping[str, npt.NDArray[Any]]

_DEFAULT_TOLERANCE = 1e-5
_LONGEST_ERROR = 160


@dataclass(slots=True)
class Outcome:
    """What came of one launch; the text fields are empty where nothing went wrong."""

    program: str
    kernel: str = ""
    compiled: bool = False
    ran: bool = False
    checked: str = ""
    """yes, no or nothing where there is no check"""
    thread_instructions: int = 0
    seconds: float = 0.0
    error: str = ""
    defect: str = ""
    """the type of an exception that a user should never see"""


def run_file(file: Path, architecture: str, seconds: float) -> Iterator[Outcome]:
    """Compile and run each launch of one file."""
    checks = _load_checks(file.parent)
    compiled: dict[str | None, CompiledKernel] = {}
    try:
        launches = load_launches(file)
    except KerncastError as error:
        yield Outcome(file.stem, error=str(error))
        return
    for launch in launches:
        outcome = Outcome(file.stem, launch.kernel or "")
        begun = time.perf_counter()
        try:
            if launch.kernel not in compiled:
                compiled[launch.kernel] = _compile(launch, architecture)
            outcome.compiled = True
            _run_launch(launch, compiled[launch.kernel], checks, outcome, seconds)
        except KerncastError as error:
            outcome.error = str(error)
        except Exception as error:  # noqa: BLE001  a defect of kerncast is a result here
            outcome.error, outcome.defect = f"{type(error).__name__}: {error}", type(error).__name__
        outcome.seconds = time.perf_counter() - begun
        yield outcome


def _compile(launch: Launch, architecture: str) -> CompiledKernel:
    request = CompileRequest(
        launch.source,
        (architecture,),
        kernel=launch.kernel,
        defines=launch.defines,
        include_dirs=launch.include_dirs,
        standard=launch.standard,
    )
    return compile_request(request).kernels[0]


def _run_launch(
    launch: Launch, kernel: CompiledKernel, checks: ModuleType | None, outcome: Outcome, seconds: float
) -> None:
    trace, _ = execute(kernel, launch, WholeGrid(seconds=seconds))
    outcome.ran = True
    outcome.thread_instructions = int(trace.thread_executions.sum())
    name = f"{outcome.program}__{kernel.kernel.partition('<')[0].rpartition('::')[2]}"
    check = getattr(checks, name, None)
    if check is not None:
        problem = _check(check, getattr(checks, "TOLERANCE", {}).get(name, _DEFAULT_TOLERANCE), launch, trace.memory)
        outcome.checked = "no" if problem else "yes"
        outcome.error = problem


def _check(check: Callable[[dict[str, Any]], Arrays], tolerance: float, launch: Launch, after: Arrays) -> str:
    """Return what differs from the expected contents, or nothing."""
    for name, expected in check(_before(launch)).items():
        found = after[name].reshape(-1)
        wanted = np.asarray(expected).reshape(-1)
        if found.shape != wanted.shape:
            return f"{name} holds {found.size} elements, not {wanted.size}"
        if np.asarray(expected).dtype.kind == "f":
            scale = float(np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))) or 1.0
            same = np.isclose(found, wanted, rtol=0.0, atol=tolerance * scale, equal_nan=True)
        else:
            same = found == wanted
        if not same.all():
            place = int(np.argmin(same))
            return f"{name} differs in {np.count_nonzero(~same)} elements; [{place}] {found[place]} != {wanted[place]}"
    return ""


def _before(launch: Launch) -> dict[str, Any]:
    """Return the arguments as the kernel finds them."""
    found: dict[str, Any] = {"grid": launch.grid, "block": launch.block}
    for position, argument in enumerate(launch.arguments):
        value = argument.value
        if not isinstance(value, Buffer):
            found[argument.name] = value
            continue
        data = np.zeros(value.nbytes, np.uint8)
        fill_buffer(data, value, np.random.default_rng([launch.seed, position]), argument.name)
        found[argument.name] = data.view(ELEMENT_DTYPES[value.element]).reshape(value.shape)
    return found


def _load_checks(folder: Path) -> ModuleType | None:
    spec = importlib.util.spec_from_file_location("checks", folder / "checks.py")
    if spec is None or spec.loader is None or not (folder / "checks.py").is_file():
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_child(file: Path, architecture: str, seconds: float) -> list[Outcome]:
    """Run one file in a child process; what it had done before it ended badly counts."""
    command = [sys.executable, __file__, str(file.parent), "--child", file.stem, "--architecture", architecture]
    launches = file.read_text(encoding="utf-8").count("[[launch]]")
    died = ""
    with subprocess.Popen(  # noqa: S603  this script itself
        [*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            out, said = child.communicate(timeout=seconds * max(1, launches) + 60)
            if child.returncode:
                died = f"the process ended with {child.returncode}: {(said.strip().splitlines() or [''])[-1]}"
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            died = "the process did not end"
    outcomes = [Outcome(**json.loads(line)) for line in out.splitlines() if line.startswith("{")]
    return [*outcomes, Outcome(file.stem, error=died, defect="process")] if died else outcomes


def _row(outcome: Outcome) -> str:
    error = " ".join(outcome.error.split()).replace("|", "\\|")
    if len(error) > _LONGEST_ERROR:
        error = error[:_LONGEST_ERROR] + " …"
    count = f"{outcome.thread_instructions / 1e6:.2f} M" if outcome.ran else ""
    marks = ["yes" if flag else "no" for flag in (outcome.compiled, outcome.ran)]
    return " | ".join([
        f"| {outcome.program}", outcome.kernel, *marks, outcome.checked, count, f"{outcome.seconds:.1f}", f"{error} |",
    ])  # fmt: skip


def main() -> None:
    """Run the files and print the table and its totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds the launch files")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="launch files to run, without .toml")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of one launch")
    parser.add_argument("--architecture", default="sm_70")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for outcome in run_file(options.folder / f"{options.child}.toml", options.architecture, options.seconds):
            print(json.dumps(asdict(outcome)), flush=True)
        return
    files = sorted(options.folder.glob("*.toml"))
    chosen = [file for file in files if not options.only or file.stem in options.only]
    if not chosen:
        sys.exit(f"{options.folder} holds no such launch files")
    print("| program | kernel | compiled | ran | output right | thread-instructions | seconds | error |")
    print("|---|---|---|---|---|---|---|---|")
    outcomes: list[Outcome] = []
    for file in chosen:
        found = _in_child(file, options.architecture, options.seconds)
        outcomes += found
        print("\n".join(map(_row, found)), flush=True)
    _print_totals(outcomes)


def _print_totals(outcomes: list[Outcome]) -> None:
    programs = {each.program for each in outcomes}
    failing = {each.program for each in outcomes if not each.ran}
    checked = {each.program for each in outcomes if each.checked == "yes"}
    wrong = {each.program for each in outcomes if each.checked == "no"}
    print(f"\n{len(programs)} programs: {len(programs - failing)} ran with every kernel,")
    print(f"{len({each.program for each in outcomes if each.ran})} with at least one; {len(checked)} have an output")
    print(f"that was checked and right, {len(wrong)} a wrong one. {sum(each.ran for each in outcomes)} launches ran.")


if __name__ == "__main__":
    main()
