"""Calls of cudaMemcpyToSymbol in host code: which are found, and whose data the text says."""

import struct

import pytest

from kerncast.compile.source.variables import symbol_copies


def data(declared: str, call: str, before: str = "") -> bytes | None:
    (copy,) = symbol_copies(f"{before}\nvoid f() {{ {declared} {call} }}".encode())
    return copy.data


@pytest.mark.parametrize(
    ("declared", "call", "packed"),
    [
        ("float h[3] = {1, -2.5f, .5};", "cudaMemcpyToSymbol(c, h, sizeof(h));", struct.pack("<3f", 1, -2.5, 0.5)),
        ("double h[3] = {1.};", "cudaMemcpyToSymbol(c, h, sizeof h);", struct.pack("<3d", 1, 0, 0)),
        ("const int h[] = {010, 0x10, 3u,};", "cudaMemcpyToSymbol(c, h, 12, 0);", struct.pack("<3i", 8, 16, 3)),
        ("int n = -7;", "cudaMemcpyToSymbolAsync(c, &n, sizeof(int));", struct.pack("<i", -7)),
        ("static const unsigned long long n = 1ULL;", "CHECK(cudaMemcpyToSymbol(c, (void *)&n, 8));", b"\1" + bytes(7)),
        ("uint8_t h[2][2] = {{1, 2}, {3, 4}};", "cudaMemcpyToSymbol(c, &h[0], 4);", b"\1\2\3\4"),
        ("int h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h, 2 * sizeof(unsigned int));", struct.pack("<2i", 1, 2)),
        ("int h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h, N * sizeof(int));", struct.pack("<2i", 1, 2)),
        ("bool h = true;", "cudaMemcpyToSymbol<bool>(c, &h, 1);", b"\1"),
        ("float h[2] = {1, 2}; use(sizeof(h), sizeof h);", "cudaMemcpyToSymbol(c, h, 8);", struct.pack("<2f", 1, 2)),
    ],
)
def test_literal_data_is_read(declared: str, call: str, packed: bytes) -> None:
    assert data(declared, call) == packed


@pytest.mark.parametrize(
    ("declared", "call"),
    [
        ("float h[2] = {1, 2}; h[0] = 3;", "cudaMemcpyToSymbol(c, h, 8);"),
        ("float h[2] = {1, 2}; fill(h);", "cudaMemcpyToSymbol(c, h, 8);"),
        ("float h[2] = {1, x};", "cudaMemcpyToSymbol(c, h, 8);"),
        ("float h[2];", "cudaMemcpyToSymbol(c, h, 8);"),
        ("float h[N] = {1, 2};", "cudaMemcpyToSymbol(c, h, 8);"),
        ("int h[2][2] = {{1}, {3}};", "cudaMemcpyToSymbol(c, h, 16);"),
        ("int h[1] = {1, 2};", "cudaMemcpyToSymbol(c, h, 4);"),
        ("char h = 300;", "cudaMemcpyToSymbol(c, &h, 1);"),
        ("const Thing h = {1, 2};", "cudaMemcpyToSymbol(c, &h, 8);"),
        ("float h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h, 8, 8);"),
        ("float h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h + 1, 4);"),
        ("float h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h, sizeof(float));"),
        ("float h[2] = {1, 2};", "cudaMemcpyToSymbol(c, h, 4);"),
        ("const float h = 1; { const float h = 2; }", "cudaMemcpyToSymbol(c, &h, 4);"),
        ("float *p = 0;", "cudaMemcpyToSymbol(c, &p, 8);"),
        ("float *p;", "cudaGetSymbolAddress((void **)&p, c);"),
        ("", "cudaMemcpyToSymbol(c, h"),
    ],
)
def test_what_the_text_does_not_say_is_unknown(declared: str, call: str) -> None:
    assert data(declared, call) is None


def test_a_variable_of_the_device_may_have_the_name_of_the_hosts() -> None:
    assert data("const int c[] = {1, 2};", "cudaMemcpyToSymbol(a::c, c, 8);", "__constant__ int c[2];") == struct.pack(
        "<2i", 1, 2
    )


def test_names_and_lines() -> None:
    text = (
        "// cudaMemcpyToSymbol(a, h, 4);\n"
        '/* cudaMemcpyToSymbol(b, h, 4); */ const char *s = "cudaMemcpyToSymbol(d, h, 4)";\n'
        "void f() { cudaMemcpyToSymbol(space :: name, h,\n 4); }\n"
        "cudaMemcpyToSymbol(&other, h, 4); cudaMemcpyToSymbol(); cudaMemcpyToSymbol(f(x), h, 4);"
        " cudaMemcpyFromSymbol(h, third, 4); cudaGetSymbolAddress((void**)&p, fourth);\n"
    )
    found = symbol_copies(text.encode())
    assert [(each.symbol, each.line) for each in found] == [("space::name", 3), ("other", 5), ("fourth", 5)]


@pytest.mark.parametrize("text", [b"", b"Symbol", b"cudaMemcpyToSymbol(", b"cudaMemcpyToSymbol(\xff\xfe, \x80, {{{"])
def test_odd_texts_are_harmless(text: bytes) -> None:
    assert all(each.data is None for each in symbol_copies(text))
