"""Command lines of nvcc: what each option becomes, and that none is lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.hostbuild.nvcc_options import CommandLine, Input, Language, Phase, parse_command_line

CODE = {
    "-DN=4 -D M -DTEXT=a=b": ("defines", (("N", "4"), ("M", "1"), ("TEXT", "a=b"))),
    "--define-macro A=1,B": ("defines", (("A", "1"), ("B", "1"))),
    "-Xcompiler -DHOST=2": ("defines", (("HOST", "2"),)),
    "-UN --undefine-macro=M": ("undefined", ("N", "M")),
    "-I inc -Iown --include-path=a,b": ("include_dirs", (Path("inc"), Path("own"), Path("a"), Path("b"))),
    "-isystem sys -Xcompiler -isystem,more": ("system_include_dirs", (Path("sys"), Path("more"))),
    "-include a.h --pre-include b.h": ("forced_includes", ("a.h", "b.h")),
    "-std=c++14": ("standard", "c++14"),
    "-std c++20": ("standard", "c++20"),
    "-Xcompiler -std=gnu++17": ("standard", "c++17"),
    "-O3": ("optimization", "3"),
    "-O 2": ("optimization", "2"),
    "--optimize=0": ("optimization", "0"),
    "-Xcompiler -Ofast": ("optimization", "fast"),
    "-use_fast_math": ("fast_math", True),
    "--use_fast_math": ("fast_math", True),
    "-Xcompiler -Wall,-fopenmp -Xcompiler=-fPIC": ("host", ("-Wall", "-fopenmp", "-fPIC")),
    "--compiler-options '-a -b'": ("host", ("-a", "-b")),
    "-forward-unknown-to-host-compiler -fvisibility=hidden": ("host", ("-fvisibility=hidden",)),
    "-rdc=true": ("is_relocatable", True),
    "-rdc=false": ("is_relocatable", False),
    "-dc": ("is_relocatable", True),
}


def parsed(text: str) -> CommandLine:
    import shlex

    return parse_command_line([*shlex.split(text), "a.cu"])


@pytest.mark.parametrize("text", CODE)
def test_options_of_code(text: str) -> None:
    name, value = CODE[text]
    assert getattr(parsed(text).code, name) == value


def test_options_of_linking() -> None:
    link = parsed("-L lib -Lmore -lm --library=z -Xlinker -z,now -shared -cudart none").link
    assert link.folders == (Path("lib"), Path("more"))
    assert link.libraries == ("m", "z")
    assert link.words == ("-z", "now")
    assert link.is_shared
    assert not link.has_runtime
    assert parsed("-cudart=shared").link.has_runtime


PHASES = {
    "": Phase.PROGRAM,
    "-c": Phase.OBJECT,
    "-dc": Phase.OBJECT,
    "-lib": Phase.ARCHIVE,
    "-dlink": Phase.DEVICE_LINK,
    "-E": Phase.PREPROCESSED,
    "-cuda": Phase.PREPROCESSED_FILE,
    "-M": Phase.DEPENDENCIES,
    "-MM": Phase.DEPENDENCIES,
    "-MD -c": Phase.OBJECT,
    "-ptx": Phase.DEVICE_CODE,
    "-cubin": Phase.DEVICE_CODE,
}


@pytest.mark.parametrize("text", PHASES)
def test_phases(text: str) -> None:
    assert parsed(text).phase == PHASES[text]


def test_inputs_are_told_apart_by_their_names_or_by_x() -> None:
    line = parse_command_line([*"a.cu b.cpp c.cc d.cxx e.c f.o libg.a libh.so.12".split(), "-x", "cu", "i.cpp", "j.o"])  # noqa: SIM905
    languages = [each.language for each in line.inputs]
    linked = Language.OBJECT
    assert languages == [
        Language.CUDA, Language.CXX, Language.CXX, Language.CXX, Language.C, linked, linked, linked,
        Language.CUDA, linked,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "-g -G -lineinfo -pg -w -keep -v0", "--ptxas-options=-v -Xptxas -O3,-v", "-arch=sm_75 -code sm_75",
        "-gencode arch=compute_70,code=[sm_70,compute_70]", "--generate-code=arch=compute_80,code=sm_80",
        "--extended-lambda --expt-relaxed-constexpr", "-ccbin g++-12 -m64 -t4 --threads 2",
        "-Xcudafe --display_error_number",
        "-diag-suppress 20012,177 -Wno-deprecated-gpu-targets", "-maxrregcount=32 --fmad=false",
    ],
)  # fmt: skip
def test_other_options_change_nothing(text: str) -> None:
    words = [word for word in text.split() if word != "-v0"]
    line = parse_command_line([*words, "a.cu"])
    assert (line.code, line.link) == (parsed("").code, parsed("").link)
    assert line.inputs == (Input(Path("a.cu"), Language.CUDA),)


def test_what_a_run_may_lack_is_remarked() -> None:
    assert parsed("-maxrregcount=32").remarks == ("--maxrregcount has no effect",)
    (remark,) = parsed("-arch=sm_35 -gencode arch=compute_75,code=sm_75").remarks
    assert "sm_35" in remark
    assert "sm_75" not in remark


def test_a_value_may_be_missing_where_a_makefile_leaves_it_out() -> None:
    assert parse_command_line(["a.cu", "-L"]).link.folders == ()
    with pytest.raises(InputError, match="needs a value"):
        parse_command_line(["a.cu", "-o"])


@pytest.mark.parametrize("option", ["-deviceemu", "-fPIC", "--nonsense=1", "-ewhatever", "-Xnothing", "-"])
def test_unknown_options_are_named(option: str) -> None:
    with pytest.raises(InputError, match="does not know") as caught:
        parse_command_line([option, "a.cu"])
    assert option in str(caught.value)


@pytest.mark.parametrize("option", ["-run", "-r", "--ltoir"])
def test_what_cannot_be_made_is_refused(option: str) -> None:
    with pytest.raises(InputError, match="not made here"):
        parse_command_line([option, "a.cu"])


def test_an_unknown_input_is_refused_in_the_words_of_nvcc() -> None:
    with pytest.raises(InputError, match="Don't know what to do with"):
        parse_command_line(["__cmake_determine_cuda"])


def test_files_of_options(tmp_path: Path) -> None:
    file = tmp_path / "options.rsp"
    file.write_text("-DA='1 2'\n-I inc b.cu", encoding="utf-8")
    for words in (["--options-file", str(file)], [f"@{file}"]):
        line = parse_command_line([*words, "a.cu"])
        assert line.code.defines == (("A", "1 2"),)
        assert [each.path.name for each in line.inputs] == ["b.cu", "a.cu"]
    file.write_text(f"@{file}", encoding="utf-8")
    with pytest.raises(InputError, match="one another"):
        parse_command_line([f"@{file}"])


_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0/."), min_size=1, max_size=12)


@given(words=st.lists(_WORDS.filter(lambda word: word[0] not in "-@"), min_size=1, max_size=6), option=_WORDS)
def test_no_input_is_lost_or_takes_effect_as_an_option(words: list[str], option: str) -> None:
    named = [f"{word}.cu" for word in words]
    assert [each.path for each in parse_command_line(named).inputs] == list(map(Path, named))
    with pytest.raises(InputError) as caught:
        parse_command_line([*named, f"--unknown-{option}"])
    assert caught.value.what.endswith(f"--unknown-{option}")


@given(word=_WORDS)
def test_an_unknown_option_is_forwarded_or_refused_whole(word: str) -> None:
    option = f"--unknown-{word}"
    with pytest.raises(InputError) as caught:
        parse_command_line([option, "a.cu"])
    assert option in caught.value.what
    host = parse_command_line(["-forward-unknown-opts", option, "a.cu"]).code.host
    assert option in host
