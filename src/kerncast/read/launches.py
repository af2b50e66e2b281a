"""Launches of a file: those that a launch file states, or those that a recording keeps.

A recorded launch is ready to be compiled and executed, with the sources that the program was built from.

Where the program's own files are as they were, they are compiled where they lie; else what the recording holds of them
is written into the cache, under the digest of what they held.
"""

import hashlib
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import Bound, read_bytes
from kerncast.compile.cache import cache_place
from kerncast.errors import InputError
from kerncast.launch import Launch
from kerncast.launch import load_launches as load_launch_file
from kerncast.recording import Code, Recording, read_recording
from kerncast.recording.contents import digest_of
from kerncast.recording.recording_files import SUFFIX, contents_of
from kerncast.replaced_file import replacing
from kerncast.units import MIB

_SOURCE = Bound(16 * MIB)
_MOST_NAMED = 8
_CURE = "Give a folder for the cache: KERNCAST_CACHE=/path."


def load_launches(path: str | os.PathLike[str]) -> tuple[Launch, ...]:
    """Return the launches of a launch file, or those that a recording (.kc) keeps; raises InputError."""
    file = Path(path)
    if file.suffix == SUFFIX:
        return launches_of(read_recording(file))
    return load_launch_file(file)


def only_launch(path: str | os.PathLike[str], kernel: str | None = None) -> Launch:
    """Return the launch of a file; raises InputError where it has several, and ``kernel`` names none of them alone.

    ``kernel`` is the name of a kernel, or the number of a launch, from 0.
    """
    every = load_launches(path)
    found = [each for each in every if kernel in {None, each.kernel, str(each.index)}]
    if len(found) == 1:
        return found[0]
    kernels = ", ".join(f"{each.index} ({each.kernel or 'unnamed'})" for each in (found or every)[:_MOST_NAMED])
    more = ", …" if len(found or every) > _MOST_NAMED else ""
    of_it = "" if kernel is None else f" of {kernel[:80]!r}"
    cure = f"Name one by its number: --kernel {(found or every)[0].index}."
    raise InputError(f"it has {len(found) or 'no'} launches{of_it}: {kernels}{more}", where=str(path), cure=cure)


def launches_of(recording: Recording) -> tuple[Launch, ...]:
    """Return the launches that a recording keeps, in the order in which the program asked for them.

    Each has how many launches it stands for; one that stands for none, because another one does as much, is left out.
    """
    if not recording.kept:
        cure = "Record a program that launches kernels which can be executed."
        raise InputError("it holds no launch", where=str(recording.file or "the recording"), cure=cure)
    sources = tuple(_template(code, recording) for code in recording.codes)
    counts = Counter(nearest_kept(recording).tolist())
    found = []
    for index, (kept, group) in enumerate(zip(recording.kept, recording.group_of_kept, strict=True)):
        kernel = recording.kernels[group.kernel]
        template = replace(
            sources[kernel.code], kernel=kernel.name if recording.codes[kernel.code].source else kernel.mangled,
            grid=group.grid, block=group.block, shared_bytes=group.shared_bytes,
            cooperative=group.cooperative, cluster=group.cluster, index=index, memory=kept.memory,
            count=counts[index],
        )  # fmt: skip
        found.append(template)
    return tuple(each for each in found if each.count)


def nearest_kept(recording: Recording) -> npt.NDArray[np.int64]:
    """Return [launches] the number of the kept launch of its group whose work is nearest; -1 where none is kept."""
    found = np.full(len(recording.launches), -1, np.int64)
    work = np.log(np.maximum(recording.launches["instructions"], 1).astype(np.float64))
    groups = recording.launches["group"]
    kept_of: dict[int, list[int]] = {}
    for number, kept in enumerate(recording.kept):
        kept_of.setdefault(int(groups[kept.launch]), []).append(number)
    for group, numbers in kept_of.items():
        members = np.flatnonzero(groups == group)
        known = work[[recording.kept[number].launch for number in numbers]]
        distances = np.abs(work[members][:, np.newaxis] - known[np.newaxis, :])
        found[members] = np.array(numbers)[distances.argmin(axis=1)]
    return found


def _template(code: Code, recording: Recording) -> Launch:
    """Return a launch of some code, to which kernel, geometry and memory are added."""
    source, folders = (Path(code.source), _own_folders(code)) if _is_unchanged(code) else _restored(code, recording)
    return Launch(
        source, None, (1, 1, 1), (1, 1, 1), defines=code.defines, include_dirs=folders, standard=code.standard,
        fast_math=code.fast_math,
    )  # fmt: skip


def _is_unchanged(code: Code) -> bool:
    """Whether the files that the program was built from are there, as they were."""
    if code.source not in {each.path for each in code.files}:
        return False
    try:
        return all(digest_of(read_bytes(each.path, _SOURCE)) == each.digest for each in code.files)
    except InputError:
        return False


def _own_folders(code: Code) -> tuple[Path, ...]:
    """Return the folders of headers that hold some of the code's files: a stranger may have written down others."""
    places = {parent for each in code.files for parent in Path(each.path).parents}
    return tuple(each for each in map(Path, code.include_dirs) if each in places)


def _restored(code: Code, recording: Recording) -> tuple[Path, tuple[Path, ...]]:
    """Write the files of some code into the cache; returns the source and the folders of headers there."""
    assert recording.file is not None
    files = [(each.path, each.digest) for each in code.files] or [("/kernel.ptx", code.ptx)]
    if not all(digest for _, digest in files):
        cure = "Record the program again, where its sources are."
        raise InputError("it holds no source of a kernel", where=str(recording.file), cure=cure)
    contents = contents_of(recording.file, {digest for _, digest in files})
    root = _folder_for(files)
    for path, digest in files:
        place = _inside(root, path)
        if not place.is_file():
            _write(place, contents[digest], recording.file)
    return _inside(root, code.source or "/kernel.ptx"), tuple(_inside(root, each) for each in code.include_dirs)


def _write(place: Path, content: bytes, recording: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as partial:
            partial.write_bytes(content)
    except (OSError, ValueError, InputError) as error:
        what = f"a source in it cannot be kept here ({error})"
        raise InputError(what, where=str(recording), cure=_CURE) from None


def _folder_for(files: list[tuple[str, str]]) -> Path:
    place = cache_place().folder
    if place is None:
        raise InputError("the program's own files have changed, and there is no place for what they held", cure=_CURE)
    name = hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:32]
    return place.resolve().parent / "sources" / name


def _inside(root: Path, path: str) -> Path:
    """Return the place of a file below a folder, whatever its path says."""
    parts = [part for part in Path(path).parts if part not in {"/", "\\", "..", "."} and ":" not in part]
    return root.joinpath(*parts)
