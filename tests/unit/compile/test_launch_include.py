"""Folders of headers in launch files."""

from pathlib import Path

import pytest

from kerncast.compile import CompileRequest, compile_request
from kerncast.errors import LaunchError
from kerncast.launch import load_launches
from tests.helpers.execute_helpers import run
from tests.helpers.launch_files import dump_launches

LAUNCH = '\n[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [32]\nargs = { x = "f32[32] zeros" }\n'


def write(folder: Path, include: str) -> Path:
    (folder / "k.cu").write_text('#include "size.h"\n__global__ void k(float *x) { x[0] = SIZE; }\n', encoding="utf-8")
    path = folder / "k.toml"
    path.write_text(f'source = "k.cu"\n{include}{LAUNCH}', encoding="utf-8")
    return path


def header(folder: Path, size: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "size.h").write_text(f"#define SIZE {size}\n", encoding="utf-8")
    return folder


def test_folders_are_relative_to_the_launch_file(tmp_path: Path) -> None:
    found = header(tmp_path / "a" / "inner", 3), header(tmp_path / "b", 5)
    (launch,) = load_launches(write(tmp_path, 'include = ["a/inner", "b"]'))
    assert launch.include_dirs == found


@pytest.mark.parametrize(("include", "size"), [('["a", "b"]', 3), ('["b", "a"]', 5)])
def test_the_first_folder_that_has_the_header_counts(include: str, size: int, tmp_path: Path) -> None:
    header(tmp_path / "a", 3)
    header(tmp_path / "b", 5)
    (launch,) = load_launches(write(tmp_path, f"include = {include}"))
    request = CompileRequest(launch.source, ("sm_70",), include_dirs=launch.include_dirs)
    assert run(compile_request(request).kernels[0], launch).memory["x"][0] == size


def test_variables_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = header(tmp_path / "elsewhere", 3)
    monkeypatch.setenv("HEADERS", str(folder))
    (launch,) = load_launches(write(tmp_path, 'include = ["${HEADERS}"]'))
    assert launch.include_dirs == (folder,)


def test_none_is_given_where_the_file_names_none(tmp_path: Path) -> None:
    (launch,) = load_launches(write(tmp_path, ""))
    assert launch.include_dirs == ()


@pytest.mark.parametrize("include", ['"a"', "5", "[5]", '[""]', '["a", 1]', "{ a = 1 }", "true", '[["a"]]'])
def test_what_is_no_list_of_folders_is_an_error(include: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"k\.toml: include is not a list of folders\. Write include = "):
        load_launches(write(tmp_path, f"include = {include}"))


@pytest.mark.parametrize(("name", "what"), [("nowhere", "does not exist"), ("k.cu", "is not a folder")])
def test_a_folder_that_is_none_is_an_error(name: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=rf"k\.toml: include folder .*{name} {what}\. Check the path"):
        load_launches(write(tmp_path, f'include = ["{name}"]'))


def test_a_folder_whose_name_no_system_takes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"k\.toml: include folder .* does not exist\. Check the path"):
        load_launches(write(tmp_path, f'include = ["{"9" * 300}"]'))


def test_an_unset_variable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADERS", raising=False)
    with pytest.raises(LaunchError, match="HEADERS"):
        load_launches(write(tmp_path, 'include = ["${HEADERS}"]'))


def test_a_written_launch_file_names_the_same_folders(tmp_path: Path) -> None:
    header(tmp_path / "a", 3)
    header(tmp_path / "project" / "b", 5)
    project = tmp_path / "project"
    launches = load_launches(write(project, 'include = ["../a", "b"]'))
    copy = project / "copy.toml"
    copy.write_text(dump_launches(launches), encoding="utf-8")
    assert 'include = ["../a", "b"]' in copy.read_text(encoding="utf-8")
    assert load_launches(copy)[0].include_dirs == launches[0].include_dirs


@pytest.mark.parametrize("value", [r"3\u0000 more", r"3\n+ 1"])
def test_a_macro_is_one_line(tmp_path: Path, value: str) -> None:
    file = tmp_path / "k.toml"
    file.write_text(
        f'source = "k.cu"\ndefines = {{ N = "{value}" }}\n[[launch]]\ngrid = [1]\nblock = [32]\n', encoding="utf-8"
    )
    with pytest.raises(LaunchError, match="macro N holds a line end or a control character"):
        load_launches(file)
