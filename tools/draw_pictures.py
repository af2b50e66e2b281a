"""Draw the pictures of docs/pictures again, each by the command that its page names.

    python tools/draw_pictures.py [NAME…] [--scores out/timing.json] [--partitions out/partitions.jsonl] [--list]

NAME is the beginning of a picture's name; without any, all are drawn whose evidence is there. What measured data or
hours of simulation are needed for is left as it is, and told. ``make docs`` calls it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
EXAMPLES, SUITE = ROOT / "examples", ROOT / "src" / "kerncast" / "kernels" / "suite"
DATA = ROOT.parent / "shared" / "data" / "gpuperfpredict" / "rodinia.parquet"
_PYTHON = sys.executable
_KERNCAST = (_PYTHON, "-m", "kerncast")
_GPUS = ("--gpu", "h100-sxm", "--gpu", "a100-sxm-80gb", "--gpu", "l40s", "--gpu", "rtx-4090")
_FAMILIES = ("hydrodynamics", "polybench", "transport", "lulesh", "docking")


@dataclass(frozen=True, slots=True)
class Recipe:
    """One command, and the pictures that it draws."""

    command: tuple[str, ...]
    """the command, run in an empty folder"""
    drawn: Mapping[str, str]
    """names in docs/pictures by the names that the command writes"""
    needs: tuple[Path, ...] = field(default=())
    """files without which the pictures are left as they are"""


def recipes(scores: Path, partitions: Path) -> tuple[Recipe, ...]:
    """Return all recipes; ``scores`` and ``partitions`` are what ``make eval`` and ``make eval-full`` write."""
    return (*_of_the_command_line(), *_of_studies(), *_of_long_studies(scores, partitions))


def _of_the_command_line() -> tuple[Recipe, ...]:
    """Return those that commands of kerncast draw."""
    tensor, convolution = str(EXAMPLES / "matmul_tensor.toml"), str(EXAMPLES / "convolution_layer.toml")
    product, hotspot = str(EXAMPLES / "matmul_tiled.toml"), str(SUITE / "hotspot.toml")
    integers = str(SUITE / "pathfinder.toml")
    settings = (
        "B=4,8,16,32", "Ni=8,16,32,64,128", "BLOCK_X=B", "BLOCK_Y=B", "block={B}x{B}", "grid={32 // B}x{32 // B}x32",
        "synapse=f32[32, Ni, 3, 3] random", "neuron_i=f32[Ni, 34, 34] random",
    )  # fmt: skip
    varied = (*(text for each in settings for text in ("--set", each)), "--gpu", "TITAN V", "--gpu", "RTX 2080 Ti")
    along = ("--along", "Ni", "--along", "B")
    block = ("--block", "192", "--registers", "32", "--static-shared", "20000")
    return (
        _same("predict", tensor, *_GPUS, "--roofline", "roofline-tensor.svg", "--bars", "bars-tensor.svg"),
        _same("predict", product, *_GPUS[:2], "--roofline", "roofline-tiled.svg"),
        _same("predict", integers, *_GPUS[:2], "--roofline", "roofline-instructions.svg"),
        _same("occupancy", *block, "--gpu", "TITAN V", *_GPUS[2:4], *_GPUS[6:], "--curves", "occupancy-curves.svg"),
        _same("sensitivity", convolution, "--gpu", "TITAN V", "--tornado", "sensitivity-convolution.svg"),
        _same("sensitivity", product, "--gpu", "RTX 3080", "--tornado", "sensitivity-product.svg"),
        _same("sensitivity", hotspot, "--gpu", "a100-sxm-80gb", "--tornado", "sensitivity-hotspot.svg"),
        _same("sweep", convolution, *varied, "--line", "sweep-line.svg", "--heat", "sweep-map.svg", *along),
        _same("compare", str(EXAMPLES / "saxpy.toml"), product, "--gpu", "all", "--pareto", "compare-pareto.svg"),
        _same("study", "convolution", "--out", "convolution-sweeps.svg"),
    )


def _same(*arguments: str) -> Recipe:
    """Return the recipe of a command of kerncast that names the pictures as they are called here."""
    names = [text for text in arguments if Path(text).suffix in {".svg", ".png"}]
    return Recipe((*_KERNCAST, *arguments, "--quiet"), {name: name for name in names})


def _of_studies() -> tuple[Recipe, ...]:
    """Return those of studies that take minutes."""
    benchmarks = ROOT / "benchmarks"
    kinds = ("bars.svg", "roofline.svg", "under-used-bars.svg")
    names = [f"{family}-{kind}" for family in _FAMILIES for kind in kinds]
    families = {name: name for name in names if (PICTURES / name).exists()}
    average = ("average-case-correlation.svg", "average-case-rows.png", "average-case-gpus.png")
    return (
        Recipe((_PYTHON, str(benchmarks / "project_mini_apps.py"), "--out", "."), families),
        Recipe(
            (_PYTHON, str(benchmarks / "score_bounds.py"), "--only-shapes", "--pictures", "."),
            {"list-scheduling.svg": "bound-shapes.svg"},
        ),
        Recipe(
            (_PYTHON, str(benchmarks / "score_average_case.py"), "--only-pictures", "--pictures", "."),
            {name: name for name in average},
            (DATA,),
        ),
    )


def _of_long_studies(scores: Path, partitions: Path) -> tuple[Recipe, ...]:
    """Return those drawn from what simulations of hours gave."""
    benchmarks, given = ROOT / "benchmarks", str(scores)
    reliability = ("--check", "--picture", "reliability.svg")
    zero_shot = ("zero-shot-forecasts.svg", "zero-shot-gpus.svg")
    return (
        Recipe(
            (_PYTHON, str(benchmarks / "score_pairs.py"), given, "--picture", "compare-reliability.svg"),
            {"compare-reliability.svg": "compare-reliability.svg"},
            (scores,),
        ),
        Recipe(
            (_PYTHON, str(ROOT / "tools" / "calibrate_interval.py"), given, *reliability),
            {"reliability.svg": "reliability.svg"},
            (scores,),
        ),
        Recipe(
            (*_KERNCAST, "study", "zero-shot", given, "--out", "zero-shot.md"),
            {f"pictures/{name}": name for name in zero_shot},
            (scores,),
        ),
        Recipe(
            (_PYTHON, str(benchmarks / "score_partitions.py"), str(partitions), "--picture", "bound-measurements.svg"),
            {"bound-measurements.svg": "bound-measurements.svg"},
            (partitions,),
        ),
    )


def draw(recipe: Recipe) -> None:
    """Run a recipe and put its pictures in their place; raises CalledProcessError where the command fails."""
    places = (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(recipe.command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        for written, name in recipe.drawn.items():
            shutil.copyfile(Path(folder) / written, PICTURES / name)
            print(f"drawn: docs/pictures/{name}", flush=True)


def main() -> int:
    """Draw what is asked for."""
    asked = _arguments()
    every = recipes(asked.scores.resolve(), asked.partitions.resolve())
    chosen = [
        each for each in every if not asked.names or any(_is_asked(name, asked.names) for name in each.drawn.values())
    ]
    if asked.list:
        print("\n".join(sorted(name for each in chosen for name in each.drawn.values())))
        return 0
    for recipe in chosen:
        missing = [path for path in recipe.needs if not path.exists()]
        if missing:
            print(f"left as they are: {', '.join(recipe.drawn.values())}, which need {missing[0]}", flush=True)
            continue
        draw(recipe)
    return 0


def _is_asked(name: str, asked: Sequence[str]) -> bool:
    return not asked or any(name.startswith(each) for each in asked)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="beginnings of names; all, where none is given")
    parser.add_argument("--scores", type=Path, default=ROOT / "out" / "timing.json", help="of score_timing.py --json")
    parser.add_argument(
        "--partitions", type=Path, default=ROOT / "out" / "partitions.jsonl", help="of partition_sweeps.py"
    )
    parser.add_argument("--list", action="store_true", help="name the pictures, and draw none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
