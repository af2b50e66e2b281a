"""The sets with many configurations of one kernel: convolutions that tuners ran, a Coulomb sum, a convolution layer."""

from collections.abc import Callable, Iterable
from pathlib import Path

from counter_cases import DATA, KTT, convolution_case, coulomb_case
from timing_cases import (
    FOLDER,
    GPUS,
    Case,
    Measured,
    Row,
    launch_of,
    read_rows,
    rodinia,
    seconds_of,
    spread,
    spread_over,
    vecmat,
    whole,
    zeros,
)  # fmt: skip
from timing_gemm import gemm
from timing_hecbench import hecbench
from timing_rajaperf import rajaperf
from timing_sixteen import sixteen
from timing_streams import streams

from kerncast.launch import Launch
from kerncast.prediction import Timing
from kerncast.read.given_layers import read_given
from kerncast.studies.convolution import MEASURED_LAYERS, layer_launch

KERNELS = FOLDER / "kernels"
CONVOLUTION_2023 = DATA / "kernel_tuner_hub" / "convolution_kt2023.parquet"
CONVOLUTION_2025 = DATA / "kernel_tuner_hub" / "convolution_milo.parquet"

_IMAGE, _FILTER = 4096, 15
_SWITCHES = ("read_only", "use_padding", "use_shmem")


def convolution_2023(count: int | None) -> list[Case]:
    """Return Kernel Tuner's configurations on RTX 2080 Ti, TITAN RTX and RTX 3090."""
    return _kernel_tuner(CONVOLUTION_2023, "convolution-2023", count)


def convolution_2025(count: int | None) -> list[Case]:
    """Return Kernel Tuner's configurations on RTX A4000 and A6000; these also do without shared memory."""
    return _kernel_tuner(CONVOLUTION_2025, "convolution-2025", count)


def _kernel_tuner(file: Path, of: str, count: int | None) -> list[Case]:
    by_config: dict[str, list[Row]] = {}
    for row in read_rows(file):
        if row["gpu"] in GPUS:
            by_config.setdefault(str(row["config"]), []).append(row)
    configs = list(by_config.values())
    if count is not None:  # a sample holds as many of each GPU
        most = max(map(len, configs), default=0)
        configs = [rows for rows in configs if len(rows) == most]
    chosen = stratified(configs, count)
    return [
        case
        for rows in chosen
        for case in Measured(
            "convolution" if _macro(rows[0], "use_shmem") else "convolution without shared memory",
            convolution_size(rows[0]),
            convolution_launch(rows[0]),
            tuple((GPUS[str(row["gpu"])], seconds_of(row)) for row in rows),
        ).cases(of, Timing.SINGLE)
    ]


def stratified(configs: list[list[Row]], count: int | None) -> list[list[Row]]:
    """Return so many configurations, spread over time, threads per block and outputs per thread; always the same."""
    return spread_over(
        configs,
        lambda row: (
            whole(row, "p_block_size_x") * whole(row, "p_block_size_y"),
            whole(row, "p_tile_size_x") * whole(row, "p_tile_size_y"),
        ),
        count,
    )


def _macro(row: Row, name: str) -> int:
    """Return a tuning parameter; the configurations of 2023 all use shared memory."""
    return whole(row, f"p_{name}") if f"p_{name}" in row else 1


def convolution_size(row: Row) -> str:
    """Say which configuration it is."""
    shape = "x".join(str(_macro(row, f"{kind}_size_{axis}")) for kind in ("block", "tile") for axis in "xy")
    return " ".join([shape, *(name for name in _SWITCHES if _macro(row, name))])


def convolution_launch(row: Row) -> Launch:
    """Return our equivalent of a configuration."""
    macros = {f"{kind}_size_{axis}": _macro(row, f"{kind}_size_{axis}") for kind in ("block", "tile") for axis in "xy"}
    macros |= {name: _macro(row, name) for name in _SWITCHES}
    macros["zero_outside"] = int("p_use_shmem" in row)
    macros |= {"image_width": _IMAGE, "image_height": _IMAGE, "filter_width": _FILTER, "filter_height": _FILTER}
    across, down = (-(-_IMAGE // (macros[f"block_size_{axis}"] * macros[f"tile_size_{axis}"])) for axis in "xy")
    held = _IMAGE + _FILTER - 1
    rows = held if macros["use_shmem"] else held + _FILTER  # without shared memory it reads past the end
    values = {"output": zeros(_IMAGE, _IMAGE), "input": zeros(rows, held), "filter": zeros(_FILTER, _FILTER)}
    return launch_of(
        KERNELS / "kernel_tuner_convolution.cu",
        "convolution_kernel",
        ((across, down, 1), (macros["block_size_x"], macros["block_size_y"], 1)),
        values,
        tuple((name, str(value)) for name, value in macros.items()),
    )


def convolution_ktt(count: int | None) -> list[Case]:
    """Return the Kernel Tuning Toolkit's configurations of a convolution; its parameter PADDING has no effect."""
    rows = [row for row in read_rows(KTT) if row["benchmark"] == "convolution" and whole(row, "p_PADDING") == 0]
    return _ktt(rows, "convolution-ktt", lambda row: convolution_case(row).launch, count)


def coulomb(count: int | None) -> list[Case]:
    """Return the Kernel Tuning Toolkit's configurations of a Coulomb sum."""
    rows = [row for row in read_rows(KTT) if row["benchmark"] == "coulomb3d"]
    return _ktt(rows, "coulomb", lambda row: coulomb_case(row).launch, count)


def _ktt(rows: Iterable[Row], of: str, launch: Callable[[Row], Launch], count: int | None) -> list[Case]:
    by_config: dict[str, list[Row]] = {}
    for row in rows:
        by_config.setdefault(str(row["config"]), []).append(row)
    configs = sorted(by_config.values(), key=lambda rows: (seconds_of(rows[0], "time_us"), str(rows[0]["config"])))
    chosen = spread(enumerate(configs), lambda item: (item[0],), count)
    return [
        case
        for _, rows in chosen
        for case in Measured(
            of.removesuffix("-ktt"),
            _ktt_size(rows[0]),
            launch(rows[0]),
            tuple((GPUS[str(row["gpu"])], seconds_of(row, "time_us")) for row in rows),
        ).cases(of, Timing.SINGLE)
    ]


def _ktt_size(row: Row) -> str:
    named = [part.partition("=") for part in str(row["config"]).split(";")]
    return " ".join(f"{name}={value}" for name, _, value in named if not name.startswith(("IMAGE", "HFS", "PADDING")))


def layer(count: int | None) -> list[Case]:
    """Return the convolution layer of a published model on a TITAN V: 32 x 32 outputs, 3 x 3 filter."""
    return [
        Case("layer", "convolution_layer",
             f"{row.sizes.channels} channels, blocks of {row.sizes.block} x {row.sizes.block}",
             "titan-v", Timing.PROFILER, layer_launch(row.sizes), row.seconds)
        for row in read_given(MEASURED_LAYERS)[:count]
        if row.seconds is not None
    ]  # fmt: skip


#: Every set with the launches that a sample of it takes, and that its full run takes (None: all).
SETS: dict[str, tuple[Callable[[int | None], list[Case]], int, int | None]] = {
    "vecmat": (vecmat, 42, None),
    "rodinia": (rodinia, 42, 600),
    "layer": (layer, 13, None),
    "hecbench": (hecbench, 100, None),
    "sixteen": (sixteen, 100, None),
    "rajaperf": (rajaperf, 88, None),
    "convolution-2023": (convolution_2023, 24, None),
    "convolution-2025": (convolution_2025, 24, None),
    "convolution-ktt": (convolution_ktt, 24, 400),
    "coulomb": (coulomb, 24, None),
    "gemm": (gemm, 24, 400),
    "streams": (streams, 56, None),
}


def read_cases(names: Iterable[str], sample: int | None, *, full: bool) -> list[Case]:
    """Return the cases of some sets; ``sample`` launches of each instead of its own number."""
    found: list[Case] = []
    for name in names:
        read, few, many = SETS[name]
        found += read(sample if sample is not None else many if full else few)
    return found
