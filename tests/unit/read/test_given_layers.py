"""Measured values of convolution layers, from files of a user's own."""

import csv
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.read.given_layers import GivenLayer, LayerSizes, read_given
from tests.helpers.places import PACKAGE
from tests.helpers.thorough import examples

Write = Callable[[str], Path]

_SIZES = st.integers(1, 4096)
_OPS = st.none() | st.integers(1, 10**18)
_ROWS = st.builds(
    GivenLayer,
    st.sampled_from(["", "block", "channels", "kernel", "size"]),
    st.builds(LayerSizes, _SIZES, _SIZES, _SIZES, _SIZES),
    _OPS,
    _OPS,
    st.none() | st.floats(1e-9, 1e3),
)
_COLUMNS = ("sweep", "block", "channels", "kernel", "size", "flops", "int_ops", "milliseconds")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "given.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def text_of(rows: list[GivenLayer], order: list[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, order, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        sizes = {name: getattr(row.sizes, name) for name in ("block", "channels", "kernel", "size")}
        milliseconds = None if row.seconds is None else repr(row.seconds * 1e3)
        writer.writerow(
            {"sweep": row.sweep, **sizes, "flops": row.flops, "int_ops": row.int_ops, "milliseconds": milliseconds}
        )
    return text.getvalue()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_ROWS, min_size=1, max_size=6), st.permutations(_COLUMNS))
def test_what_was_written_is_read(write: Write, rows: list[GivenLayer], order: list[str]) -> None:
    found = read_given(write(text_of(rows, order)))
    assert [(each.sweep, each.sizes, each.flops, each.int_ops) for each in found] == [
        (each.sweep, each.sizes, each.flops, each.int_ops) for each in rows
    ]
    for own, back in zip(rows, found, strict=True):
        assert back.seconds == (None if own.seconds is None else pytest.approx(own.seconds, rel=1e-14))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80), st.booleans())
def test_any_text_is_read_or_is_an_input_error(write: Write, text: str, with_header: bool) -> None:
    content = ("size,flops,milliseconds\n" if with_header else "") + text
    path = write(content.encode("utf-8", "replace").decode())
    with suppress(InputError):
        assert all(1 <= each.sizes.size <= 4096 for each in read_given(path))


def test_sizes_without_a_column_are_those_of_the_default_layer(write: Write) -> None:
    (found,) = read_given(write("size,milliseconds\n\n56,0.25\n"))
    assert found == GivenLayer("", LayerSizes(size=56), None, None, 0.25e-3)
    assert (found.sizes.block, found.sizes.channels, found.sizes.kernel) == (32, 32, 3)


def test_the_published_table_is_read() -> None:
    found = read_given(PACKAGE / "data" / "convolution-layer-2025-measured.csv")
    assert len(found) == 13
    assert found[0] == GivenLayer("block", LayerSizes(block=4), 18_907_136, 41_025_536, 0.050335 * 1e-3)
    assert found[-1].sizes == LayerSizes(channels=512)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no column"),
        ("size,flops", "holds no launch"),
        ("size,flops,flops\n", "double"),
        ("size,speed,flops\n14,1,1\n", "'speed'"),
        ("flops\n1\n", "no column"),
        ("size\n14\n", "no column"),
        ("size,flops\n14\n", "1 columns, not 2"),
        ("size,flops\n0,1\n", "size is '0'"),
        ("size,flops\n-3,1\n", "size is '-3'"),
        ("size,flops\n5000,1\n", "size is '5000'"),
        ("size,flops\n14,1.5\n", "flops is '1.5'"),
        ("size,int_ops\n14,²\n", "int_ops is"),
        (f"size,int_ops\n14,{'9' * 5000}\n", "int_ops is"),
        (f"size,int_ops\n14,{'0' * 5000}1\n", "int_ops is"),
        ("size,milliseconds\n14,nan\n", "milliseconds is 'nan'"),
        ("size,milliseconds\n14,-1\n", "milliseconds is '-1'"),
        ("size,milliseconds\n14,soon\n", "milliseconds is 'soon'"),
        ("sweep,size,flops\nwidth,14,1\n", "no sweep is called 'width'"),
        ('size,flops\n"14,1\n', "not CSV"),
    ],
)
def test_faults_are_told_with_their_place(write: Write, text: str, what: str) -> None:
    path = write(text)
    with pytest.raises(InputError) as wrong:
        read_given(path)
    assert what in wrong.value.what
    assert str(path) in str(wrong.value.where)
    assert wrong.value.cure


def test_a_file_is_bounded(write: Write) -> None:
    with pytest.raises(InputError, match="more than 10000 rows"):
        read_given(write("size,flops\n" + "14,1\n" * 10_001))
    with pytest.raises(InputError, match="more than 1 MiB"):
        read_given(write("size,flops\n" + " " * 2**20))
