"""Finds the GPU that a name means.

Case, punctuation and the words NVIDIA, GeForce, Tesla, Quadro and GPU are ignored. An exact match of an id, a
marketing name or an alias wins; then a family name stands for the GPU that ``data/families.toml`` declares.
"""

import difflib
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError
from kerncast.gpu.files import DATA, read_sheet, read_toml, unknown_to_all

GPU_FOLDER = DATA / "gpus"
#: GPUs of which too little is published for a forecast.
INCOMPLETE_FOLDER = DATA / "incomplete_gpus"

_IGNORED = frozenset({"nvidia", "geforce", "tesla", "quadro", "gpu"})
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 100


def normalise(name: str) -> str:
    """Return what counts of a name.

    >>> normalise("NVIDIA GeForce RTX 2080 Ti"), normalise("rtx-2080-ti")
    ('rtx2080ti', 'rtx2080ti')
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", name).casefold())
    return "".join(word for word in words if word not in _IGNORED)


def is_path(name: str | Path) -> bool:
    """Whether a name is meant as the path of a user's own file."""
    if isinstance(name, Path):
        return True
    return name.endswith(".toml") or "/" in name or "\\" in name


def find_id(name: str) -> tuple[str, tuple[Caveat, ...]]:
    """Return the id of the GPU that a name means, and the caveats of having read it so."""
    wanted = normalise(name) if len(name) <= _LONGEST_NAME else ""
    gpu_id = _ids().get(wanted) or _names().get(wanted)
    if gpu_id is not None:
        return gpu_id, ()
    family = _families().get(wanted)
    if family is not None:
        return family
    incomplete = _incomplete().get(wanted)
    if incomplete is not None:
        raise _too_little_known(incomplete)
    raise GPUError(f"no GPU is called {_shorten(name)}", cure=_advice(wanted))


def find_incomplete(name: str) -> str | None:
    """Return the id of a GPU of which too little is known for a forecast; None for every other name."""
    return _incomplete().get(normalise(name)) if len(name) <= _LONGEST_NAME else None


def incomplete_ids() -> tuple[str, ...]:
    """Return the ids of all GPUs of which too little is known for a forecast, sorted."""
    return tuple(sorted(path.stem for path in INCOMPLETE_FOLDER.glob("*.toml")))


def known_ids() -> tuple[str, ...]:
    """Return the ids of all GPUs that have a data file, sorted."""
    return tuple(sorted(_ids().values()))


def read_names(path: Path) -> tuple[str, ...]:
    """Return marketing name and aliases of a GPU file, parsing only what stands above its first section."""
    head = re.split(r"^\[", path.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]
    table = tomllib.loads(head)
    return (table["name"], *table.get("aliases", []))


@cache
def _ids() -> Mapping[str, str]:
    return {normalise(path.stem): path.stem for path in GPU_FOLDER.glob("*.toml")}


@cache
def _names() -> Mapping[str, str]:
    return {normalise(name): path.stem for path in GPU_FOLDER.glob("*.toml") for name in read_names(path)}


@cache
def _families() -> Mapping[str, tuple[str, tuple[Caveat, ...]]]:
    found = {}
    for row in read_toml(DATA / "families.toml")["family"]:
        for name in row["names"]:
            others = "; ".join(row["others"])
            caveat = Caveat.of(CaveatKind.GPU_NAME_AMBIGUOUS, name, taken=row["means"], others=others)
            found[normalise(name)] = (row["means"], (caveat,))
    return found


@cache
def _incomplete() -> Mapping[str, str]:
    found = {normalise(path.stem): path.stem for path in INCOMPLETE_FOLDER.glob("*.toml")}
    return found | {
        normalise(name): path.stem for path in INCOMPLETE_FOLDER.glob("*.toml") for name in read_names(path)
    }


def _too_little_known(gpu_id: str) -> GPUError:
    sheet = read_sheet(INCOMPLETE_FOLDER / f"{gpu_id}.toml", "gpu", may_lack=True)
    unknown = " and ".join(f"{rule.key} ({rule.meaning})" for rule in unknown_to_all(sheet))
    return GPUError(
        f"the {sheet.name} cannot be forecast: no source gives its {unknown}",
        cure=f"kerncast gpus {gpu_id} shows what is known; kerncast gpus --add {gpu_id} writes a file to complete.",
    )


def _advice(wanted: str) -> str:
    every = {**_families_as_ids(), **_names(), **_ids()}
    near = difflib.get_close_matches(wanted, list(every), n=5, cutoff=0.5)
    ids = list(dict.fromkeys(every[match] for match in near))
    if ids:
        return f"The nearest are {', '.join(ids)}; a path to your own .toml file works too."
    return f"Known are {', '.join(known_ids())}; a path to your own .toml file works too."


def _families_as_ids() -> dict[str, str]:
    return {name: gpu_id for name, (gpu_id, _) in _families().items()}


def _shorten(name: str) -> str:
    text = ascii(name)
    return text if len(text) <= 60 else f"{text[:57]}..."
