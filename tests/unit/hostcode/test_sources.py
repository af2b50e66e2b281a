"""A program of several sources, in C too: what one says of another's launches is right, noted, or a question mark."""

import os
from pathlib import Path

import pytest

from kerncast.cli.shared.options import checked_sources
from kerncast.compile import CompileRequest
from kerncast.errors import CompileError, InputError
from kerncast.hostcode import HostLaunch
from kerncast.hostcode.nouns import HostJob
from kerncast.hostcode.task import host_launches
from tests.helpers.host_programs import argument, launches_with, program_of

KERNEL = "#include <stdlib.h>\n__global__ void k(int n) {}\n"
RUN = KERNEL + 'extern "C" void run(int n) { k<<<1, 32>>>(n); }\n'
MAIN = "main(argc, argv) int argc; char **argv; "


def launch_of(text: str, hosts: dict[str, str], folder: Path, argv: str = "3") -> HostLaunch:
    return launches_with(program_of(text, folder, hosts), argv)[0]


@pytest.mark.parametrize(
    ("text", "hosts", "expected"),
    [  # what the programs pass where gcc and g++ 12 compile them; None where that is not stated
        (RUN, {"main.c": "twice(n) { return 2 * n; }\n" + MAIN + "{ run(twice(atoi(argv[1]))); return 0; }"}, 6),
        (RUN, {"main.c": "short half(x) short x; { return x / 2; } main() { run(half(70000)); return 0; }"}, None),
        (RUN, {"main.c": "unsigned char cut(x) { return x; } main() { run(cut(300)); return 0; }"}, 44),
        (
            RUN,
            {"main.c": "int main() { int new = 4, class = 5; { extern void run(int); run(new * class); } return 0; }"},
            20,
        ),
        (
            KERNEL + 'extern "C" { int n = 1; void set(int x) { n = x * 2; } void run() { k<<<1, 32>>>(n); } }',
            {"main.c": MAIN + "{ extern int n; n = 7; set(n + 1); run(); return 0; }"},
            16,
        ),
        (
            KERNEL + "static int n = 4; void run() { k<<<1, 32>>>(n); }",
            {"main.cpp": "static int n = 9; void run(); int main() { n = 11; run(); }"},
            4,
        ),
        (
            KERNEL + 'extern "C" int pick(); extern "C" void run(int m) { k<<<1, 32>>>(pick() * 100 + m); }',
            {
                "a.c": "static int mine() { return 5; } int pick() { return mine(); }",
                "main.c": "static int mine() { return 9; } void run(int); int main() { run(mine()); return 0; }",
            },
            509,
        ),
        (
            KERNEL + 'extern "C" { extern int count, zero; void run() { k<<<1, 32>>>(count * 10 + zero); } }',
            {"main.c": "int count; int zero; int count = 6; int main() { run(); return 0; }"},
            60,
        ),
        (
            KERNEL + "namespace a { extern int n; } namespace b { int n = 3; void run() { k<<<1, 32>>>(a::n); } }",
            {"main.cpp": "namespace a { int n = 5; } namespace b { void run(); } int main() { a::n = 8; b::run(); }"},
            8,
        ),
        (
            KERNEL + "int size(int n) { return n * 2; } int pick(); int main() { k<<<1, 32>>>(pick()); }",
            {"other.cpp": "int size(float); int pick() { return size(4.0f); }"},  # defined in a source that is not read
            None,
        ),
        (
            KERNEL + "int size(int n) { return n * 2; } int size(float n) { return 5; } int pick(); "
            "int main() { k<<<1, 32>>>(pick()); }",
            {"other.cpp": "int size(float); int size(int); int pick() { return size(4.0f) * 100 + size(4); }"},
            508,
        ),
        (
            KERNEL + '#include "opt.h"\nextern "C" void run(Opt *o) { k<<<1, 32>>>(o->n * 10 + o->m); }',
            {
                "opt.h": "typedef struct Opt { int n, m; } Opt;",
                "main.c": '#include <unistd.h>\n#include "opt.h"\nvoid run(Opt *); int atoi(const char *);\n'
                "int main(int argc, char **argv) { int c; Opt o = {.m = 4}; "
                "while ((c = getopt(argc, argv, \"n:\")) != -1) if (c == 'n') o.n = atoi(optarg); o.m = 5; run(&o); }",
            },
            None,
        ),
        (RUN, {"main.c": "struct S { u_char a, b; short c; }; main() { run(sizeof(struct S)); return 0; }"}, None),
        (RUN, {"main.c": "main() { run(sizeof(u_int16_t)); return 0; }"}, None),
        (RUN, {"main.c": "main() { u_int16_t x = 70000; run(x); return 0; }"}, None),
        (RUN, {"main.c": "main() { run(sizeof(int) - 5 > 0 ? 5 : 6); return 0; }"}, 5),
        (
            KERNEL + 'extern "C" int even(int n); extern "C" int odd(int n) { return n == 0 ? 0 : even(n - 1); } '
            'extern "C" void run(int n) { k<<<1, 32>>>(odd(n)); }',
            {"main.c": "int even(int n) { return n == 0 ? 1 : odd(n - 1); } int main() { run(5); return 0; }"},
            1,
        ),
        (
            KERNEL
            + 'extern "C" int back(int n); extern "C" void run(int n) { if (n > 0) { k<<<1, 32>>>(n); back(n - 1); } }',
            {"main.c": "int back(int n) { run(n); return n; } int main() { return 0; }"},
            None,
        ),
    ],
)
def test_a_value_of_another_source_is_right_or_unknown(
    text: str, hosts: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    value = argument(launch_of(text, hosts, tmp_path), "n")
    assert value.value == expected
    assert value.notes == ()
    assert (value.reason is None) is (expected is not None)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("int n = 5; void set(); int main() { set(); k<<<1, 32>>>(n); }", "set(…) at k.cu:3 is not known"),
        ("int n = 5; void set(); void f() { set(); } int main() { n = 5; f(); k<<<1, 32>>>(n); }", "set(…) at k.cu:3"),
        ("int n = 5; void run() { k<<<1, 32>>>(n); }", "n is taken not to change in sources that are not read"),
        ("static int n = 5; void set(); int main() { set(); k<<<1, 32>>>(n); }", ""),
        ("extern const int n = 5; void set(); int main() { set(); k<<<1, 32>>>(n); }", ""),
        ("int n = 5; void set(); int main() { k<<<1, 32>>>(n); set(); }", ""),
    ],
)
def test_what_a_source_that_is_not_read_may_change_is_noted(text: str, note: str, tmp_path: Path) -> None:
    value = argument(launch_of(KERNEL + text, {}, tmp_path), "n")
    assert value.value == 5
    assert note in " ".join(value.notes)
    assert bool(note) is bool(value.notes)


def read(source: Path, *hosts: Path) -> list[str]:
    job = HostJob(CompileRequest(source, ()), None, tuple((host, ()) for host in hosts))
    return [each.kernel for each in host_launches(job).launches]


def test_two_mains_are_no_program(tmp_path: Path) -> None:
    for name in ("a.c", "b.cpp"):
        (tmp_path / name).write_text("int main() { return 0; }")
    (tmp_path / "k.cu").write_text(RUN + "struct S { int main() { return 1; } };")
    with pytest.raises(
        CompileError, match=r"a\.c and b\.cpp: each of them defines main. Name the sources of one program."
    ):
        read(tmp_path / "k.cu", tmp_path / "a.c", tmp_path / "b.cpp")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("self.c", b'#include "self.c"\nint main() { run(3); }'),
        ("self.cpp", b'#include "self.cpp"\nvoid run(int); int main() { run(3); }'),
        ("data.c", bytes(range(256)) * 40),
        ("data.cpp", bytes(range(256)) * 40),
        ("empty.c", b""),
        ("open.c", b"int main() { return 0; /*\n#if 1\n"),
        ("deep.c", b"int main() { return " + b"(" * 3000 + b"1" + b")" * 3000 + b"; }"),
        ("latin.c", "int größe; int main() { return größe; }".encode("latin-1")),
    ],
)
def test_sources_that_are_none_change_nothing(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "k.cu").write_text(RUN)
    assert read(tmp_path / "k.cu", tmp_path / name) == ["k"]


def denied(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_sources_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "k.cu"
    source.write_text(RUN)
    os.mkfifo(tmp_path / "fifo.c")
    (tmp_path / "loop.c").symlink_to(tmp_path / "loop.c")
    for name, message in (
        ("", "it is a folder"),
        ("fifo.c", "it is a pipe"),
        ("loop.c", "Too many levels of symbolic links"),
        ("none.c", "no such file"),
    ):
        with pytest.raises(InputError, match=rf"--host .*: cannot be read \({message}\)") as raised:
            checked_sources(source, (tmp_path / name,))
        assert raised.value.exit_status == 2
    secret = tmp_path / "secret.c"
    secret.write_text("")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", denied)
        with pytest.raises(InputError, match=r"--host .*: cannot be read \(Permission denied\)"):
            checked_sources(source, (secret,))
    with pytest.raises(InputError, match="33 times"):
        checked_sources(source, (source,) * 33)
    assert checked_sources(source, (source, tmp_path / "." / "k.cu")) == ()


def test_qualifiers_of_parameters_are_no_part_of_the_linked_name(tmp_path: Path) -> None:
    text = KERNEL + "void run(int n, float *x) { k<<<1, 32>>>(n); }\n"
    hosts = {"main.cpp": "void run(const int n, float *__restrict__ x);\nint main() { run(7, 0); }\n"}
    assert argument(launch_of(text, hosts, tmp_path), "n").value == 7
    overload = {"main.cpp": "void run(long n, float *x);\nint main() { run(7, 0); }\n"}
    assert argument(launch_of(text, overload, tmp_path), "n").value is None
