"""Build ``record_occupancy.cpp`` against NVIDIA's cuda_occupancy.h and write ``tests/golden/occupancy.csv``.

Needs g++ and the wheel nvidia-cuda-runtime-cu12, which brings the header. Run by hand::

    python tools/record_occupancy/record.py [FOLDER_OF_CUDA_OCCUPANCY_H]
"""

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "tests" / "golden" / "occupancy.csv"
WHEEL = "nvidia-cuda-runtime-cu12"


def header_folder() -> Path:
    """Return the folder that holds cuda_occupancy.h: the argument, or the installed wheel's."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    files = importlib.metadata.files(WHEEL) or []
    found = [Path(str(file.locate())) for file in files if file.name == "cuda_occupancy.h"]
    if not found:
        raise SystemExit(f"{WHEEL} brings no cuda_occupancy.h here; name its folder as the argument")
    return found[0].parent


def main() -> None:
    """Compile, run, write."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise SystemExit("g++ is not installed")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "record_occupancy"
        source = HERE / "record_occupancy.cpp"
        subprocess.run(
            [compiler, "-std=c++17", "-O1", "-w", f"-I{header_folder()}", str(source), "-o", str(program)],
            check=True,
        )
        table = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(table, encoding="utf-8")
    print(f"{len(table.splitlines()) - 1} configurations in {GOLDEN.name}, {len(table)} bytes")


if __name__ == "__main__":
    main()
