"""Fuzzers of what is text: launch files, GPUs, profiles, tables, JSON, PTX."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kerncast.cli.shared.baseline import read_baseline
from kerncast.compile.build_file import build_options
from kerncast.forecast import Options
from kerncast.gpu import load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.machine.listing import parse_listing
from kerncast.measurements.files import read_with_remarks
from kerncast.profiles import KernelProfile
from kerncast.ptx import build_cfg, inline_calls, parse_ptx, taken_functions
from kerncast.read.declared import read_declared
from kerncast.read.features.launches import csv_columns
from kerncast.read.given_layers import read_given
from kerncast.read.measured_cases import read_cases
from kerncast.read.ncu import report
from kerncast.read.ncu.profile import profiles_of
from kerncast.read.observations import read_observations, read_timed_kernels
from kerncast.read.operator_files import read_operators
from kerncast.read.partition_files import read_partition_times
from kerncast.read.prices import read_prices
from kerncast.read.profile_files import read_kernels
from kerncast.studies.sweeps.kernel_tuner import problem_space
from kerncast.studies.sweeps.point_results import Job, Outcome, PointResult
from kerncast.studies.sweeps.space import Space, launch_space, parse_setting
from kerncast.studies.sweeps.sweep_store import SweepStore
from tests.fuzz.mutations import Mutation, of_bytes, of_text, of_tree
from tests.fuzz.target import Place, Target
from tests.fuzz.uses import forecast_on, forecast_profiles, gpu_named
from tests.helpers.places import ROOT, TESTS
from tests.property.test_ptx_mutation import PTX

CORPUS = Path(__file__).parent / "corpus"
GOLDEN = TESTS / "golden"
_LAUNCH_WORDS = (
    b"f32[4] random", b"f64[] ones", b"u8[9999999999999] zeros", b"i32[4] randint(5, 5)", b"bytes(00)", b"&x[3]",
    b"f16[2, 2] iota", b"[[launch]]", b"[launch]", b"grid", b"block", b"args", b"shared_bytes", b"f32[1] file(\\u0000)",
    b"f32[0] zeros", b"f32[9223372036854775807, 2] zeros", b"i64[2] randint(-9223372036854775808, 9223372036854775807)",
)  # fmt: skip
_GPU_WORDS = (
    b"from",
    b"t4",
    b"sm_86",
    b"sm_count",
    b"value",
    b"status",
    b"assumed",
    b"[peak]",
    b"[sources]",
    b"[energy]",
)
_NCU_WORDS = (
    b"nsecond",
    b"usecond",
    b"Gbyte/second",
    b"byte",
    b"%",
    b"(1, 1, 1)",
    b"(0, 0, 0)",
    b"n/a",
    b"void",
    b"CC 8.0",
)
_NVPROF_WORDS = (b"ns", b"ms", b"GB/s", b"%", b"==1== Profiling result:", b"Low (1)", b"<OVERFLOW>", b"Tesla K20c (0)")
_PTX_WORDS = (
    b".reg", b".pred", b"%p1", b"bra", b"call", b"ret;", b".param", b".entry", b".func", b"{", b"}", b"@!%p1",
    b"ld.global.v4.u32", b".branchtargets", b"brx.idx", b"OUTER", b".align", b".b8", b"0f7FFFFFFF", b"generic(k)",
    b".loc", b"//", b"/*", b"-0x8",
)  # fmt: skip


def _files(*names: str) -> tuple[bytes, ...]:
    return tuple((CORPUS / name).read_bytes() for name in names)


def _golden(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(GOLDEN.glob(pattern)))


def _words_of_json(files: Iterable[bytes]) -> tuple[str, ...]:
    """Return the keys of some JSON files, which mutations put in other places."""
    found: set[str] = set()
    waiting: list[Any] = [json.loads(each) for each in files]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found |= set(node)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return tuple(sorted(found))


def _text(words: Sequence[bytes] = ()) -> tuple[Mutation, ...]:
    return of_text(words), of_text(words), of_text(words), of_bytes(words)


def _json(files: Sequence[bytes]) -> tuple[Mutation, ...]:
    words = _words_of_json(files)
    return of_tree(words), of_tree(words), of_tree(words), of_text([each.encode() for each in words])


def _of_path(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """Return a reader of bytes by one of files; the file is made with the first input."""
    place: list[Place] = []

    def of_bytes_(data: bytes) -> None:
        if not place:
            place.append(Place(name))
        read(place[0].holding(data))

    return of_bytes_


def _gpu(path: Path) -> None:
    forecast_on(load_gpu(path))


def _declared(path: Path) -> None:
    forecast_profiles(read_declared(path))


def _profile(path: Path) -> None:
    # Half of the inputs name the GPU that they were taken on, as --source-gpu does.
    found = read_kernels(path, gpu_named("titan-v") if path.stat().st_size % 2 else None)
    forecast_profiles(each for each in found if isinstance(each, KernelProfile))


def _tuned(path: Path) -> None:
    found = read_kernels(path, gpu_named("t4"))
    forecast_profiles(each for each in found if isinstance(each, KernelProfile))


def _report(data: bytes) -> None:
    """Read what the child process with NVIDIA's library might answer."""
    reply = json.loads(data)
    if not isinstance(reply, dict):  # it always answers with an object
        return
    with patch.object(report, "_exchange", lambda _: reply):
        rows = report.read_ncu_report(CORPUS / "begins.ncu-rep")
    forecast_profiles(profiles_of(rows, None))


def _problem(path: Path) -> None:
    (path.parent / "convolution.cu").touch()  # which the problem names
    problem_space(path)


def _times(path: Path) -> None:
    read_observations([path])
    read_timed_kernels(path)


def _prices(path: Path) -> None:
    read_prices(path)


def _settings(data: bytes) -> None:
    texts = data.decode("utf-8", "replace").splitlines()
    for text in texts:
        parse_setting(text)
    launch_space(ROOT / "examples" / "saxpy.toml", texts, (), 0)


def _ptx(data: bytes) -> None:
    module = parse_ptx(data.decode("utf-8", "replace"))
    for kernel in module.kernels:
        function = inline_calls(module, kernel)
        taken_functions(module, kernel)
        build_cfg(function)


def _listing(data: bytes) -> None:
    parse_listing(data.decode("utf-8", "replace"))


class _Store:
    """A sweep of one point, and a file in which it is kept."""

    def __init__(self) -> None:
        self._space: Space = launch_space(ROOT / "examples" / "saxpy.toml", ["block=64,128"], (), 0)
        self._job = Job(((gpu_named("t4"), ()),), Options(model="roofline"))
        self._place = Place("sweep.jsonl")
        with SweepStore(self._place.holding(b""), self._space, self._job) as store:
            for point in self._space.points():
                store.add(PointResult(point, (Outcome("t4", 1e-3, 5e-4, 2e-3, "dram", "roofline", None, ""),)))
        self.written = self._place.path.read_bytes()

    def read(self, data: bytes) -> None:
        with SweepStore(self._place.holding(data), self._space, self._job) as store:
            for point in self._space.points():
                store.known(point)


def _lines_of_json(choose: Any, data: bytes) -> bytes:
    """Change one line of a file of JSON lines, which stays one."""
    lines = data.splitlines()
    at = choose.randrange(len(lines))
    lines[at] = of_tree()(choose, lines[at])
    return b"\n".join(lines) + b"\n"


def _target(name: str, read: Callable[[Path], object], files: Sequence[bytes], mutations: Sequence[Mutation]) -> Target:
    return Target(name, _of_path(f"input{Path(name).suffix}", read), files, mutations)


def text_targets() -> list[Target]:
    """Return the fuzzers of texts."""
    store = _Store()
    launches: Callable[[Path], tuple[Launch, ...]] = load_launches
    ncu, nvprof, tuners = _golden("ncu/*.csv"), _golden("nvprof/*.csv"), _golden("tuners/*.json")
    tuned = tuple(each for each in tuners if b"ConfigurationSpace" not in each and b'"results"' in each.lower())
    cache = (GOLDEN / "tuners" / "blur_cache.json").read_bytes()
    problems = tuple(each for each in tuners if b"ConfigurationSpace" in each)
    measured, cases, baseline = _files("measurement.jsonl"), _files("cases.json"), _files("baseline.json")
    reply, model = _files("ncu_reply.json"), ((ROOT / "examples" / "transformer_layer.json").read_bytes(),)
    lines = (_lines_of_json, _lines_of_json, of_text())
    return [
        _target("launch.toml", launches, _files("launch.toml", "undecided.toml"), _text(_LAUNCH_WORDS)),
        _target("declared.toml", _declared, _files("declared.toml"), _text(_LAUNCH_WORDS)),
        _target("gpu.toml", _gpu, _files("gpu.toml", "changed_gpu.toml"), _text(_GPU_WORDS)),
        _target("ncu.csv", _profile, ncu, _text(_NCU_WORDS)),
        _target("nvprof.csv", _profile, nvprof, _text(_NVPROF_WORDS)),
        _target("tuned.json", _tuned, tuned, _json(tuned)),
        _target("tuner-cache.json", _tuned, (cache,), _text()),
        _target("tuning-problem.json", _problem, problems, _json(problems)),
        Target("ncu-rep", _report, reply, _json(reply)[:3]),
        _target("times.csv", _times, _files("times.csv"), _text()),
        Target("features.csv", _columns, _files("features.csv"), _text()),
        _target("operators.csv", read_operators, _files("operators.csv"), _text((b"conv2d", b"linear", b"bmm"))),
        _target("operators.json", read_operators, model, _json(model)),
        _target("partitions.csv", read_partition_times, _files("partitions.csv"), _text()),
        _target("layers.csv", read_given, _files("layers.csv"), _text()),
        _target("prices.csv", _prices, ((ROOT / "examples" / "prices.csv").read_bytes(),), _text((b"T4", b"usd"))),
        _target("baseline.json", read_baseline, baseline, _json(baseline)),
        _target("cases.json", lambda path: read_cases([path]), cases, _json(cases)),
        _target("measurement.jsonl", read_with_remarks, measured, lines),
        Target("sweep.jsonl", store.read, (store.written,), lines),
        Target(
            "settings", _settings, _files("settings.txt"), _text((b"ceil(", b"2..512*2", b"**", b"grid.x", b" if "))
        ),
        _target("Makefile", build_options, _files("Makefile"), _text((b"$(CUDA)", b"-D", b"-I", b"include", b"endif"))),
        Target("ptx", _ptx, (PTX.encode(), *_golden("machine/*.ptx")), _text(_PTX_WORDS)),
        Target("sass", _listing, _golden("machine/*.sass"), _text((b".text.k:", b"/*0010*/", b";", b"@!P0", b"BRA"))),
    ]


def _columns(data: bytes) -> None:
    csv_columns(data.decode("utf-8", "replace"), "features.csv")
