"""The disassembler's text, and the disassembler as a child process that may fail in any way."""

import mmap
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast import confinement
from kerncast.execute import WholeGrid, execute
from kerncast.machine import listing as module
from kerncast.machine.control_flow import machine_graph
from kerncast.machine.listing import begin, disassemble, disassembler, finish, parse_listing
from kerncast.machine.mix import machine_mix
from kerncast.profiles import Origin
from tests.helpers.execute_helpers import compiled, launch
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "machine"
MATMUL = "_Z12matmul_naivePKfS0_Pfi"
SAXPY = """extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""


def test_a_listing_gives_instructions_with_their_lines() -> None:
    routine = parse_listing((GOLDEN / "matmul_naive.sass").read_text(encoding="utf-8"))[MATMUL]
    # Addresses in the listing go up by 16 bytes: the last is 0xc70.
    assert len(routine.instructions) == 0xC70 // 16 + 1
    first = routine.instructions[0x210 // 16]
    assert (first.opcode, first.modifiers, first.line) == ("IMAD", ("WIDE",), 81)
    assert routine.labels[".L_x_4"] == 0x210 // 16
    branch = routine.instructions[0x690 // 16]
    assert (branch.opcode, branch.guard, branch.targets) == ("BRA", "P1", (".L_x_4",))


def test_control_flow_of_a_listing() -> None:
    graph = machine_graph(parse_listing((GOLDEN / "matmul_naive.sass").read_text(encoding="utf-8"))[MATMUL])
    loops = [(loop.header, loop.latches) for loop in graph.loops.loops]
    assert sorted(loops) == [(7, (7,)), (11, (11,)), (14, (14,))]
    assert graph.called == frozenset()
    # The branch to itself behind the end is padding.
    assert len(graph.blocks) - 2 == max(graph.main) + 1


def test_routines_of_the_compiler_are_no_part_of_the_kernel() -> None:
    graph = machine_graph(parse_listing((GOLDEN / "branchy.sass").read_text(encoding="utf-8"))["branchy"])
    names = [graph.blocks[block].called for block in graph.main if graph.blocks[block].called]
    assert len(names) == 1
    assert "div_rn" in names[0]
    assert graph.called
    assert not graph.called & graph.main


@given(st.text(alphabet='/*0123456789abcdef .:;@!PLxMOVBRAEIT`(),_$\n"#FileptxtnvdbugSR[]', max_size=400))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_listing(".text.k:\n" + text)


def test_a_line_number_without_end_is_read_without_an_error() -> None:
    parse_listing('.text.k:\n//## File ".nv_debug_ptx_txt", line ' + "9" * 5000)


def script_of(folder: Path, program: str) -> Path:
    script = folder / "nvdisasm"
    script.write_text(f"#!{sys.executable}\n{program}\n", encoding="utf-8")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import sys; sys.stderr.write('fatal: odd'); sys.exit(3)", "fatal: odd"),
        ("import time; time.sleep(60)", "did not end within"),
        ("print('no code at all')", "holds no code"),
        ("import os; os.kill(os.getpid(), 9)", "the disassembler failed"),
    ],
)
def test_a_disassembler_that_fails_is_no_error(
    program: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "win32":
        pytest.skip("a script is no program there")
    script = script_of(tmp_path, program)
    monkeypatch.setattr(module, "disassembler", lambda: script)
    # The others must have the time to start.
    monkeypatch.setattr(module, "_SECONDS", 0.3 if "sleep" in program else 100)
    found = disassemble(program.encode(), "sm_75")
    assert found.routines == {}
    assert problem in found.problem


def test_without_the_wheel_or_for_old_gpus_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "disassembler", lambda: None)
    assert "not installed" in disassemble(b"without the wheel", "sm_75").problem
    monkeypatch.setattr(module, "disassembler", lambda: Path("nvdisasm"))
    assert "no disassembler for sm_61" in disassemble(b"old", "sm_61").problem
    assert "0 bytes" in disassemble(b"", "sm_75").problem


@pytest.mark.skipif(disassembler() is None, reason="nvidia-cuda-nvdisasm is not installed (extra sass)")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90"])
def test_the_real_disassembler(architecture: str) -> None:
    one = compiled(SAXPY, architecture=architecture)
    trace, sampler = execute(one, launch([4], [64], n=200, a=2.0, x="f32[256] ones", y="f32[256] ones"), WholeGrid())
    found = machine_mix(trace, sampler.scale, one)
    assert found.origin is Origin.DISASSEMBLED
    threads = {each.opcode: each.threads_on.value for each in found.opcodes}
    assert (threads["FFMA"], threads["LDG"], threads["STG"]) == pytest.approx((200, 400, 200), rel=1e-4)
    assert threads["EXIT"] == pytest.approx(256, rel=1e-4)


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_a_disassembler_that_was_begun_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended is not begun again."""
    script = script_of(tmp_path, "print('.text.k:')\nprint('/*0010*/ EXIT ;')")
    monkeypatch.setattr(module, "disassembler", lambda: script)
    start, runs = module._started, []

    def started(*how: Any) -> Any:
        runs.append(how)
        return start(*how)

    monkeypatch.setattr(module, "_started", started)
    cubin = b"begun before it is asked for"
    for _ in range(2):
        begin(cubin, "sm_75")
        assert [ins.opcode for ins in disassemble(cubin, "sm_75").routines["k"].instructions] == ["EXIT"]
    assert len(runs) == 1
    disassemble.cache_clear()
    assert disassemble(cubin, "sm_75").routines
    assert len(runs) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_a_listing_that_was_waited_for_is_there_for_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = script_of(tmp_path, "print('.text.k:\\n/*0010*/ EXIT ;')")
    monkeypatch.setattr(module, "disassembler", lambda: script)
    cubin = b"waited for"
    begin(cubin, "sm_75")
    finish(cubin, "sm_75")
    monkeypatch.setattr(module, "_started", None)  # nothing starts any more
    begin(cubin, "sm_75")
    assert list(disassemble(cubin, "sm_75").routines) == ["k"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux confines processes")
def test_a_listing_is_kept_on_disk_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    script = script_of(tmp_path, "print('.text.k:\\n/*0010*/ EXIT ;')")
    monkeypatch.setattr(module, "disassembler", lambda: script)
    monkeypatch.setattr(module, "sha256_of", lambda *_: "version")
    assert list(disassemble(b"kept", "sm_75").routines) == ["k"]
    for remembered in (module._reading, module.disassemble):
        remembered.cache_clear()
    script.write_text("#!/bin/false\n", encoding="utf-8")
    assert list(disassemble(b"kept", "sm_75").routines) == ["k"]
    assert "the disassembler failed" in disassemble(b"other", "sm_75").problem
    module._digest.cache_clear()


def test_a_disassembler_reads_and_writes_no_file_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2", encoding="utf-8")
    for attack in (f"open({str(secret)!r}).read()", f"open({str(tmp_path / 'new')!r}, 'w')"):
        told = f"import sys\ntry:\n    {attack}\nexcept OSError as error:\n    sys.exit(repr(error))"
        script = script_of(tmp_path, told)
        monkeypatch.setattr(module, "disassembler", lambda script=script: script)
        assert "PermissionError" in disassemble(attack.encode(), "sm_75").problem


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs addresses without memory")
def test_a_process_larger_than_the_disassembler_may_be_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of(tmp_path, "print('.text.k:')\nprint('/*0010*/ EXIT ;')")
    monkeypatch.setattr(module, "disassembler", lambda: script)
    see_only = confinement._see_only

    def needs_memory(*how: Any) -> None:
        bytearray(2**27)  # more than the process may have kept for itself
        see_only(*how)

    monkeypatch.setattr(confinement, "_see_only", needs_memory)
    with mmap.mmap(-1, 2 * module._MOST_MEMORY, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ):
        assert not disassemble(b"of a large process", "sm_75").problem


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_limits_that_cannot_be_set_are_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def confined(*how: Any, **more: Any) -> None:
        raise OSError(how, more)

    monkeypatch.setattr(module, "disassembler", lambda: script_of(tmp_path, "print('.text.k:')"))
    monkeypatch.setattr(module, "confine", confined)
    assert "the disassembler failed" in disassemble(b"without limits", "sm_75").problem


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_a_disassembler_that_nobody_waits_for_ends_with_its_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of(tmp_path, "import time; time.sleep(600)")
    monkeypatch.setattr(module, "disassembler", lambda: script)
    reading = module._Reading(script, b"never asked for")
    reading.start()
    process, folder = reading._process, reading._folder
    assert process is not None
    assert process.poll() is None
    del reading
    assert process.wait(60) != 0
    assert not folder.exists()


def test_nothing_begins_without_the_wheel_or_for_old_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "disassembler", lambda: None)
    begin(b"no wheel", "sm_75")
    monkeypatch.setattr(module, "disassembler", lambda: Path("/there/is/no/such/nvdisasm"))
    begin(b"old", "sm_61")
    begin(b"no program", "sm_75")
    assert "the disassembler failed" in disassemble(b"no program", "sm_75").problem
