"""The features of the launches of launch files, executed for each GPU that they were timed on."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kerncast.errors import InputError, Refusal
from kerncast.forecast import Job, Means, Progress, each_in_limits, profile_launch
from kerncast.gpu import GPU, resolve_gpu
from kerncast.launch import Launch
from kerncast.metrics import FEATURES, feature_row
from kerncast.profiles import KernelProfile, ProfiledLaunch
from kerncast.read.features.launches import Column, Columns
from kerncast.read.features.table_files import ExecutedFeatures
from kerncast.read.launches import load_launches

_LAUNCH_FILE = ".toml"


def is_launch_file(path: Path) -> bool:
    """Whether a file is one of launches, to be executed for its features."""
    return path.suffix.lower() == _LAUNCH_FILE


def execute_features(paths: Sequence[Path], gpus: Sequence[str], progress: Progress | None) -> ExecutedFeatures:
    """Return the features of all launches of some files on GPUs as measured data call them.

    They are those of ``kerncast profile --features``. A launch that cannot be executed gets none, so that its times are
    not learned. Raises InputError where no GPU is named, and the Refusal where no launch is left.
    """
    where = ", ".join(map(str, paths))
    if not gpus:
        raise InputError("no table of times names the GPU of its launches", where=where, cure="Add a column gpu.")
    launches = [launch for path in paths for launch in load_launches(path)]
    asked = [(name, resolve_gpu(name)[0], launch) for name in gpus for launch in launches]
    jobs = [_executing(launch, gpu, (number, len(asked))) for number, (_, gpu, launch) in enumerate(asked)]
    rows, refusal = [], None
    found = each_in_limits(KernelProfile, jobs, Means(progress=progress, apart=True))
    for (name, gpu, _), profiled in zip(asked, found, strict=True):
        if isinstance(profiled, Refusal):
            refusal = profiled
            continue
        cells = feature_row(ProfiledLaunch(profiled, gpu))
        rows.append([name if each.name == "gpu" else cell for each, cell in zip(FEATURES, cells, strict=True)])
    if not rows:
        raise refusal or InputError("it holds no launch", where=where, cure="Give launches with their sources.")
    columns = zip(FEATURES, zip(*rows, strict=True), strict=True)
    cells_of = tuple(_column(list(cells), is_text=each.type is str) for each, cells in columns)
    return ExecutedFeatures(Columns(tuple(each.name for each in FEATURES), cells_of, len(rows), where), tuple(paths))


def _executing(launch: Launch, gpu: GPU, place: tuple[int, int]) -> Job[KernelProfile]:
    def work(means: Means) -> KernelProfile:
        if means.progress:
            means.progress(f"executing {launch.label} for {gpu.name}", *place)
        return profile_launch(launch, gpu)

    return Job(launch, work)


def _column(cells: Sequence[Any], *, is_text: bool) -> Column:
    if is_text:
        return tuple("" if cell is None else str(cell) for cell in cells)
    return np.array([math.nan if cell is None else float(cell) for cell in cells], np.float64)
