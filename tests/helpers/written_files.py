"""Writes each kind of file while something goes wrong, and prints what came of it.

Every case is a forked process: one that a signal ends in the middle of a write, as kill -9 would, one on a full disk,
one whose folder is read-only.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from kerncast.cli.shared.output import write_text
from kerncast.errors import InputError
from kerncast.forecast import Options, resolve_gpus
from kerncast.measurements.table_files import Cell, write_table
from kerncast.models.learned.model_files import read_model, write_model
from kerncast.report.pictures.picture_files import save_picture
from kerncast.studies.sweeps.point_results import Job, Outcome, PointResult
from kerncast.studies.sweeps.space import launch_space
from kerncast.studies.sweeps.sweep_store import SweepStore
from tests.helpers.places import ROOT, TESTS

OLD = b"what was there before"
FAULTS = ("none", "kill", "full disk", "read-only folder")
_MOST_BYTES = 700
_NOBODY = 65534
_ROWS: list[list[Cell]] = [[f"k{row}", row, row * 0.5] for row in range(400)]
_COLUMNS: dict[str, type[str | int | float | bool]] = {"kernel": str, "count": int, "seconds": float}
_MODEL = read_model(TESTS / "fuzz" / "corpus" / "forest.kcm")
_SPACE = launch_space(ROOT / "examples" / "saxpy.toml", ["block=32,64,96,128,160,192"], (), 0)
_JOB = Job(tuple(resolve_gpus(["t4"])), Options(model="roofline"))
_FINISHED, _REFUSED, _DEFECT = 0, 2, 1


def _model(path: Path) -> None:
    write_model(path, _MODEL)


def _picture(path: Path) -> None:
    figure = Figure()
    figure.subplots().plot([1, 2, 3])
    save_picture(figure, path)


def _sweep(path: Path) -> None:
    with SweepStore(path, _SPACE, _JOB) as store:
        for point in _SPACE.points():
            store.add(PointResult(point, (Outcome("t4", 1e-3, 5e-4, 2e-3, "dram", "roofline", None, ""),)))


KINDS: dict[str, Callable[[Path], None]] = {
    "forecasts.json": lambda path: write_text(path, json.dumps(_ROWS)),
    "report.html": lambda path: write_text(path, "<p>" * 1000),
    "report.md": lambda path: write_text(path, "| a |\n" * 1000),
    "model.kcm": _model,
    "picture.svg": _picture,
    "picture.png": _picture,
    "table.csv": lambda path: write_table(path, _COLUMNS, _ROWS),
    "table.parquet": lambda path: write_table(path, _COLUMNS, _ROWS),
    "sweep.jsonl": _sweep,
}


def _suffer(fault: str, path: Path) -> None:
    if fault == "read-only folder":
        path.parent.chmod(0o555)
        if os.geteuid() == 0:  # whom no permission stops
            os.seteuid(_NOBODY)
    elif fault != "none":
        kills = fault == "kill"
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kills else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_BYTES, _MOST_BYTES))


def _ended(write: Callable[[Path], None], fault: str, path: Path) -> int:
    """Write in a forked process; returns its exit status, or the signal that ended it as a negative number."""
    child = os.fork()
    if child == 0:
        status = _DEFECT
        try:
            _suffer(fault, path)
            write(path)
            status = _FINISHED
        except InputError:
            status = _REFUSED
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path) -> None:
    """Print a list of kind, fault, exit status, what the file held before and after, and what lies beside it."""
    # A user without rights may not be able to import anything any more: all was imported by writing once.
    found = []
    for kind, write in KINDS.items():
        write(folder / kind)
        new = (folder / kind).read_bytes()
        old = new if kind == "sweep.jsonl" else OLD
        for fault in FAULTS:
            place = folder / f"{fault} {kind}"
            place.mkdir()
            path = place / kind
            if kind != "sweep.jsonl":
                path.write_bytes(old)
                path.chmod(0o666)
            status = _ended(write, fault, path)
            held = path.read_bytes() if path.exists() else b""
            state = "new" if held == new else "old" if held == old else "beginning" if new.startswith(held) else "other"
            beside = sorted(each.name for each in place.iterdir() if each != path)
            again = _ended(write, "none", path) if fault == "kill" else 0
            whole = path.read_bytes() == new if fault == "kill" else True
            place.chmod(0o755)
            found.append([kind, fault, status, state, beside, again == 0 and whole])
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
