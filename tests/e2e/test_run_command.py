"""Whole programs on the virtual GPU: what they print, how they end, what is left of them, and their recording."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerncast.read.launches import load_launches
from kerncast.recording import EventKind, Recording, read_recording
from tests.helpers.host_builds import needs_system, needs_wheels
from tests.helpers.places import ROOT

pytestmark = [needs_wheels, needs_system]

#: Its first word says how it behaves; all begin with ten launches.
PROGRAM = """
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
struct Pair { float *values; int count; };
__global__ void add(Pair pair, const float *other, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pair.count) pair.values[i] += factor * other[i];
}
static __global__ void scale(float *values, int count, double factor, const float *from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = factor * from[i];
}
__global__ void endless(volatile int *values) { while (values[0] != 1) values[1]++; }
__global__ void outside(int *values) { values[1 << 28] = 1; }
int main(int count, char **words) {
  std::string how = count > 1 ? words[1] : "";
  const int n = 5000;
  float *a, *b, host[n];
  cudaMalloc(&a, sizeof host);
  cudaMalloc(&b, sizeof host);
  for (int i = 0; i < n; i++) host[i] = i;
  cudaMemcpy(b, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(a, 0, sizeof host);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 9; i++) add<<<(n + 255) / 256, 256>>>(Pair{a, n}, b, 2.f);
  scale<<<(n + 127) / 128, 128>>>(a, n - 100, 0.5, a + 100);
  cudaDeviceSynchronize();
  auto end = std::chrono::steady_clock::now();
  cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost);
  bool right = host[0] == 900 && host[n - 101] == 9 * (n - 1) && host[n - 1] == 18 * (n - 1);
  printf("%s %.1f us\\n", right ? "PASS" : "FAIL", std::chrono::duration<double, std::micro>(end - begin).count());
  fflush(stdout);
  if (how == "exit") return 3;
  if (how == "crash") *(volatile int *)8 = 1;
  if (how == "abort") abort();
  if (how == "hang") while (true) pause();
  if (how == "endless") endless<<<1, 1>>>((int *)a);
  if (how == "fork" && !fork()) while (true) pause();
  if (how == "outside") {
    outside<<<1, 1>>>((int *)a);
    printf("%s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
  }
  if (how == "memory") {
    int blocks = 0;
    cudaError_t error = cudaSuccess;
    const size_t size = 64 << 20;
    for (char *p; (error = cudaMalloc(&p, size)) == cudaSuccess && blocks < 4096; blocks++) cudaMemset(p, 1, size);
    printf("%d: %s\\n", blocks, cudaGetErrorString(error));
  }
}
"""

#: Host and kernels name the same variables; the host reads them before it calls anything.
MANAGED = """
#include <cstdio>
__device__ __managed__ int starts = 3;
__managed__ int ends[2] = {1, 2};
__constant__ int table[2] = {40, 50};
__global__ void bump(int *first) { starts += *first; ends[threadIdx.x] += table[threadIdx.x]; }
int main() {
  int read[2], before = starts + ends[1];
  starts = 5;
  cudaMemcpyFromSymbol(read, table, sizeof read);
  bump<<<1, 2>>>(&starts);
  cudaDeviceSynchronize();
  printf("%d %d %d %d %d\\n", before, read[1], starts, ends[0], ends[1]);
}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program as a user would: by our nvcc."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "behaves.cu").write_text(PROGRAM, encoding="utf-8")
    done = kerncast_in(folder, "run", "behaves.cu", "--out", "run.kc", "--gpu", "t4", "--gpu", "h100-sxm", "--json",
                       "--report", "run.html", "--trace", "run.json", "--export", "launches.toml")  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder / "run.out").write_text(done.stdout, encoding="utf-8")
    (folder / "run.err").write_text(done.stderr, encoding="utf-8")
    return folder


def kerncast_in(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerncast", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **environment}, encoding="utf-8")  # fmt: skip


@pytest.fixture
def left(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return an environment to run in; no process of it and no temporary file may be left behind."""
    (tmp_path / "temporary").mkdir()
    mark = uuid.uuid4().hex
    yield {"TMPDIR": str(tmp_path / "temporary"), "KERNCAST_TEST_MARK": mark}
    deadline = time.monotonic() + 20
    while (found := processes_of(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == []
    assert [each.name for each in (tmp_path / "temporary").iterdir()] == []


def processes_of(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def launches_in(recording: Recording) -> int:
    return int((recording.events["kind"] == EventKind.LAUNCH).sum())


def test_a_program_is_built_run_and_forecast(built: Path) -> None:
    assert "runs natively, as you" in (built / "run.err").read_text()
    assert (built / "run.err").read_text().count("PASS") == 1  # stdout is for the JSON alone
    found = json.loads((built / "run.out").read_text())
    assert (found["ended"], found["status"]) == ("with status 0", 0)
    assert found["launches"] == 10
    assert {each["name"] for each in found["kernels"]} == {"add", "scale"}
    assert [each["gpu_id"] for each in found["applications"]] == ["t4", "h100-sxm"]
    for each in found["applications"]:
        assert each["low"] <= each["seconds"] <= each["high"]
        assert each["kernels"] == pytest.approx(sum(one["seconds"] for one in each["by_kernel"]))
        assert each["seconds"] >= each["kernels"]
    assert found["refused"] == []


def test_its_page_and_trace_show_all_launches(built: Path) -> None:
    page = (built / "run.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "add" in page
    events = json.loads((built / "run.json").read_text())["traceEvents"]
    assert sum(each.get("cat") == "launch" for each in events) == 10
    assert sum(each.get("cat") == "copy" for each in events) == 2


def test_a_recording_is_evidence_as_a_launch_file_is(built: Path, kerncast: Run) -> None:
    recorded = built / "run.kc"
    done = kerncast("predict", recorded, "--gpu", "t4", "--json", "-q")
    assert done.returncode == 0, done.stderr
    predictions = json.loads(done.stdout)["predictions"]
    assert sorted((each["kernel"], each["count"]) for each in predictions) == [("add", 9), ("scale", 1)]
    for command in ("occupancy", "profile", "sensitivity"):
        done = kerncast(command, recorded, "--gpu", "t4", "-q")
        assert done.returncode == 0, done.stderr
        assert "add" in done.stdout
    assert "T4" in kerncast("compare", recorded, "--gpu", "t4", "--gpu", "l4").stdout


def test_one_launch_of_a_recording_is_bound(built: Path, kerncast: Run) -> None:
    bound = ("bound", built / "run.kc", "--gpu", "t4", "--tpcs", "1,10", "-q")
    refused = kerncast(*bound)
    assert refused.returncode == 2
    assert "it has 2 launches: 0 (add), 1 (scale). Name one by its number: --kernel 0." in refused.stderr
    by_name, by_number = kerncast(*bound, "--kernel", "scale"), kerncast(*bound, "--kernel", "1")
    assert by_name.returncode == 0, by_name.stderr
    assert by_name.stdout == by_number.stdout
    assert "no launches of 'mul'" in kerncast(*bound, "--kernel", "mul").stderr


def test_a_recording_is_forecast_elsewhere_without_being_run(built: Path, kerncast: Run) -> None:
    done = kerncast("run", built / "run.kc", "--gpu", "l4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] is None
    assert [each["gpu_id"] for each in found["applications"]] == ["l4"]
    refused = kerncast("run", built / "run.kc", "--clock", "l4")
    assert refused.returncode == 2
    assert "--clock is of no use for .kc files" in refused.stderr


def test_a_recording_outlives_its_sources(built: Path, tmp_path: Path, kerncast: Run) -> None:
    elsewhere = tmp_path / "run.kc"
    elsewhere.write_bytes((built / "run.kc").read_bytes())
    here = load_launches(built / "run.kc")[0]
    assert here.source == built / "behaves.cu"
    (built / "behaves.cu").rename(built / "moved.cu")
    try:
        kept = load_launches(elsewhere)[0]
        assert kept.source.read_text() == PROGRAM
        done = kerncast("predict", "run.kc", "--gpu", "t4", "--json", "-q")
    finally:
        (built / "moved.cu").rename(built / "behaves.cu")
    assert [each["kernel"] for each in json.loads(done.stdout)["predictions"]] == ["add", "scale"]


def test_launches_are_exported_with_what_memory_held(built: Path, kerncast: Run) -> None:
    text = (built / "launches.toml").read_text()
    assert 'kernel = "scale"' in text
    assert "count = 4900" in text
    assert "factor = 0.5" in text
    assert '"&values[100]"' in text
    # Nothing decides by what the buffer holds, and so it was not kept.
    assert "add" not in text
    assert "(add): pair holds a pointer" in (built / "run.err").read_text()
    done = kerncast("profile", built / "launches.toml", "--gpu", "t4", "--json", "-q")
    recorded = kerncast("profile", built / "run.kc", "--gpu", "t4", "--json", "-q")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["kernels"]
    other = next(each for each in json.loads(recorded.stdout)["kernels"] if each["kernel"] == "scale")
    assert one["metrics"] == other["metrics"]


def test_the_clock_of_a_program_shows_forecasts(built: Path) -> None:
    printed = {}
    for gpu in ("t4", "h100-sxm"):
        done = kerncast_in(built, "run", "behaves.cu", "--clock", gpu, "-q")
        assert done.returncode == 0, done.stderr
        printed[gpu] = float(done.stdout.split()[1])
    # Ten launches of microseconds each, which take milliseconds here.
    assert 10 < printed["t4"] < 1000
    assert 10 < printed["h100-sxm"] < 1000


@pytest.mark.parametrize(
    ("how", "ending"),
    [("exit", (3, "with status 3")), ("crash", (139, "by signal SIGSEGV")), ("abort", (134, "by signal SIGABRT")),
     ("fork", (0, "with status 0"))],
)  # fmt: skip
def test_what_had_run_is_kept_however_a_program_ends(
    built: Path, tmp_path: Path, left: dict[str, str], how: str, ending: tuple[int, str]
) -> None:
    program, (status, ended) = built / "behaves.cu", ending
    done = kerncast_in(tmp_path, "run", program, "--out", "run.kc", "-q", "--", how, **left)
    assert done.returncode == status, done.stderr
    assert "PASS" in done.stdout
    recording = read_recording(tmp_path / "run.kc")
    assert recording.ended == ended
    assert launches_in(recording) == 10
    assert len(load_launches(tmp_path / "run.kc")) == 2


@pytest.mark.parametrize("how", ["hang", "endless"])
def test_a_program_that_hangs_is_ended_by_its_time(built: Path, tmp_path: Path, left: dict[str, str], how: str) -> None:
    program = built / "behaves.cu"
    done = kerncast_in(tmp_path, "run", program, "--out", "run.kc", "--timeout", "3s", "-q", "--", how, **left)
    assert done.returncode == 143
    assert "as its time was over" in done.stderr
    assert launches_in(read_recording(tmp_path / "run.kc")) == 10


def test_processes_of_a_script_share_the_gpu_and_managed_variables_are_one(
    tmp_path: Path, left: dict[str, str]
) -> None:
    (tmp_path / "managed.cu").write_text(MANAGED, encoding="utf-8")
    (tmp_path / "script").write_text("./managed; ./managed & ./managed; wait", encoding="utf-8")
    build = ("--build", "nvcc managed.cu -o managed")
    done = kerncast_in(tmp_path, "run", *build, "--out", "run.kc", "-q", "--", "sh", "script", **left)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "5 50 10 41 52\n" * 3
    assert read_recording(tmp_path / "run.kc").processes == 3


def test_a_program_that_fills_memory_is_told_so(built: Path, tmp_path: Path, left: dict[str, str]) -> None:
    program = built / "behaves.cu"
    done = kerncast_in(tmp_path, "run", program, "--memory", "256MiB", "--out", "run.kc", "-q", "--", "memory", **left)
    assert done.returncode == 0
    assert "3: out of memory" in done.stdout
    assert read_recording(tmp_path / "run.kc").ended == "with status 0"


def test_a_fault_is_the_error_that_a_gpu_gives(built: Path, tmp_path: Path, left: dict[str, str]) -> None:
    program = built / "behaves.cu"
    done = kerncast_in(tmp_path, "run", program, "--gpu", "t4", "-q", "--", "outside", **left)
    assert "an illegal memory access was encountered" in done.stdout
    assert "past the end of buffer 2 (20000 bytes)" in " ".join(done.stderr.split())
    goes_on = kerncast_in(tmp_path, "run", program, "--on-fault", "warn", "-q", "--", "outside", **left)
    assert "no error" in goes_on.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_kerncast_is_ended(
    built: Path, tmp_path: Path, left: dict[str, str], number: signal.Signals
) -> None:
    # Where tests run in the background, SIGINT is ignored, and children inherit that.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); import kerncast.cli as c"
    command = [sys.executable, "-c", f"{code}; c.main(sys.argv[1:])", "run", str(built / "behaves.cu"), "-q"]
    command += ["--", "hang"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **left}, start_new_session=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert "PASS" in process.stdout.readline()
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        process.communicate(timeout=60)
    if number is signal.SIGKILL:  # nobody is there to clean up
        for each in (tmp_path / "temporary").iterdir():
            shutil.rmtree(each)


def test_a_program_that_is_there_is_run_with_its_arguments(tmp_path: Path) -> None:
    done = kerncast_in(tmp_path, "run", "/bin/echo", "a", "b", "-q")
    assert done.returncode == 0
    assert done.stdout == "a b\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("missing.cu",), "missing.cu"),
        (("./missing",), "is not a program"),
        (("--build", "false", "--", "./app"), "ended with status 1"),
        (("/bin/true", "--clock", "nonsense"), "nonsense"),
        (("/bin/true", "--on-fault", "ignore"), "Give stop or warn"),
        (("/bin/true", "--timeout", "-1s"), "-1s"),
        (("/bin/true", "--out", "run.txt"), ".kc"),
        (("/bin/true", "--launch-seconds", "nan"), "nan"),
        (("/bin/true", "--memory", "lots"), "lots"),
        (("/bin/true", "--keep", "-5"), "-5"),
        (("empty.kc",), "empty.kc"),
        (("/etc/passwd",), "is not a program"),
    ],
)
def test_bad_words_are_told_before_anything_runs(
    kerncast: Run, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    (tmp_path / "empty.kc").write_bytes(b"")
    done = kerncast("run", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_runs(tmp_path: Path) -> None:
    example = ROOT / "examples" / "programs" / "heat.cu"
    done = kerncast_in(tmp_path, "run", example, "--gpu", "h100-sxm", "-q", "--", "20000", "40")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS: 40 steps")
    assert "H100 SXM" in done.stderr
