"""The ceilings' launches: which there are, how large, and whether their grids fill a GPU exactly."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.bench.ceilings import SOURCES, Ceiling, ceilings_for
from kerncast.bench.ceilings.ceiling import chip_of, name_of_key, nearest_architecture
from kerncast.compile import CompileRequest, compile_request
from kerncast.gpu import load_architecture
from kerncast.launch import Argument, Buffer, Launch
from kerncast.measurements import Machine, Method
from kerncast.occupancy import BlockRequest, occupancy
from tests.helpers.ceiling_kernels import compiled
from tests.helpers.inspection import kernels_of
from tests.helpers.machines import GTX_1060, H100, RTX_5090
from tests.helpers.thorough import THOROUGH

K20 = replace(H100, compute_capability="3.5", sm_count=13, memory_bytes=5 * 2**30, l2_bytes=1280 * 2**10)
MACHINES = {"h100": H100, "gtx-1060": GTX_1060, "k20": K20, "rtx-5090": RTX_5090}

#: Kernels whose grids are meant to fill all SMs with as many blocks as are resident.
RESIDENT = {"fma_f32", "fma_f64", "fma_f16x2", "add_i32", "mad_i32", "ex2_f32", "rsqrt_f32", "clock_under_fma",
            "l2_read", "l1_read", "atomic_global", "atomic_shared"}  # fmt: skip


def named(machine: Machine) -> dict[str, Ceiling]:
    return {each.name: each for each in ceilings_for(machine)}


def buffers(launch: Launch) -> dict[str, Buffer]:
    return {each.name: each.value for each in launch.arguments if isinstance(each.value, Buffer)}


def value(launch: Launch, name: str) -> int:
    found = next(each.value for each in launch.arguments if each.name == name)
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_names_and_keys_are_unique(machine: Machine) -> None:
    ceilings = ceilings_for(machine)
    assert len({each.name for each in ceilings}) == len(ceilings)
    assert all(name_of_key(each.key) == each.name.partition("#")[0] for each in ceilings)


def test_what_an_architecture_lacks_is_left_out() -> None:
    assert {"tensor_f16", "tensor_bf16", "tensor_tf32", "tensor_i8", "tensor_f64", "fma_f16x2"} <= set(named(H100))
    assert not [name for name in named(GTX_1060) if name.startswith("tensor")]
    assert "fma_f16x2" not in named(K20)
    assert not [name for name in named(K20) if name.startswith("l1")]
    assert "tensor_f64" not in named(RTX_5090)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_buffers_in_dram_exceed_l2_and_fit_the_memory(machine: Machine) -> None:
    for ceiling in ceilings_for(machine):
        total = sum(each.nbytes for each in buffers(ceiling.launch).values())
        assert total <= machine.memory_bytes / 4
        for each in buffers(ceiling.launch).values():
            assert each.nbytes <= 2**30
            assert each.fill.kind == "zeros" or each.nbytes <= 64 * 2**20, "a large buffer fills itself"
            if ceiling.name.startswith("dram_") and each.nbytes > 64:
                assert each.nbytes >= 4 * machine.l2_bytes
                # A buffer is whole steps of the grid, so it may be a little smaller than wanted.
                assert "latency" in ceiling.name or each.nbytes > 0.9 * 256 * 2**20


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_working_sets_stay_in_their_cache(machine: Machine) -> None:
    for name, ceiling in named(machine).items():
        held = buffers(ceiling.launch)
        if name.startswith("l2_read"):
            assert 0.35 * machine.l2_bytes < held["set"].nbytes <= 0.4 * machine.l2_bytes
        if name == "l2_latency":
            assert 32 * 2**10 < held["chain"].nbytes <= 0.4 * machine.l2_bytes
        if name.startswith("l1_"):
            assert max(each.nbytes for each in held.values()) <= 24 * 2**10


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_setup_and_launch_share_their_buffers(machine: Machine) -> None:
    for ceiling in ceilings_for(machine):
        if ceiling.setup is not None:
            held = buffers(ceiling.launch)
            for name, buffer in buffers(ceiling.setup).items():
                assert held[name] == buffer
        if ceiling.reading is not None:
            assert ceiling.reading[0] in buffers(ceiling.launch)


@pytest.mark.parametrize("machine", [H100, GTX_1060], ids=["h100", "gtx-1060"])
def test_all_ceilings_fit_a_minute(machine: Machine) -> None:
    """With 3 trials of 3 + 3 + 10 launches, each at half of the rates that the sizes were made for."""
    chip = chip_of(machine)
    assert machine.memory_clock_hz is not None
    assert machine.memory_bus_bits is not None
    dram = 2 * machine.memory_clock_hz * machine.memory_bus_bits / 8
    seconds = 0.0
    for ceiling in ceilings_for(machine):
        assert ceiling.amount is not None
        if ceiling.name.startswith("dram_") and ceiling.unit == "B":
            once = ceiling.amount / dram
            assert 2e-3 <= once < 6e-3, "long beside what a launch takes"
        elif ceiling.name == "matrix_product":
            once = ceiling.amount / (2 * chip.architecture.fp32_lanes_per_sm * chip.sm_count * chip.clock_hz)
        else:
            once = 50e-3 if ceiling.name == "clock" else 8e-3
        assert once <= 0.05
        seconds += 3 * 16 * 2 * once * len(ceiling.methods)
    assert seconds < 60


@pytest.mark.parametrize("architecture", ["sm_52", "sm_75", "sm_86", "sm_90"])
def test_resident_grids_fill_every_sm_exactly(architecture: str) -> None:
    """A grid of one wave: as many blocks as the compiled kernel's registers and shared memory allow.

    One architecture for each number of threads of an SM, the oldest and the newest of those with 2048.
    """
    chip = load_architecture(architecture)
    machine = replace(H100, compute_capability=chip.compute_capability, sm_count=7)
    seen = set()
    for ceiling in ceilings_for(machine):
        launch = ceiling.launch
        is_persistent = ceiling.name.startswith("dram_") and ceiling.name.endswith(("#0", "#1"))
        if launch.kernel not in RESIDENT and not is_persistent:
            continue
        resources = compiled(launch, chip.compute_capability).resources
        assert resources.local_bytes_per_thread == 0, "nothing is spilled"
        request = BlockRequest(
            threads=launch.threads_per_block,
            registers_per_thread=resources.registers_per_thread,
            static_shared_bytes=resources.static_shared_bytes,
        )
        assert occupancy(request, chip).blocks_per_sm * 7 == launch.grid[0], ceiling.name
        seen.add(launch.kernel)
    assert {"l2_read", "dram_triad", "fma_f32", "atomic_global"} <= seen


@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.cu")), ids=lambda path: path.stem)
def test_every_source_compiles_for_architectures_without_a_file(source: Path) -> None:
    oldest = 72 if source.stem == "tensor" else 0
    architectures = tuple(f"sm_{n}" for n in (35, 53, 72, 87, 100, 121) if n >= oldest)
    if not THOROUGH:  # each source for the oldest, the newest and one between them: others for the next source
        place = sorted(SOURCES.glob("*.cu")).index(source) % (len(architectures) - 2)
        architectures = architectures[0], architectures[1 + place], architectures[-1]
    kernel = kernels_of(source)[0].name
    for found in compile_request(CompileRequest(source, architectures, kernel=kernel)).kernels:
        number = int(found.architecture.removeprefix("sm_"))
        capability = f"{number // 10}.{number % 10}"
        wanted = {
            launch.kernel
            for ceiling in ceilings_for(replace(H100, compute_capability=capability))
            for launch in (ceiling.launch, ceiling.setup)
            if launch is not None and launch.source == source
        }
        assert {name for name in wanted if f".entry {name}(" not in found.ptx} == set()


def test_nearest_architectures_exist_for_every_capability() -> None:
    for capability in ("3.0", "3.2", "3.7", "5.0", "5.3", "6.1", "6.2", "7.2", "8.7", "10.0", "10.3", "12.0", "12.1"):
        assert nearest_architecture(capability).id.startswith("sm_")
    assert nearest_architecture("15.0").id == "sm_120"


def test_launches_are_timed_in_three_ways() -> None:
    for name in ("launch_empty", "launch_full"):
        assert named(H100)[name].methods == (Method.SERIES, Method.GRAPH, Method.SINGLE)


def test_every_source_is_used_and_says_what_limits_it() -> None:
    used = {ceiling.launch.source for ceiling in ceilings_for(H100)}
    assert used == set(SOURCES.glob("*.cu"))
    for path in used:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("// ")
        assert "imited by" in text.partition("\n\n")[0]
        assert max(map(len, text.splitlines())) <= 120


def test_ceilings_of_a_machine_are_the_same_each_time() -> None:
    first, second = (hashlib.sha256(repr(ceilings_for(H100)).encode()).hexdigest() for _ in range(2))
    assert first == second
    assert isinstance(ceilings_for(H100)[0].launch.arguments[0], Argument)
    assert value(named(H100)["l2_read#0"].launch, "stride") < value(named(H100)["l2_read#0"].launch, "count")
