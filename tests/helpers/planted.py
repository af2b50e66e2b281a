"""The kernels with planted changes of benchmarks/kernels/planted.cu, as small launches."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kerncast.launch import Launch, load_launches

SOURCE = Path(__file__).parents[2] / "benchmarks" / "kernels" / "planted.cu"

_LAUNCHES = """
source = "{source}"
[[launch]]
kernel = "scale_runs"
grid = [512]
block = [256]
args = {{ y = "f32[1048576] zeros", x = "f32[1048576] random", a = 2.0, n = 1048576 }}
[[launch]]
kernel = "sum_lines"
grid = [512]
block = [128]
args = {{ y = "f32[65536] zeros", m = "f32[2097152] random", lines = 65536, length = 32 }}
[[launch]]
kernel = "far_sums"
grid = [256]
block = [128]
args = {{ y = "f32[32768] zeros", x = "f32[2097152] random", n = 2097152 }}
[[launch]]
kernel = "pairs"
grid = [32768]
block = [256]
args = {{ y = "f32[8388608] zeros", x = "f32[8388608] random", n = 8388608 }}
[[launch]]
kernel = "iterate"
grid = [2048]
block = [128]
args = {{ y = "f32[262144] zeros", x = "f32[262144] random", turns = 64, n = 262144 }}
[[launch]]
kernel = "transpose"
grid = [16, 16]
block = [32, 8]
args = {{ y = "f32[262144] zeros", x = "f32[262144] random", n = 512 }}
"""


@cache
def launches() -> dict[str, Launch]:
    """Return the launches by kernel, without their changes."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "planted.toml"
        file.write_text(_LAUNCHES.format(source=SOURCE.as_posix()), encoding="utf-8")
        return {launch.kernel or "": launch for launch in load_launches(file)}


def planted(kernel: str) -> Launch:
    """Return a launch with its change."""
    return replace(launches()[kernel], defines=(("PLANTED", "1"),))
