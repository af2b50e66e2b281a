"""Makes input files that the suites of ``score_whole_programs.py`` lack: deterministic, in the documented formats.

    make_inputs("graph ../../data/bfs/graph65536.txt 65536 6; …", folder, tree)

writes what is not there. Each entry is a kind, a path from the program's folder, and the kind's numbers.
"""

import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

_SEED = 20_261_126


def make_inputs(entries: str, folder: Path, tree: Path) -> bool:
    """Make the files that are missing; returns whether there were any.

    ``tree`` holds the copy of the checkout: nothing is written through the links in it to the checkout.
    """
    is_own = False
    for entry in filter(None, map(str.strip, entries.split(";"))):
        kind, path, *numbers = entry.split()
        place = Path(*(folder / path).parts)
        if place.exists():
            continue
        _own_folder(place.parent, tree)
        place.write_bytes(KINDS[kind](numbers))
        is_own = True
    return is_own


def _own_folder(folder: Path, tree: Path) -> None:
    """Make a folder of the tree, where it is a link turn it into a folder of links."""
    place = tree
    for name in Path(_normal(folder)).relative_to(_normal(tree)).parts:
        place /= name
        if place.is_symlink():
            aim = place.resolve()
            place.unlink()
            place.mkdir()
            for each in aim.iterdir() if aim.is_dir() else ():
                (place / each.name).symlink_to(each)
        place.mkdir(exist_ok=True)


def _normal(path: Path) -> Path:
    """Return a path without its dots; links stay."""
    parts: list[str] = []
    for part in path.absolute().parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def _random() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def _lines(rows: Sequence[object]) -> bytes:
    return ("\n".join(map(str, rows)) + "\n").encode()


def _graph(numbers: Sequence[str]) -> bytes:
    """Rodinia's bfs: nodes with first edge and count; source; edges with cost. Numbers: nodes, most edges of each."""
    nodes, most = int(numbers[0]), int(numbers[1])
    random = _random()
    counts = random.integers(1, most + 1, nodes)
    starts = np.cumsum(counts) - counts
    edges = random.integers(0, nodes, int(counts.sum()))
    costs = random.integers(1, 10, len(edges))
    text = io.StringIO()
    print(nodes, file=text)
    np.savetxt(text, np.column_stack((starts, counts)), "%d")
    print(f"\n0\n\n{len(edges)}", file=text)
    np.savetxt(text, np.column_stack((edges, costs)), "%d")
    return text.getvalue().encode()


def _numbers(numbers: Sequence[str]) -> bytes:
    """One number a line. Numbers: how many, lowest, highest."""
    count, low, high = int(numbers[0]), float(numbers[1]), float(numbers[2])
    text = io.StringIO()
    np.savetxt(text, _random().uniform(low, high, count), "%.6f")
    return text.getvalue().encode()


def _keys(numbers: Sequence[str]) -> bytes:
    """Rodinia's b+tree: how many, and then all numbers up to it, in random order. Number: how many."""
    count = int(numbers[0])
    return _lines([count, *_random().permutation(count).tolist()])


def _text(numbers: Sequence[str]) -> bytes:
    """A text as it stands; / separates lines, _ is a blank."""
    return _lines(" ".join(numbers).replace("_", " ").split("/"))


def _records(numbers: Sequence[str]) -> bytes:
    """Rodinia's nn: one hurricane a line, as hurricane_gen writes it. Numbers: how many, number of the file."""
    random = np.random.default_rng(_SEED + int(numbers[1]))
    rows = []
    for _ in range(int(numbers[0])):
        year, month, day, hour = random.integers((1950, 1, 1, 0), (2005, 13, 29, 4))
        latitude, longitude = random.uniform((7, 0), (70, 359))
        number, speed, pressure = random.integers((1, 10, 0), (29, 165, 900))
        rows.append(f"{year:4d} {month:2d} {day:2d} {6 * hour:2d} {number:2d} {'ALBERTO':<9s} {latitude:5.1f} "
                    f"{longitude:5.1f} {speed:4d} {pressure:4d}")  # fmt: skip
    return _lines(rows)


def _features(numbers: Sequence[str]) -> bytes:
    """Rodinia's kmeans: number and features of an object a line, in five clusters. Numbers: objects, features."""
    count, features = int(numbers[0]), int(numbers[1])
    random = _random()
    centres = random.uniform(0, 100, (5, features))
    values = centres[random.integers(0, 5, count)] + random.normal(0, 1, (count, features))
    text = io.StringIO()
    np.savetxt(text, np.column_stack((np.arange(count), values)), ["%d", *["%.2f"] * features])
    return text.getvalue().encode()


def _genome(numbers: Sequence[str]) -> bytes:
    """FASTA: one sequence, or pieces of the same one. Numbers: bases, sequences, length of each."""
    bases, count, length = map(int, numbers)
    random = _random()
    genome = "".join(random.choice(list("ACGT"), bases))
    starts = random.integers(0, bases - length + 1, count)
    return "".join(f">piece{n}\n{genome[at : at + length]}\n" for n, at in enumerate(starts)).encode()


def _bases(numbers: Sequence[str]) -> bytes:
    """HeCBench's frna: a sequence of RNA as .seq file of RNAstructure. Number: bases."""
    return f";\nown\n{''.join(_random().choice(list('ACGU'), int(numbers[0])))}1\n".encode()


def _mesh(numbers: Sequence[str]) -> bytes:
    """Rodinia's cfd: of each element its area, and of its four sides the neighbour from 1 and the normal outwards.

    A channel of squares, one layer deep, around a body of 4 x 4: 0 stands for a wall, -1 for the far field.
    Numbers: columns, rows.
    """
    columns, rows = int(numbers[0]), int(numbers[1])
    body = {(x, y) for x in range(columns // 3, columns // 3 + 4) for y in range(rows // 2 - 2, rows // 2 + 2)}
    cells = [(x, y) for y in range(rows) for x in range(columns) if (x, y) not in body]
    number = {cell: at for at, cell in enumerate(cells, 1)}
    lines = [str(len(cells))]
    for x, y in cells:
        sides = []
        for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            beside = (x + dx, y + dy)
            neighbour = number.get(beside, 0 if beside in body else -1)
            sides.append(f"{neighbour} {0.1 * dx:g} {0.1 * dy:g} 0")
        lines.append(f"0.01 {' '.join(sides)}")
    return _lines(lines)


def _bytes(numbers: Sequence[str]) -> bytes:
    """Bytes of few values more often than of others. Numbers: how many, deviation of the values around 128."""
    values = _random().normal(128, float(numbers[1]), int(numbers[0]))
    return values.clip(0, 255).astype(np.uint8).tobytes()


def _pgm(numbers: Sequence[str]) -> bytes:
    """Rodinia's srad_v1: a grey image as text, with three lines of header. Numbers: rows, columns."""
    rows, columns = int(numbers[0]), int(numbers[1])
    y, x = np.mgrid[:rows, :columns]
    values = (127 + 80 * np.sin(x / 31) * np.cos(y / 23) + _random().normal(0, 20, (rows, columns))).clip(1, 255)
    text = io.StringIO()
    print(f"P2\n{columns} {rows}\n255", file=text)
    np.savetxt(text, values.astype(int), "%d")
    return text.getvalue().encode()


def _pairs(numbers: Sequence[str]) -> bytes:
    """HeCBench's geodesic: latitude and longitude of cities. Number: how many."""
    text = io.StringIO()
    np.savetxt(text, _random().uniform((-80, -179), (80, 179), (int(numbers[0]), 2)), "%.4f")
    return text.getvalue().encode()


def _trajectory(numbers: Sequence[str]) -> bytes:
    """HeCBench's mriQ: samples, pixels; coordinates of both; complex values. Numbers: samples, pixels."""
    samples, pixels = int(numbers[0]), int(numbers[1])
    values = _random().uniform(-0.5, 0.5, 5 * samples + 3 * pixels).astype(np.float32)
    return struct.pack("<2i", samples, pixels) + values.tobytes()


def _points(numbers: Sequence[str]) -> bytes:
    """HeCBench's voxelization: x, y, z, intensity and time of points of a scan. Number: how many."""
    low, high = (-50, -50, -4, 0, 0), (50, 50, 2, 1, 1)
    return _random().uniform(low, high, (int(numbers[0]), 5)).astype(np.float32).tobytes()


def _lower(numbers: Sequence[str]) -> bytes:
    """A square sparse matrix in Matrix Market's format. Numbers: rows, values in each beside the diagonal."""
    rows, most = int(numbers[0]), int(numbers[1])
    random = _random()
    lines = []
    for row in range(1, rows + 1):
        columns = {row, *random.integers(1, row + 1, most).tolist()}
        lines += [f"{row} {column} {random.uniform(0.1, 1):.4f}" for column in sorted(columns)]
    return _lines(["%%MatrixMarket matrix coordinate real general", f"{rows} {rows} {len(lines)}", *lines])


def _avi(numbers: Sequence[str]) -> bytes:
    """Rodinia's heartwall: a film of grey bytes without compression. Numbers: frames, height, width."""
    frames, height, width = map(int, numbers)
    y, x = np.mgrid[:height, :width]
    chunks, index = b"", b""
    random = _random()
    for number in range(frames):
        picture = 127 + 60 * np.sin((x + number) / 29) * np.cos((y - number) / 37) + random.normal(0, 8, x.shape)
        data = picture.clip(0, 255).astype(np.uint8).tobytes()
        index += b"00db" + struct.pack("<3I", 0x10, 4 + len(chunks), len(data))
        chunks += b"00db" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    size = height * width
    main = struct.pack("<14I", 40000, 25 * size, 0, 0x10, frames, 0, 1, size, width, height, 0, 0, 0, 0)
    stream = b"vidsDIB " + struct.pack("<10I4h", 0, 0, 0, 1, 25, 0, frames, size, 10000, 0, 0, 0, width, height)
    form = struct.pack("<I2i2H6I", 40, width, height, 1, 8, 0, size, 0, 0, 0, 0)
    headers = _chunk(b"avih", main) + _list(b"strl", _chunk(b"strh", stream) + _chunk(b"strf", form))
    return _chunk(b"RIFF", b"AVI " + _list(b"hdrl", headers) + _list(b"movi", chunks) + _chunk(b"idx1", index))


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data


def _list(name: bytes, data: bytes) -> bytes:
    return _chunk(b"LIST", name + data)


KINDS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "graph": _graph, "numbers": _numbers, "keys": _keys, "text": _text, "records": _records, "mesh": _mesh,
    "bytes": _bytes, "pgm": _pgm, "pairs": _pairs, "trajectory": _trajectory, "points": _points, "lower": _lower,
    "avi": _avi, "features": _features, "genome": _genome, "bases": _bases,
}  # fmt: skip
