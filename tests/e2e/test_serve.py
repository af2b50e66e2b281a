"""The page of kerncast serve, as people use it in a browser; one server for all tests."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerncast.machine.listing import disassembler
from kerncast.requirements import is_importable
from tests.helpers.browser import NARROW, WIDE, Seen, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.skipif(not is_importable("nicegui"), reason="NiceGUI is not installed (extra web)"),
    pytest.mark.skipif(sys.platform != "linux", reason="kerncast serve needs Linux"),
]

#: A machine that tests share needs a minute for what takes a second.
_PATIENCE_MS = 150_000
_COPY = "__global__ void copy(const float *x, float *y)\n{\n    y[threadIdx.x] = x[threadIdx.x];\n}\n"
_WRONG = "__global__ void copy(float *x)\n{\n    x[threadIdx.x] = missing;\n}\n"
#: Two kernels, of which one needs a macro and a header of a folder that the command line names.
_TWO = (
    '#include "factor.h"\n__global__ void scale(float *x) { x[threadIdx.x] *= FACTOR * TWICE; }\n'
    "__global__ void add(float *x) { x[threadIdx.x] += 1.0f; }\n"
)
_ENDLESS = "__global__ void spin(volatile int *x)\n{\n    while (x[0] == 0) {}\n}\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the page, and return the address of a small example on one GPU."""
    headers = tmp_path_factory.mktemp("headers")
    (headers / "factor.h").write_text("#define FACTOR 2.0f\n", encoding="utf-8")
    command = [sys.executable, "-m", "kerncast", "serve", "--port", "0", "--no-browser", "--include", str(headers)]
    folder = tmp_path_factory.mktemp("serve")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield f"{server.stdout.readline().strip()}?example=vector_add&gpu=t4"
        server.terminate()
    assert list(folder.iterdir()) == []  # nothing of what users wrote stays on disk


def opened(browser: "Browser", address: str, width: int = WIDE) -> Seen:
    seen = open_page(browser, address, width)
    seen.page.set_default_timeout(_PATIENCE_MS)
    seen.page.wait_for_selector(".kc-row")
    return seen


def write(page: "Page", source: str) -> None:
    page.locator(".cm-content").first.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(source)


def written(page: "Page") -> str:
    return "\n".join(page.locator(".cm-line").all_inner_texts()).replace("\u200b", "")


def wait_for(page: "Page", text: str) -> None:
    page.locator(".kc-answer").filter(has_text=re.compile(text)).first.wait_for()


def test_the_page_shows_a_forecast_and_what_is_behind_it(browser: "Browser", address: str) -> None:
    seen = opened(browser, address)
    for part in (".kc-cost", ".kc-part", ".kc-warps", ".kc-lines", ".kc-picture svg"):
        seen.page.locator(part).first.wait_for()
    assert "vector_add" in seen.page.locator(".kc-verdict").inner_text()
    for width in (WIDE, NARROW):
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.overflow == 0
        assert [each for each in seen.cut if "kc-" in each] == []
    ink = "getComputedStyle(document.querySelector('.cm-editor')).color"
    light = seen.page.evaluate(ink)
    seen.page.emulate_media(color_scheme="dark")  # the editor follows, too
    seen.page.wait_for_function(f"(light) => {ink} !== light", arg=light)
    assert seen.messages == []
    assert {each.split("/")[2] for each in seen.hosts} == {address.split("/")[2]}


def test_an_edit_an_error_at_its_line_and_a_reload(browser: "Browser", address: str) -> None:
    page = opened(browser, address).page
    write(page, _WRONG)
    line = page.locator(".cm-line.kc-error")
    line.wait_for()
    assert "missing" in line.inner_text()
    assert line.get_attribute("data-error") == 'identifier "missing" is undefined'
    write(page, _COPY)
    wait_for(page, "^copy takes ")
    assert page.locator(".kc-error").count() == 0
    # The page's own choice for a parameter that nobody has given a value.
    page.get_by_label("y: float * (our choice)").wait_for()
    page.get_by_label("Block (threads)").fill("2048")
    page.locator(".kc-problem", has_text="1024").wait_for()
    page.get_by_label("Block (threads)").fill("64")
    wait_for(page, "^copy takes ")
    page.reload()
    wait_for(page, "^copy takes ")
    assert written(page).strip() == _COPY.strip()
    assert page.get_by_label("Block (threads)").input_value() == "64"


def test_a_user_with_an_endless_loop_is_told_so_and_stops_nobody(browser: "Browser", address: str) -> None:
    one, other = (opened(browser, address).page for _ in range(2))
    write(one, _ENDLESS)
    write(other, _COPY)
    wait_for(other, "^copy takes ")
    wait_for(one, "did not end within .*an endless loop")
    assert one.locator(".cm-line.kc-error").inner_text().strip().startswith("while")
    assert written(one).strip() == _ENDLESS.strip()
    assert written(other).strip() == _COPY.strip()


def test_two_versions_are_compared_and_a_gpu_is_imagined(browser: "Browser", address: str) -> None:
    page = opened(browser, address).page
    page.get_by_text("Compare two versions").click()
    page.locator(".kc-pair", has_text="equally fast").wait_for()
    page.get_by_text("What if", exact=True).click()
    page.get_by_label("DRAM bandwidth").locator("[tabindex='0']").press("ArrowRight")
    page.locator(".kc-pair", has_text="T4 with").wait_for()
    page.get_by_text("More values").click()
    page.get_by_label("Latency of DRAM").locator("[tabindex='0']").press("ArrowRight")
    page.locator(".kc-pair", has_text="Latency of DRAM").wait_for()


def test_macros_headers_launches_and_times_are_asked_and_shared(
    browser: "Browser", address: str, tmp_path: Path
) -> None:
    page = opened(browser, address).page
    write(page, _TWO)
    page.locator(".kc-problem", has_text="TWICE").wait_for()
    page.get_by_label("Macros (-D)").fill("TWICE=2.0f")
    page.get_by_label("Block (threads)").fill("64")
    wait_for(page, "^scale takes ")
    page.get_by_role("button", name="Add a launch").click()
    page.get_by_label("Kernel", exact=True).fill("add")
    page.locator(".kc-launches", has_text=re.compile("scale.*add.*Together", re.DOTALL)).wait_for()
    page.get_by_label("Measured times").fill("/etc/passwd=1us")
    page.locator(".kc-problem", has_text="is not a GPU and its time").wait_for()
    page.get_by_label("Measured times").fill("V100=30us")
    wait_for(page, "^add takes ")
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as download:
        page.get_by_text("Launch file and source").click()
    assert download.value.suggested_filename == "kerncast.zip"
    with zipfile.ZipFile(download.value.path()) as found:
        found.extractall(tmp_path)
    # The command that the archive names, as somebody runs it who has got it.
    command = shlex.split((tmp_path / "README.txt").read_text())
    assert command[0] == "kerncast"
    told = subprocess.run(
        [sys.executable, "-m", *command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert [each["kernel"] for each in answer["predictions"]] == ["scale", "add"]
    assert "V100" in command[-1]


def test_the_instructions_of_a_line_are_beside_it(browser: "Browser", address: str) -> None:
    page = opened(browser, address).page
    line = page.locator(".kc-lines tr", has_text="+").first
    line.locator(".kc-code summary").click()
    assert "ld.global" in line.locator("pre").first.inner_text()
    if disassembler() is not None:
        assert "LDG" in line.locator("pre").nth(1).inner_text()


def status_of(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_without_token_or_from_another_name_there_is_nothing(address: str) -> None:
    page = address.partition("?")[0]
    root = page[: page.index("/", 8) + 1]
    assert status_of(page) == 200
    assert status_of(root) == 403
    assert status_of(f"{root}_nicegui_ws/socket.io/?EIO=4&transport=polling") == 403
    assert status_of(page, Host="rebound.example") == 403
    assert status_of(page, Origin="http://other.example") == 403
    assert status_of(page.rstrip("/")[:-1] + "/") == 403


def test_without_the_extra_the_cure_is_named(tmp_path: Path) -> None:
    hidden = f"import sys; sys.modules['nicegui'] = None; sys.path.insert(0, {str(Path.cwd())!r})"
    code = f"{hidden}; from kerncast.cli import main; main(['serve', '--no-browser'])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "kerncast[web]" in ended.stderr


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    import socket

    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "kerncast", "serve", "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--port" in ended.stderr
    assert json.dumps(ended.stdout) == '""'
