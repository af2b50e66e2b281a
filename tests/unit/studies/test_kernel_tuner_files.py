"""Kernel Tuner's problems, results and caches; where it is installed, its strategies search a sweep."""

import json
import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kerncast.errors import InputError, LaunchError
from kerncast.forecast import Options, resolve_gpus
from kerncast.launch import parse_launches
from kerncast.studies.sweeps.kernel_tuner import cache_text, problem_space, t4_text
from kerncast.studies.sweeps.point_results import Infeasible, Job, Outcome, PointResult
from kerncast.studies.sweeps.space import Space
from kerncast.studies.sweeps.sweep import Sweep
from tests.helpers.places import ROOT

GOLDEN = ROOT / "tests" / "golden" / "tuners" / "t1_convolution.json"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "benchmarks" / "kernels" / "kernel_tuner_convolution.cu", tmp_path / "convolution.cu")
    shutil.copy(GOLDEN, tmp_path / "t1.json")
    return tmp_path / "t1.json"


def _changed(problem: Path, **fields: Any) -> Path:
    table = json.loads(problem.read_text(encoding="utf-8"))
    table["KernelSpecification"] |= fields
    problem.write_text(json.dumps(table), encoding="utf-8")
    return problem


def test_a_problem_is_a_space(problem: Path) -> None:
    space = problem_space(problem)
    points = [dict(point.settings) for point in space.points()]
    mine = {(p["block_size_x"], p["block_size_y"], p["tile_size_x"], p["use_padding"]) for p in points}
    theirs = {
        (x, y, tile, padding)
        for x, y, tile, padding in product((16, 32, 48, 64), (1, 2, 4), (1, 2), (0, 1))
        if (padding == 0 or x % 32 != 0) and x * y <= 128
    }
    assert mine == theirs
    assert len(points) == len(theirs) < space.size


def test_a_point_is_launched_as_the_tuner_does(problem: Path) -> None:
    space = problem_space(problem)
    for point in space.points():
        launch, s = space.launch(point), dict(point.settings)
        assert launch.block == (s["block_size_x"], s["block_size_y"], 1)
        across = math.ceil(256 / (int(s["block_size_x"]) * int(s["tile_size_x"])))
        assert launch.grid == (across, math.ceil(256 / int(s["block_size_y"])), 1)
        assert dict(launch.defines)["block_size_x"] == str(s["block_size_x"])
        assert [each.name for each in launch.arguments] == ["output_image", "input_image", "filter"]
        assert [buffer.count for _, buffer in launch.buffers] == [65536, 260 * 260, 25]
        assert (launch.standard, launch.fast_math) == ("c++14", False)


@pytest.mark.parametrize(("kind", "grid"), [("OpenCL", (8, 63, 1)), ("CUDA", (256, 250, 1))])
def test_global_sizes_are_threads_where_the_type_says_so(problem: Path, kind: str, grid: tuple[int, ...]) -> None:
    sizes = {"X": "256 // tile_size_x", "Y": "250"}
    file = _changed(problem, GlobalSizeType=kind, GlobalSize=sizes, ProblemSize=None, Arguments=[])
    settings = ["block_size_x=32", "block_size_y=4", "tile_size_x=1", "use_padding=0"]
    space = problem_space(file, settings)
    (point,) = space.points()
    assert (space.launch(point).grid, space.launch(point).block) == (grid, (32, 4, 1))


def test_settings_replace_parameters(problem: Path) -> None:
    space = problem_space(problem, ["block_size_x=128", "tile_size_x=3,4"])
    assert {dict(point.settings)["tile_size_x"] for point in space.points()} == {3, 4}
    assert {dict(point.settings)["block_size_x"] for point in space.points()} == {128}
    assert [axis.name for axis in space.axes] == [axis.name for axis in problem_space(problem).axes]


def test_constant_memory_is_a_variable(problem: Path) -> None:
    arguments = json.loads(problem.read_text(encoding="utf-8"))["KernelSpecification"]["Arguments"]
    arguments[2] |= {"Name": "d_filter", "MemType": "Constant", "FillType": "Constant", "FillValue": 3}
    scalar = {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 9}
    space = problem_space(_changed(problem, Arguments=[*arguments, scalar]))
    launch = space.launch(next(space.points()))
    assert [(each.name, str(each.value)) for each in launch.globals] == [("d_filter", "f32[25] randint(3, 4)")]
    assert [str(each.value) for each in launch.arguments[2:]] == ["f32[25] randint(3, 4)", "9"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"Language": "OpenCL"}, "Only CUDA"),
        ({"KernelName": None}, "KernelName is missing"),
        ({"ProblemSize": "many"}, "ProblemSize is many"),
        ({"Arguments": [{"Name": "x", "Type": "custom", "MemoryType": "Vector"}]}, "argument x: its type is 'custom'"),
        ({"Arguments": [{"Name": "x", "Type": "float", "MemoryType": "Vector", "Size": "9**9**9"}]}, "has no value"),
        ({"Arguments": [{"Name": "x", "Type": "float", "MemoryType": "Vector", "Size": "open('x')"}]}, "not known"),
        ({"Arguments": [{"Name": "x", "Type": "float", "MemoryType": "Vector", "FillType": "Script"}]}, "filled by"),
        ({"Arguments": 3}, "no list of objects"),
        ({"Arguments": [{"Name": "x", "Type": [], "MemoryType": "Vector"}]}, "its type is"),
        ({"Arguments": [{"Name": "x", "Type": "float", "FillValue": math.inf}]}, "filled by|Infinity"),
        ({"CompilerOptions": 3}, "CompilerOptions is no list"),
        ({"LocalSize": [8, 8]}, "LocalSize is no object"),
        ({"GridDivX": 2}, "GridDivX is no list"),
        ({"KernelFile": "x" * 5000}, "cannot be read"),
    ],
)
def test_problems_that_cannot_be_read(problem: Path, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        problem_space(_changed(problem, **fields))


def test_what_is_no_problem_at_all(problem: Path) -> None:
    for text in ("[]", "{}", "nonsense", '{"ConfigurationSpace": 3}'):
        problem.write_text(text, encoding="utf-8")
        with pytest.raises(InputError):
            problem_space(problem)


def _sweep(space: Space) -> Sweep:
    """Return made-up times: the fewer threads idle, the better; a sixth of the points fails."""
    job = Job(tuple(resolve_gpus(["rtx-3090"])), Options())
    results = []
    for point in space.points():
        s = dict(point.settings)
        ms = abs(int(s["block_size_x"]) - 48) + abs(int(s["block_size_y"]) - 2) + int(s["tile_size_x"]) + 0.5
        good = Outcome("rtx-3090", ms * 1e-3, ms * 1e-3, ms * 1e-3, "dram", "simulation", None, "")
        bad = Outcome("rtx-3090", None, None, None, "", "", Infeasible.COMPILE, "no")
        results.append(PointResult(point, (bad if point.number % 6 == 5 else good,)))
    return Sweep(space, (job.gpus[0][0],), tuple(results))


def test_results_have_what_the_t4_schema_requires(problem: Path) -> None:
    found = _sweep(problem_space(problem))
    table = json.loads(t4_text(found))
    assert table["schema_version"] == "1.0.0"
    assert len(table["results"]) == len(found.results)
    for each in table["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= each.keys()
        assert each["invalidity"] in {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
        assert isinstance(each["correctness"], int)
        assert bool(each["measurements"]) is (each["invalidity"] == "correct")
        for name, value in each["times"].items():
            assert isinstance(value, list if name == "runtimes" else float)


def test_a_cache_has_the_keys_of_the_tuner(problem: Path) -> None:
    found = _sweep(problem_space(problem))
    text = cache_text(found)
    assert text.endswith("}\n}")
    table = json.loads(text)
    assert table["kernel_name"] == "convolution_kernel"
    assert table["problem_size"] == [256, 256]
    assert table["tune_params_keys"] == list(table["tune_params"])
    for key, entry in table["cache"].items():
        assert key == ",".join(str(entry[name]) for name in table["tune_params_keys"])
    assert sum(isinstance(entry["time"], str) for entry in table["cache"].values()) == len(found.results) // 6


@pytest.mark.filterwarnings("ignore")  # of the tuner and its libraries
@pytest.mark.parametrize("strategy", ["brute_force", "random_sample", "genetic_algorithm"])
def test_the_tuner_searches_a_sweep(problem: Path, tmp_path: Path, strategy: str) -> None:
    tuner = pytest.importorskip("kernel_tuner", reason="Kernel Tuner is not installed")
    found = _sweep(problem_space(problem))
    (tmp_path / "cache.json").write_text(cache_text(found), encoding="utf-8")
    table = json.loads(problem.read_text(encoding="utf-8"))["ConfigurationSpace"]
    params = {axis.name: list(axis.values) for axis in found.space.axes}
    options = {} if strategy == "brute_force" else {"max_fevals": 25}
    results, environment = tuner.tune_kernel(
        "convolution_kernel", str(tmp_path / "convolution.cu"), (256, 256), [], params,
        restrictions=[each["Expression"] for each in table["Conditions"]], strategy=strategy,
        strategy_options=options, simulation_mode=True, cache=str(tmp_path / "cache.json"), lang="CUDA",
        quiet=True,
    )  # fmt: skip
    assert environment["device_name"] == "RTX 3090"
    times = [each["time"] for each in results if isinstance(each["time"], float)]
    known = {entry["time"] for entry in json.loads(cache_text(found))["cache"].values()}
    assert set(times) <= known
    if strategy == "brute_force":
        assert len(results) == len(found.results)
        assert min(times) == min(each for each in known if isinstance(each, float))


def test_a_source_whose_name_no_file_can_have_is_told(tmp_path: Path) -> None:
    """JSON can spell half of a pair; found by the fuzzer."""
    file = tmp_path / "half.toml"
    with pytest.raises(LaunchError, match="is no name of a file"):
        parse_launches({"source": "k\ud800.cu", "launch": [{"kernel": "k", "grid": [1], "block": [1]}]}, file)
