"""What host code and launch files say is read back as it was written."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.compile.source.variables import symbol_copies
from kerncast.launch import Argument, Launch, Reference, Struct, load_launches, parse_value
from kerncast.ptx import source_name
from tests.helpers.launch_files import dump_launches
from tests.helpers.thorough import examples

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_names_of_variables_come_back_from_the_itanium_abi(parts: list[str]) -> None:
    coded = "".join(f"{len(part)}{part}" for part in parts)
    assert source_name(f"_ZN{coded}E") == "::".join(parts)
    assert source_name(f"_ZL{len(parts[0])}{parts[0]}") == parts[0]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20), st.integers(0, 5))
def test_literal_integers_come_back(numbers: list[int], more: int) -> None:
    count = len(numbers) + more
    text = f"void f() {{ int h[{count}] = {{{', '.join(map(str, numbers))}}}; cudaMemcpyToSymbol(c, h, sizeof(h)); }}"
    assert [copy.data for copy in symbol_copies(text.encode())] == [struct.pack(f"<{count}i", *numbers, *[0] * more)]


@settings(deadline=None, max_examples=examples(30))
@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(text: bytes) -> None:
    symbol_copies(b"cudaMemcpyToSymbol(c, h, 4); " + text + b" cudaGetSymbolAddress(")


@given(st.one_of(st.builds(Reference, NAMES, st.integers(0, 10**18 - 1)), st.builds(Struct, st.binary(min_size=1))))
def test_values_come_back(value: Reference | Struct) -> None:
    assert parse_value(str(value), "", Path()) == value


@settings(deadline=None, max_examples=examples(30))
@given(st.dictionaries(st.sampled_from(["n", "a::b", "x y", '"', "é"]), st.integers(-5, 5)), st.booleans())
def test_variables_in_launch_files_come_back(values: dict[str, int], fast: bool) -> None:
    given_values = tuple(Argument(name, value) for name, value in values.items())
    with TemporaryDirectory() as folder:
        launch = Launch(Path(folder) / "k.cu", "k", (1, 1, 1), (1, 1, 1), fast_math=fast, globals=given_values)
        path = Path(folder) / "k.toml"
        path.write_text(dump_launches([launch]), encoding="utf-8")
        assert load_launches(path) == (launch,)
