"""The assumptions of section 5.5 of the cross-GPU report, each broken on purpose and each kept."""

from dataclasses import replace

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import load_gpu
from kerncast.models import Case
from kerncast.models.transfer.checks import Check, Roofs, transfer_caveats, transfer_checks
from kerncast.prediction import Timing
from kerncast.profiles import (
    Balance,
    Count,
    InstructionMix,
    KernelProfile,
    KindCount,
    MachineMix,
    OpcodeCount,
    Origin,
    Sampling,
)
from tests.helpers.caveats import kinds, only
from tests.helpers.profiles import answered
from tests.helpers.transfers import NOTHING, exact, profiled, run

#: DRAM needs far longer than arithmetic on both GPUs.
MEMORY_BOUND = Roofs(1e6, 1e9, (14e12, 35e12), (6e11, 8e11))


def traffic(sectors: float) -> dict[str, Count | None]:
    """Return 3000 requests of so many sectors each."""
    return {
        "global_load_requests": exact(2000),
        "global_store_requests": exact(1000),
        "global_load_sectors": exact(2000 * sectors),
        "global_store_sectors": exact(1000 * sectors),
        "global_bytes_touched": exact(1e9),
    }


def complete(counts: dict[str, Count | None] | None = None, **changes: object) -> KernelProfile:
    """Return an executed profile of which everything is known, and nothing unusual; ``counts`` are others of it."""
    kinds = (KindCount("fma.f32", exact(1e6), exact(32e6)),)
    mix = InstructionMix(Origin.EXECUTED, exact(1e6), exact(32e6), kinds, NOTHING, NOTHING)
    found = answered(profiled("rtx-3090"), **(traffic(4) | {"special_ops": NOTHING} | (counts or {})))
    fields: dict[str, object] = {
        "mix": mix,
        "sampling": Sampling(10, 10),
        "balance": Balance(1.0, 1.05, 0.02),
        "grid": (82 * 6 * 100, 1, 1),
    }
    return replace(found, **(fields | changes))  # type: ignore[arg-type]


def checks(source: KernelProfile, target: str = "rtx-a6000", roofs: Roofs = MEMORY_BOUND) -> dict[str, Check]:
    asked = Case(replace(source, run=None), load_gpu(target), None, source)
    return {check.name: check for check in transfer_checks(asked, roofs)}


def said(source: KernelProfile, target: str = "rtx-a6000", roofs: Roofs = MEMORY_BOUND) -> tuple[Caveat, ...]:
    asked = Case(replace(source, run=None), load_gpu(target), None, source)
    return transfer_caveats(asked, roofs)


def test_where_all_assumptions_hold_nothing_is_said() -> None:
    assert said(complete()) == ()
    assert all(check.is_checked for check in checks(complete()).values())


def test_what_evidence_lacks_is_said_to_be_unchecked() -> None:
    bare = profiled("rtx-3090")
    found = transfer_caveats(Case(bare, load_gpu("rtx-a6000"), None, bare), MEMORY_BOUND)
    assert found[-1].kind is CaveatKind.NOT_CHECKED
    for name in ("L2", "tensor", "coalesce", "load imbalance", "dynamic parallelism"):
        assert name in found[-1].subject


def test_a_working_set_between_the_sizes_of_l2() -> None:
    """The RTX 2080 Ti has 5.5 MiB (5.77 MB) of L2, the RTX 3090 has 6 MiB (6.29 MB)."""
    between = complete({"global_bytes_touched": exact(6e6)})
    kind = CaveatKind.WORKING_SET_FITS_ONE
    found = only(said(between, "rtx-2080-ti"), kind)
    assert (found.subject, found.details["other"]) == ("RTX 3090", "RTX 2080 Ti")
    assert dict(found.numbers) == {"working_set": 6e6, "inside": 6 * 2**20, "outside": 5.5 * 2**20}
    assert kind not in kinds(said(complete({"global_bytes_touched": exact(5e6)}), "rtx-2080-ti"))
    assert kind not in kinds(said(complete({"global_bytes_touched": exact(7e6)}), "rtx-2080-ti"))


def test_tensor_cores_and_special_functions() -> None:
    opcode = OpcodeCount("HMMA", "fp16", "tensor", exact(500), exact(16000), exact(16000))
    machine = MachineMix(Origin.DISASSEMBLED, "sm_86", (opcode,), exact(500), exact(16000), exact(16000))
    assert Caveat.of(CaveatKind.TENSOR_CORES_USED, warp_instructions=500.0) in said(complete(machine=machine))
    # 600e6 operations and 200e6 special functions: a quarter of the arithmetic.
    assert Caveat.of(CaveatKind.SPECIAL_FUNCTIONS_COUNT, share=0.25) in said(complete({"special_ops": exact(2e8)}))
    assert CaveatKind.SPECIAL_FUNCTIONS_COUNT not in kinds(said(complete({"special_ops": exact(1e6)})))


def test_a_profile_without_opcodes_tells_no_tensor_cores() -> None:
    """ncu counts instructions, but not by opcode; whether special functions occur it does not count at all."""
    name = "tensor cores and special-function units"
    bare = MachineMix(Origin.PROFILED, "sm_86", (), exact(500), exact(16000), exact(16000))
    add = OpcodeCount("FADD", "fp32", "fma", exact(500), exact(16000), exact(16000))
    listed = replace(bare, opcodes=(add,))
    assert not checks(complete(machine=bare, mix=None))[name].is_checked
    assert checks(complete(machine=listed, mix=None))[name].is_checked
    assert not checks(complete({"special_ops": None}, machine=listed))[name].is_checked


def test_a_time_beside_a_profile_tells_nothing_of_coalescing() -> None:
    """Source and target are one set of counts then: that they are alike says nothing."""
    profile = complete(sampling=None)
    assert not checks(profile)["whether accesses coalesce alike on both GPUs"].is_checked


def test_other_coalescing() -> None:
    source = complete()
    target = answered(replace(source, run=None), **traffic(8))
    found = transfer_caveats(Case(target, load_gpu("rtx-a6000"), None, source), MEMORY_BOUND)
    assert kinds(found) == [CaveatKind.COALESCING_DIFFERS]
    assert found[0].details == {
        "source": "RTX 3090", "source_sectors": 4, "target": "RTX A6000", "target_sectors": 8,
    }  # fmt: skip


def test_l1_that_caches_global_loads_on_one_gpu_only() -> None:
    assert Caveat.of(CaveatKind.L1_USE_DIFFERS, "RTX 3090", other="GTX 980") in said(complete(), "gtx-980")


@pytest.mark.parametrize("balance", [Balance(1.0, 2.5, 0.4), Balance(1.5, 1.0, 0.0)])
def test_load_imbalance(balance: Balance) -> None:
    found = only(said(complete(balance=balance)), CaveatKind.LOAD_IMBALANCE)
    assert found.details["block"] == balance.longest_over_mean_block


def test_dynamic_parallelism_is_checked_by_executing() -> None:
    assert checks(complete())["dynamic parallelism"].is_checked
    assert not checks(complete(sampling=None))["dynamic parallelism"].is_checked


def test_tail_effects() -> None:
    """Blocks of 256 threads with 32 registers: 6 on an SM of both; 82 and 84 SMs hold 492 and 504."""
    last = only(said(complete(grid=(1008, 1, 1))), CaveatKind.LAST_WAVE_PARTLY_EMPTY)
    assert (last.subject, last.details["whole"]) == ("RTX 3090", 3)
    assert last.details["waves"] == pytest.approx(2.05, abs=0.005)
    assert [each for each in said(complete(grid=(40, 1, 1))) if each.kind is CaveatKind.SMS_IDLE] == [
        Caveat.of(CaveatKind.SMS_IDLE, "RTX 3090", blocks=40, idle=42, sms=82),
        Caveat.of(CaveatKind.SMS_IDLE, "RTX A6000", blocks=40, idle=44, sms=84),
    ]
    assert not checks(complete(resources=None))["tail effects"].is_checked


def test_a_time_near_the_launch_overhead() -> None:
    """A launch in a series takes 1.6 us of its 5."""
    short = complete(run=run("rtx-3090", 5e-6, timing=Timing.SERIES))
    assert Caveat.of(CaveatKind.LAUNCH_BOUND, measured=5e-6, overhead=1.6e-6) in said(short)
    long = complete(run=run("rtx-3090", 50e-6, timing=Timing.SERIES))
    assert CaveatKind.LAUNCH_BOUND not in kinds(said(long))


def test_roofs_that_lie_close_together() -> None:
    """1 GB at 600 GB/s and 20 GFLOP at 14 TFLOP/s: 1.667 and 1.429 ms on the source, far apart on the target."""
    near = said(complete(), roofs=Roofs(20e9, 1e9, (14e12, 35e12), (6e11, 8e11)))
    found = only(near, CaveatKind.ROOFS_CLOSE)
    assert found.subject == "RTX 3090"
    assert [value for _, value in found.numbers] == pytest.approx([1.429e-3, 1.667e-3, 0.2], rel=1e-3)
    switched = said(complete(), roofs=Roofs(20e9, 1e9, (7e12, 35e12), (6e11, 6e11)))
    roofs = only(switched, CaveatKind.ROOF_CHANGES).details
    assert roofs == {
        "source": "RTX 3090", "source_roof": "arithmetic", "target": "RTX A6000", "target_roof": "DRAM",
    }  # fmt: skip


def test_another_generation() -> None:
    expected = Caveat.of(CaveatKind.EFFICIENCY_OF_OTHER_GENERATION, source="8.6", target="9.0")
    assert expected in said(complete(), "h100-pcie")


def test_a_case_without_a_measured_run_has_no_checks() -> None:
    plain = replace(profiled(), run=None)
    assert transfer_checks(Case(plain, load_gpu("rtx-3090")), MEMORY_BOUND) == ()
