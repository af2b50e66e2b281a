"""kerncast gpus --add: the file that a user completes."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.bench import cuda
from kerncast.cli import main
from kerncast.gpu import GPU, Status, list_gpus, list_incomplete, load_architecture, load_gpu, load_incomplete, rules
from kerncast.measurements import Machine
from kerncast.models.missing_facts import missing_facts
from kerncast.report.files.gpus import Basis, skeleton, to_give
from tests.helpers.places import ROOT

#: A GeForce RTX 5060 Ti as its driver might state it; the numbers are made up.
MACHINE = Machine(
    gpu_name="NVIDIA GeForce RTX 5060 Ti", gpu_uuid="GPU-0", compute_capability="12.0", sm_count=36,
    memory_bytes=16 * 2**30, l2_bytes=32 * 2**20, clock_max_hz=3.09e9, memory_clock_hz=14.001e9, memory_bus_bits=128,
    power_limit_w=180.0, ecc_enabled=False, mig_enabled=None, driver="580.1, CUDA 13.0", compiler="NVRTC 12.9",
    host="a computer", software="kerncast",
)  # fmt: skip


class FakeDevice:
    """A GPU that only says what it is."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["gpus", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- the text -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_a_copy_of_a_shipped_gpu_is_the_same_gpu(gpu: GPU, tmp_path: Path) -> None:
    path = tmp_path / f"{gpu.id}.toml"
    path.write_text(skeleton(Basis(gpu.name, load_architecture(gpu.architecture.id), gpu.facts), path.name), "utf-8")
    copy = load_gpu(path)
    # What is unknown of the data sheet is left out; what replaces the architecture's stays, unknown or not.
    known = tuple(f for f in gpu.facts if f.value is not None or f.key.startswith(("lanes.", "cycles.")))
    assert replace(copy, facts=()) == replace(gpu, facts=())
    assert copy.facts == known
    assert missing_facts(copy) == missing_facts(gpu)


@pytest.mark.parametrize("architecture", ["sm_35", "sm_70", "sm_89", "sm_121"])
def test_every_key_that_models_read_is_explained_once(architecture: str) -> None:
    text = skeleton(Basis("Mine", load_architecture(architecture)), "mine.toml")
    for rule in rules("gpu").values():
        name = rule.key.partition(".")[2]
        section = text.partition(f"[{rule.key.partition('.')[0]}]\n")[2].partition("\n[")[0]
        is_for_models = rule.field is not None or not rule.key.startswith("sustained.")
        assert section.count(f"\n# {name} = ") == is_for_models, rule.key
        assert (f"\n# {rule.meaning}" in section) == is_for_models
    assert max(map(len, text.splitlines())) <= 120
    assert text.count("every model needs it") == sum(rule.required for rule in rules("gpu").values()) == 3


def test_what_a_model_needs_depends_on_the_architecture() -> None:
    discrete = skeleton(Basis("Mine", load_architecture("sm_89")), "mine.toml")
    shared = skeleton(Basis("Mine", load_architecture("sm_72")), "mine.toml")
    assert "# width of the DRAM interface, in bit; simulation and ceilings need it" in discrete
    assert "# L2 read bandwidth, all SMs together, in GB/s\n" in discrete
    assert "# L2 read bandwidth, all SMs together, in GB/s; simulation and ceilings need it" in shared


def test_what_is_commented_out_becomes_a_gpu_when_it_is_taken_over(tmp_path: Path) -> None:
    """The examples are the similar GPU's own values: without their # they are that GPU."""
    like = load_gpu("rtx-4070")
    text = skeleton(Basis("Mine", load_architecture("sm_89"), (), like), "mine.toml")
    path = tmp_path / "mine.toml"
    path.write_text(
        "\n".join(line.removeprefix("# ") if "  # RTX 4070" in line else line for line in text.splitlines())
    )
    mine = load_gpu(path)
    assert replace(mine, id="", name="", facts=()) == replace(like, id="", name="", facts=())


def test_names_and_sources_are_quoted(tmp_path: Path) -> None:
    name = 'A "card" \\ with ä and 芯'
    path = tmp_path / "mine.toml"
    path.write_text(skeleton(Basis(name, load_architecture("sm_89"), load_gpu("t4").facts), path.name), "utf-8")
    table = tomllib.loads(path.read_text("utf-8"))
    assert table["name"] == name
    assert set(table["sources"].values()) == {s for f in load_gpu("t4").facts if f.value is not None for s in f.sources}


def test_an_incomplete_gpu_asks_for_what_is_unknown() -> None:
    for gpu in list_incomplete():
        basis = Basis(gpu.name, gpu.architecture, gpu.facts)
        assert to_give(basis) == gpu.lacks
        assert [key for key in gpu.lacks if f"# {key.partition('.')[2]} = " in skeleton(basis, "x.toml")] == [
            key for key in gpu.lacks if key.startswith("peak.")
        ]


def test_the_h20_can_be_completed(tmp_path: Path) -> None:
    h20 = load_incomplete("h20")
    text = skeleton(Basis(h20.name, h20.architecture, h20.facts), "h20.toml")
    known = [line for line in text.splitlines() if not line.startswith(("fp32_gflops", "fp64_gflops"))]
    completed = "\n".join(known).replace("# clock_boost_mhz = ?", "clock_boost_mhz = 1500")
    completed = completed.replace('fp64_per_sm = { status = "unknown" }', "fp64_per_sm = 2")
    (tmp_path / "h20.toml").write_text(completed, "utf-8")
    gpu = load_gpu(tmp_path / "h20.toml")
    assert (gpu.sm_count, gpu.clock_hz, gpu.architecture.fp64_lanes_per_sm) == (78, 1.5e9, 2)


# --- the command ----------------------------------------------------------------------------------


def test_like_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--add", "RTX 5060 Ti", "--like", "rtx-5070", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": "1.0",
        "file": "rtx-5060-ti.toml",
        "from": "sm_120",
        "given": [],
        "to_give": ["peak.sm_count", "peak.clock_boost_mhz", "peak.dram_gb_per_s"],
    }
    path = folder / "rtx-5060-ti.toml"
    before = path.read_bytes()
    assert run("--add", "RTX 5060 Ti", "--like", "rtx-5070") == 2
    assert "the file exists already" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert run(str(path)) == 2
    message = capsys.readouterr().err
    assert "3 faults: peak.sm_count is missing (streaming multiprocessors in use)" in message


def test_the_document_shows_what_the_command_writes_and_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "adding.md").read_text("utf-8")
    assert run("--add", "RTX 5060 Ti", "--like", "rtx-5070") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said in " ".join(page.split())
    lines = (folder / "rtx-5060-ti.toml").read_text("utf-8").splitlines()
    piece = page.partition("```\n# streaming multiprocessors")[2].partition("\n```")[0].splitlines()[1:]
    assert len(piece) == 5
    assert set(piece) <= set(lines)


def test_the_document_shows_what_is_doubted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "adding.md").read_text("utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0].replace("46", "45")
    (folder / "my-card.toml").write_text(text, "utf-8")
    assert run("./my-card.toml") == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines() if "limits.sms_per_tpc one" in line]
    assert len(shown) == 1
    assert shown[0] in page.splitlines()


def test_like_an_architecture_and_into_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--add", "Mine", "--like", "sm_61", "-o", str(folder / "card.toml")) == 0
    assert "card.toml, 0 values given. Every model needs peak.sm_count" in capsys.readouterr().out
    assert tomllib.loads((folder / "card.toml").read_text("utf-8"))["from"] == "sm_61"


def test_a_copy_of_the_catalogues(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--add", "A100") == 0
    said = capsys.readouterr()
    assert "a100-sxm-80gb is used" in said.err
    assert "kerncast gpus a100.toml checks it" in said.out
    assert run("a100.toml") == 0
    assert load_gpu(folder / "a100.toml").sm_count == 108


def test_asked_of_the_driver(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    device = FakeDevice(MACHINE)
    monkeypatch.setattr(cuda, "open_device", lambda index: device if index == 1 else None)
    assert run("--add", "RTX 5060 Ti", "--device", "1", "--like", "rtx-5070") == 0
    assert "7 values given. kerncast gpus" in capsys.readouterr().out
    assert device.is_closed
    gpu = load_gpu(folder / "rtx-5060-ti.toml")
    assert (gpu.sm_count, gpu.clock_hz, gpu.dram_bus_bits) == (36, 3.09e9, 128)
    assert gpu.dram_bytes_per_s == pytest.approx(448.032e9)
    assert (gpu.l2_bytes, gpu.memory_bytes, gpu.tdp_w) == (32 * 2**20, 16 * 2**30, 180)
    assert {fact.status for fact in gpu.facts} == {Status.SINGLE_SOURCE}
    assert missing_facts(gpu) == ()


def test_a_driver_that_names_no_memory_clock(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = replace(MACHINE, memory_clock_hz=None, power_limit_w=None, compute_capability="13.0")
    monkeypatch.setattr(cuda, "open_device", lambda _: FakeDevice(machine))
    assert run("--add", "Mine", "--device", "0") == 0
    assert "no file describes compute capability 13.0; sm_120 is the nearest" in capsys.readouterr().err
    text = (folder / "mine.toml").read_text("utf-8")
    assert "\n# dram_gb_per_s = ?" in text
    assert "\nsm_count = { value = 36" in text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--add", "RTX 5060"), "'RTX 5060' is not in the catalogue. The nearest are rtx-"),
        (("--add", "zzzz"), "Say what it is like: --like rtx-4060"),
        (("--add", ""), "is not a name"),
        (("--add", "a\nb"), "is not a name"),
        (("--add", "x" * 101), "is not a name"),
        (("--add", "Mine", "--like", "RTX 9999 Ultra Max"), "no GPU is called"),
        (("--add", "Mine", "--like", "sm_99"), "no architecture is called 'sm_99'"),
        (("--add", "Mine", "--like", "t4", "-o", "mine.txt"), "is not a .toml file"),
        (("--add", "Mine", "--like", "t4", "-o", "nowhere/mine.toml"), "cannot be written"),
        (("--add", "Mine", "--like", "t4", "-o", "x" * 300 + ".toml"), "cannot be written"),
        (("t4", "--add", "Mine"), "exclude each other"),
        (("t4", "--like", "t4"), "belong to --add"),
        (("-o", "x.toml"), "belong to --add"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], fault: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert fault in said.err
    assert said.out == ""
    assert list(folder.iterdir()) == []
