"""Launches in the text of a source: what C++ makes a constant is stated, and nothing else is."""

from pathlib import Path

import pytest

from kerncast.compile.nouns import WrittenLaunch
from kerncast.compile.source.parsing import ParseOptions
from kerncast.compile.source.written_launches import written_launches

KERNELS = """#include <cstdio>
#define TILE 16
constexpr int N = 1000;
const unsigned WIDE = 4 * TILE;
enum { SIX = 6 };
__global__ void k(int n) {}
"""


def launches(text: str, folder: Path, *defines: tuple[str, str]) -> tuple[WrittenLaunch, ...]:
    """Return the launches of a source behind the lines above."""
    source = (KERNELS + text).encode()
    path = folder / "k.cu"
    path.write_bytes(source)
    return written_launches(ParseOptions(80, "c++17", defines, (folder,)), {str(path): source})


def geometry(body: str, folder: Path) -> tuple[tuple[int | None, ...], ...]:
    """Return the extents of the only launch of a function."""
    (found,) = launches(f"void run(int n, dim3 given) {{ {body} }}\n", folder)
    return found.grid.extents, found.block.extents, found.shared_bytes.extents


@pytest.mark.parametrize(
    ("body", "grid", "block", "shared"),
    [
        ("k<<<1024, 256>>>(n);", (1024,), (256,), 0),
        ("k<<<0x10, 010u, 48>>>(n);", (16,), (8,), 48),
        ("k<<<dim3(4, 2), dim3{8, 8, 2}, 0, stream>>>(undeclared);", (4, 2), (8, 8, 2), 0),
        ("k<<<(N + 255) / 256, WIDE, TILE * sizeof(float)>>>(n);", (4,), (64,), 64),
        ("k<<<SIX, TILE>>>(n);", (6,), (16,), 0),
        ("const int b = 32; k<<<1, b>>>(n);", (1,), (32,), 0),
        ("dim3 g(TILE, 2 * TILE), b(TILE, TILE, 1); k<<<g, b>>>(n);", (16, 32), (16, 16), 0),
        ("dim3 g = dim3(3, 5); dim3 b{32, 4}; k<<<g, b>>>(n);", (3, 5), (32, 4), 0),
        ('dim3 g(3); printf("%d", g.x); if (g.x == 3) k<<<g, 1>>>(n);', (3,), (1,), 0),
        ("const dim3 g(7, 7); use(g); k<<<g, 1>>>(n);", (7, 7), (1,), 0),
        ("for (int i = 0; i < n; i++) { dim3 b(8, 8); k<<<9, b>>>(i); }", (9,), (8, 8), 0),
        ("auto f = [&] { k<<<2, 32>>>(1); };", (2,), (32,), 0),
        ("dim3 g; k<<<g, 4>>>(n);", (1,), (4,), 0),
        ("k << <5, 32> >> (n);", (5,), (32,), 0),
        ("k<<<\n  12,  // blocks\n  64 /* threads */>>>(n);", (12,), (64,), 0),
        ("std::vector<int> v(n); unknown(v, k); k<<<3, 4>>>(v[0]);", (3,), (4,), 0),
    ],
)
def test_constants_of_the_text(
    tmp_path: Path, body: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int
) -> None:
    assert geometry(body, tmp_path) == (grid, block, (shared,))


@pytest.mark.parametrize(
    "body",
    [
        "k<<<n, 32>>>(n);",
        "k<<<(n + 31) / 32, 32>>>(n);",
        "int g = 4; k<<<g, 32>>>(n);",
        "k<<<given, 32>>>(n);",
        "k<<<unknown, 32>>>(n);",
        "k<<<unknown(3), 32>>>(n);",
        "dim3 g; choose(g); k<<<g, 32>>>(n);",
        "dim3 g(4); { dim3 g(3); g.x = 2; } k<<<g, 32>>>(n);",
        "dim3 g(3); g.x = n; k<<<g, 32>>>(n);",
        "dim3 g(3); g.x += 1; k<<<g, 32>>>(n);",
        "dim3 g(3); ++g.x; k<<<g, 32>>>(n);",
        "dim3 g(3); g = given; k<<<g, 32>>>(n);",
        "dim3 g(3); set(&g); k<<<g, 32>>>(n);",
        "dim3 g(3); set(g); k<<<g, 32>>>(n);",
        "dim3 g(3); g.x = undeclared; k<<<g, 32>>>(n);",
        "for (dim3 g(1); g.x < 9; g.x *= 2) k<<<g, 32>>>(n);",
        "dim3 *g = &given; k<<<*g, 32>>>(n);",
    ],
)
def test_what_may_change_is_left_open(tmp_path: Path, body: str) -> None:
    assert geometry(body, tmp_path) == ((None,), (32,), (0,))


def test_a_part_of_a_dim3_may_be_open(tmp_path: Path) -> None:
    assert geometry("dim3 g((n + 15) / 16, 4); k<<<g, TILE>>>(n);", tmp_path)[0] == (None, 4)


def test_commas_in_angle_brackets_leave_all_open(tmp_path: Path) -> None:
    assert geometry("k<<<least<int, 3>(n), 256>>>(n);", tmp_path) == ((None,), (None,), (None,))


def test_names_have_the_scopes_of_cpp(tmp_path: Path) -> None:
    text = (
        "void a() { dim3 b(8, 8); k<<<1, b>>>(0); }\nvoid c() { { dim3 b(32); k<<<1, b>>>(0); } }\n"
        "struct S { static const int M = 3; void f() { k<<<M, 1>>>(0); } };\n"
        "namespace x { void g() { k<<<N, 1>>>(0); } }\n"
    )
    found = launches(text, tmp_path)
    assert [each.block.extents for each in found] == [(8, 8), (32,), (1,), (1,)]
    assert [each.grid.extents for each in found[2:]] == [(3,), (1000,)]
    assert [each.place for each in found] == [f"k.cu:{7 + line}" for line in range(4)]


def test_macros_that_are_given(tmp_path: Path) -> None:
    (found,) = launches("void f() { k<<<BLOCKS, 32>>>(0); }\n", tmp_path, ("BLOCKS", "12"))
    assert found.grid.extents == (12,)


def test_what_is_no_launch(tmp_path: Path) -> None:
    text = """// k<<<1, 1>>>(0);
/* k<<<1, 1>>>(0); */
const char *words = "k<<<1, 1>>>(0)";
#define LAUNCH k<<<1, 1>>>(0)
#if 0
void f() { k<<<1, 1>>>(0); }
#endif
template <class T> T &operator<<<T>(T &, int);
void g() { std::cout << "a" << (1 << 2); }
"""
    assert launches(text, tmp_path) == ()


def test_templates(tmp_path: Path) -> None:
    text = """template <class T, int B> __global__ void t(T *x) {}
template <int Q> void run() {
  const int local = 64;
  t<float, local><<<Q, local>>>(nullptr);
  t<float4, TILE><<<1, 2>>>(nullptr);
}
namespace n { void f() { ::t<unsigned long, 4><<<1, 2>>>(nullptr); t<float, N> <<<1, 2>>>(pass(1, 2), (3, 4)); } }
"""
    found = launches(text, tmp_path)
    assert [(each.written, each.template, each.is_instance) for each in found] == [
        ("t", "float, local", False), ("t", "float4, TILE", True), ("::t", "unsigned long, 4", True),
        ("t", "float, N", True),
    ]  # fmt: skip
    assert (found[0].grid.extents, found[0].block.extents) == ((None,), (64,))
    assert found[3].arguments == ("pass(1, 2)", "(3, 4)")


def test_headers_of_the_source_are_read(tmp_path: Path) -> None:
    (tmp_path / "run.h").write_bytes(b"static const int rows = 24;\ninline void run() { k<<<rows, 32>>>(1); }\n")
    source = tmp_path / "k.cu"
    source.write_bytes(b'__global__ void k(int n) {}\n#include "run.h"\nint main() { k<<<2 * rows, 1>>>(2); }\n')
    texts = {str(each): each.read_bytes() for each in (source, tmp_path / "run.h")}
    found = written_launches(ParseOptions(80, "c++17", (), (tmp_path,)), texts)
    assert [(each.place, each.grid.extents) for each in found] == [("k.cu:3", (48,)), ("run.h:2", (24,))]


@pytest.mark.parametrize(
    "text",
    [
        "int main() { k<<<1, 1>>>((((",
        "int main() { k<<<1, 1",
        "int main() { k<<<",
        "<<<1, 1>>>(1)",
        "int main() { (k)<<<1, 1>>>(1); }",
        "<" * 5000,
        "k" + "<<<1" * 2000,
        "int main() { k<<<1, 1>>>" + "(" * 9000,
    ],
)
def test_text_that_is_no_cpp(tmp_path: Path, text: str) -> None:
    assert launches(text, tmp_path) == ()


def test_errors_elsewhere_change_nothing(tmp_path: Path) -> None:
    (found,) = launches("int broken( {\nnonsense nonsense;\nvoid f() { k<<<3, 4>>>(1); }\n\xff", tmp_path)
    assert (found.grid.extents, found.block.extents) == ((3,), (4,))
