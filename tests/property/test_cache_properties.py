"""The cache against libclang: what it reads is covered, and when it would read something else the digest changes."""

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clang.cindex import Index, TranslationUnit
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.compile import CompileRequest
from kerncast.compile.cache.remembered import Inputs, UnknowableError
from tests.helpers.thorough import examples

FOLDERS = ("", "one", "two", "one/deep")
NAMES = ("a.h", "b.h", "deep/a.h", "../b.h", "deep/../c.h", "c")
LINES = (
    '#include "{}"', "#include <{}>", '#if __has_include("{0}")\n#include <c>\n#endif',
    '#ifdef A\n#include "{}"\n#endif', '#ifndef A\n#include "{}"\n#endif',
    '#define A "{}"', "#include A", '%:include "{}"', '#inc\\\nlude "{}"', '/* */ #include "{}" // x', "#pragma once",
    '/* #include "{}" */', '// \\ \n#include "{}"', '#include_next "{}"',
    "#if __has_include(A)\n#include <a.h>\n#endif",
)  # fmt: skip


@contextmanager
def tree(choose: random.Random) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for each in FOLDERS:
            (root / each).mkdir(parents=True, exist_ok=True)
        (root / "k.cu").write_text(text(choose, 4), encoding="utf-8")
        for place in places(root):
            if choose.random() < 0.4:
                place.write_text(text(choose, 2), encoding="utf-8")
        yield root


def text(choose: random.Random, lines: int) -> str:
    chosen = [choose.choice(LINES).format(choose.choice(NAMES)) for _ in range(choose.randrange(lines + 1))]
    return "\n".join(chosen) + "\n"


def places(root: Path) -> list[Path]:
    return [root / folder / name for folder in FOLDERS for name in ("a.h", "b.h", "c")]


def change(root: Path, choose: random.Random) -> None:
    """Write, change or remove a header somewhere."""
    place = choose.choice(places(root))
    if place.exists() and choose.random() < 0.5:
        place.unlink()
    else:
        place.write_text(text(choose, 2), encoding="utf-8")


def read_by_clang(root: Path) -> list[tuple[str, bytes]]:
    """Return the files that libclang reads, in order, and what is in them."""
    options = ["-x", "c++", "-nostdinc", f"-I{root / 'one'}", f"-I{root / 'two'}", f"-I{root}"]
    parse = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
    unit = Index.create().parse(str(root / "k.cu"), options, options=parse)
    names = [str(root / "k.cu"), *(each.include.name for each in unit.get_includes())]
    return [(os.path.realpath(name), Path(name).read_bytes()) for name in names]


def inputs_of(root: Path) -> Inputs | None:
    try:
        return Inputs(CompileRequest(root / "k.cu", ("sm_70",), include_dirs=(root / "one", root / "two")))
    except UnknowableError:
        return None


@settings(max_examples=examples(100))
@given(st.randoms(use_true_random=False))
def test_libclang_reads_nothing_that_the_digest_does_not_cover(choose: random.Random) -> None:
    with tree(choose) as root:
        inputs = inputs_of(root)
        if inputs is None:
            return
        before = read_by_clang(root)
        assert {name for name, _ in before} <= {os.path.realpath(file) for file in inputs.files}
        assert inputs_of(root).digest == inputs.digest  # type: ignore[union-attr]
        change(root, choose)
        after = inputs_of(root)
        if after is not None and read_by_clang(root) != before:
            assert after.digest != inputs.digest
