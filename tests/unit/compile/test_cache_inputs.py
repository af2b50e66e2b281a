"""What a compilation reads: names of headers in a text, and the places where they could be."""

import os
from pathlib import Path

import pytest

from kerncast.compile import CompileRequest
from kerncast.compile.cache.remembered import Inputs, UnknowableError, header_names
from kerncast.compile.headers import header_folders


@pytest.mark.parametrize(
    "text",
    [
        '#include "a.h"', "#include <a.h>", '  #\tinclude"a.h"', '%:include "a.h"', '#include_next "a.h"',
        '#import "a.h"', '#inc\\\nlude "a.\\\r\nh"', '#inc\\  \nlude "a.h"', '/* x */ #include "a.h"',
        '// #include "a.h"', '#if 0\n#include "a.h"\n#endif', '#if __has_include("a.h")', "#if __has_include( <a.h> )",
        'R"(\n#include "a.h"\n)"', '#include "a.h" // #include MACRO', "\v#\finclude\v<a.h>",
        '\xef\xbb\xbf#include "a.h"',
    ],
)  # fmt: skip
def test_a_name_is_found_however_it_is_written(text: str) -> None:
    assert header_names(text.encode("latin-1")) == {"a.h"}


@pytest.mark.parametrize(
    "text",
    [
        "#include NAME", "# include MACRO(x, y)", "/* x */ #include NAME", "#include /* x */ <a.h>",
        '#/* x */include "a.h"',
        "#if __has_include(NAME)", "#define ask __has_include", "#define ask(x) __has_include(x)", '??=include "a.h"',
        "const char *t = __TIME__;", "__DA\\\nTE__", "/*\n" + "x" * 500 + "*/ #include NAME", "// \\ \n#include NAME",
        'asm(".incbin x");',
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    with pytest.raises(UnknowableError):
        header_names(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "", "/* write #include first */", "int include;", "#define S(x) #x", "#ifdef __has_include\n#endif",
        "#if defined(__has_include) && defined __has_include", "#pragma unroll", "#include_dirs", 'f("#include NAME");',
    ],
)  # fmt: skip
def test_what_includes_nothing(text: str) -> None:
    assert header_names(text.encode()) == set()


def test_names_of_a_hostile_text_are_found_in_no_time() -> None:
    for text in (b"#" * 10**6, b"# /" * 10**6, b'#include "' * 10**5, b"/*" * 10**6 + b"#include", b"\\\n" * 10**6):
        try:
            header_names(text)
        except UnknowableError:
            continue


def request(folder: Path, *include_dirs: str) -> CompileRequest:
    return CompileRequest(folder / "k.cu", ("sm_70",), include_dirs=tuple(folder / each for each in include_dirs))


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


TREE = {
    "k.cu": '#include "a.h"\n#include <nothing.h>\n',
    "inc/a.h": '#include "deep/b.h"\n',
    "inc/deep/b.h": "int b;\n",
}


@pytest.mark.parametrize(
    "changes",
    [
        {"k.cu": TREE["k.cu"] + " "},
        {"inc/a.h": TREE["inc/a.h"] + " "},
        {"inc/deep/b.h": "int c;\n"},
        {"a.h": TREE["inc/a.h"]},
        {"b.h": "", "inc/deep/deep/b.h": ""},
        {"deep/b.h": "int b;\n"},
        {"nothing.h": ""},
        {"inc/nothing.h": ""},
        {"cuda_fp16.h": ""},
        {"inc/nv/target": ""},
        {"inc/cuda/std/cstdint": ""},
        {"cstdint": ""},
    ],
    ids=str,
)
def test_a_change_that_could_matter_changes_the_digest(tmp_path: Path, changes: dict[str, str]) -> None:
    lay(tmp_path, TREE)
    before = Inputs(request(tmp_path, "inc"))
    assert [Path(file).name for file in before.files] == ["k.cu", "a.h", "b.h"]
    lay(tmp_path, changes)
    assert Inputs(request(tmp_path, "inc")).digest != before.digest
    for name in changes.keys() - TREE.keys():
        (tmp_path / name).unlink()
    lay(tmp_path, TREE)
    assert Inputs(request(tmp_path, "inc")).digest == before.digest


def test_a_change_that_cannot_matter_does_not(tmp_path: Path) -> None:
    lay(tmp_path, TREE)
    before = Inputs(request(tmp_path, "inc")).digest
    lay(tmp_path, {"out.json": "{}", "other.cu": "int x;", "inc/other.h": "", "cuda/mine.h": "", "elsewhere/a.h": ""})
    assert Inputs(request(tmp_path, "inc")).digest == before


def test_the_order_of_folders_is_told_by_the_key_and_links_by_the_digest(tmp_path: Path) -> None:
    lay(tmp_path, {"k.cu": '#include "a.h"\n', "one/a.h": "1", "two/a.h": "1"})
    (tmp_path / "inc").symlink_to("one")
    before = Inputs(request(tmp_path, "inc")).digest
    (tmp_path / "inc").unlink()
    (tmp_path / "inc").symlink_to("two")
    assert Inputs(request(tmp_path, "inc")).digest != before


def test_headers_that_include_one_another_for_ever(tmp_path: Path) -> None:
    lay(tmp_path, {"k.cu": '#include "sub/a.h"\n', "sub/a.h": '#include "../sub/a.h"\n#include "../k.cu"\n'})
    assert len(Inputs(request(tmp_path)).files) < 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    lay(tmp_path, {"k.cu": '#include "pipe.h"\n'})
    os.mkfifo(tmp_path / "pipe.h")
    with pytest.raises(UnknowableError):
        Inputs(request(tmp_path))


def test_too_many_places_are_not_looked_at(tmp_path: Path) -> None:
    lay(tmp_path, {"k.cu": "".join(f'#include "d{number}/x.h"\n' for number in range(60_000))})
    with pytest.raises(UnknowableError):
        Inputs(request(tmp_path))


def test_a_folder_of_a_wheel_may_be_named(tmp_path: Path) -> None:
    lay(tmp_path, {"k.cu": "int x;\n"})
    inputs = Inputs(CompileRequest(tmp_path / "k.cu", ("sm_70",), include_dirs=(header_folders()[0],)))
    assert inputs.files == (str(tmp_path / "k.cu"),)


@pytest.mark.parametrize(
    ("definitions", "file"),
    [
        ("#define AT(name) <deep/name>", "deep/a.h"),
        ('#define AT(n) "n"\n#define AT(n) <deep/n>', "deep/a.h"),
        ("#define AT(n) <deep/n.h>", "deep/a.h.h"),
    ],
)
def test_a_macro_that_makes_a_name_is_followed(tmp_path: Path, definitions: str, file: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / file).write_text("int x;")
    (tmp_path / "k.h").write_text(definitions)
    (tmp_path / "k.cu").write_text('#include "k.h"\n#include AT(a.h) // made\n')
    found = Inputs(CompileRequest(tmp_path / "k.cu", ("sm_70",))).files
    assert [str(tmp_path / name) for name in ("k.cu", "k.h", file)] == sorted(found, key=lambda name: "deep" in name)


@pytest.mark.parametrize(
    "definitions", ["", "#define AT(n) PATH(n)", "#define AT ANOTHER", "#define AT(n) <n>\n#define AT(n) X"]
)
def test_a_macro_that_makes_something_else_is_not_guessed(tmp_path: Path, definitions: str) -> None:
    (tmp_path / "k.cu").write_text(f"{definitions}\n#include AT(a.h)\n")
    with pytest.raises(UnknowableError):
        Inputs(CompileRequest(tmp_path / "k.cu", ("sm_70",)))


def test_a_macro_of_the_command_line_makes_no_name(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("#ifndef AT\n#define AT(n) <n>\n#endif\n#include AT(a.h)\n")
    with pytest.raises(UnknowableError):
        Inputs(CompileRequest(tmp_path / "k.cu", ("sm_70",), defines=(("AT(n)", "<b/n>"),)))
