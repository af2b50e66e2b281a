"""The caches that a kernel finds: the guides' sizes, and what drivers were seen to choose."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import GPUError, LaunchError, MissingEvidenceError
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.occupancy import BlockRequest, CacheGeometry, cache_geometry, occupancy

KIB = 1024

#: One GPU of each architecture.
SAMPLE = {
    "sm_70": "v100-pcie-16gb",
    "sm_75": "t4",
    "sm_80": "a100-sxm-80gb",
    "sm_86": "rtx-3090",
    "sm_89": "l4",
    "sm_90": "h100-sxm",
}
#: All but those of which nobody says the size of L2.
WITH_L2 = tuple(gpu for gpu in list_gpus() if gpu.l2_bytes is not None)


def l1_kib(gpu_id: str, resident_blocks: int, shared_bytes: int) -> float:
    found = cache_geometry(load_gpu(gpu_id), resident_blocks, shared_bytes).l1_bytes
    assert found is not None
    return found / KIB


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu_id", "resident_blocks", "shared_kib", "expected_kib"),
    [
        # Programming guide, 7.x: 128 KB of which shared memory takes 0, 8, 16, 32, 64 or 96.
        ("v100-pcie-16gb", 8, 0, 128),
        ("v100-pcie-16gb", 1, 0.25, 120),
        ("titan-v", 4, 2, 120),
        ("titan-v", 4, 2.25, 112),
        ("v100-pcie-32gb", 2, 48, 32),
        ("titan-v", 1, 96, 32),
        # 7.5: 96 KB of which shared memory takes 32 or 64.
        ("rtx-2080-ti", 4, 0, 64),
        ("rtx-2080-ti", 4, 8, 64),
        ("t4", 4, 8.25, 32),
        ("rtx-2080-ti", 1, 64, 32),
        # 8.0: 192 KB and up to 164 of shared memory, 1 KB of it reserved in each block.
        ("a100-pcie-40gb", 1, 31, 160),
        ("a100-pcie-40gb", 1, 32, 128),
        ("a100-sxm-80gb", 1, 163, 28),
        # 8.6 and 8.9: 128 KB and up to 100.
        ("rtx-3060", 2, 3, 120),
        ("rtx-3090", 1, 99, 28),
        ("rtx-4070", 2, 8, 96),
        ("l4", 1, 99, 28),
        # 9.0: 256 KB and up to 228.
        ("h100-sxm", 2, 64, 124),
        ("h200", 1, 227, 28),
        # 3.x: 48 KB of the 64 are shared memory; 5.2 and 6.0 have caches of their own.
        ("k40", 1, 0, 16),
        ("gtx-680", 3, 16, 16),
        ("gtx-titan-x", 2, 48, 48),
        ("p100-pcie", 2, 0, 24),
    ],
)
def test_l1_is_what_the_guides_leave(gpu_id: str, resident_blocks: int, shared_kib: float, expected_kib: float) -> None:
    assert l1_kib(gpu_id, resident_blocks, round(shared_kib * KIB)) == expected_kib


@dataclass(frozen=True, slots=True)
class Choice:
    """A carve-out that a driver chose by itself for a kernel."""

    architecture: str
    threads: int
    registers: int
    shared_bytes: int
    """static and dynamic, of one block"""
    chosen_kib: int
    ours_kib: int | None = None
    """where we take another size"""


#: From Nsight Compute reports in public repositories, found in November 2026: "Shared Memory Configuration Size" and
#: the launch; the reports print kB with two decimals. The data files take the smallest size of each architecture here.
CHOICES = [
    Choice("sm_70", 192, 20, 0, 0),
    Choice("sm_75", 256, 39, 2048, 32),
    Choice("sm_75", 1024, 49, 0, 32),
    Choice("sm_75", 64, 96, 272, 32),
    Choice("sm_75", 256, 128, 32768, 64),
    Choice("sm_75", 256, 64, 32768, 64),
    Choice("sm_80", 256, 16, 0, 32),
    Choice("sm_80", 256, 26, 0, 32),
    Choice("sm_86", 384, 50, 0, 8),
    Choice("sm_86", 512, 39, 0, 8),
    Choice("sm_86", 256, 16, 0, 8),
    Choice("sm_86", 256, 36, 0, 8),
    Choice("sm_86", 128, 16, 0, 16),
    Choice("sm_86", 64, 16, 0, 16),
    Choice("sm_86", 32, 16, 0, 16),
    Choice("sm_86", 512, 22, 2048, 16),
    Choice("sm_86", 512, 38, 6144, 32),
    Choice("sm_86", 128, 122, 12800, 64),
    Choice("sm_86", 256, 57, 16384, 100),
    Choice("sm_86", 256, 40, 16384, 100),
    Choice("sm_86", 256, 16, 4096, 64, ours_kib=32),
    Choice("sm_86", 256, 100, 8192, 64, ours_kib=32),
    Choice("sm_89", 256, 36, 0, 16),
    Choice("sm_89", 256, 16, 0, 16),
    Choice("sm_89", 256, 202, 49152, 64),
    Choice("sm_89", 256, 39, 8192, 64),
    Choice("sm_89", 256, 48, 8192, 64),
    Choice("sm_89", 512, 54, 29820, 64),
    Choice("sm_89", 256, 57, 16384, 100),
    Choice("sm_89", 256, 54, 16384, 100),
    Choice("sm_89", 256, 48, 12288, 100),
    Choice("sm_89", 128, 50, 8460, 100),
    Choice("sm_89", 256, 36, 10290, 100),
    Choice("sm_89", 128, 80, 43780, 100),
    Choice("sm_89", 256, 72, 32768, 100),
    Choice("sm_89", 256, 36, 2048, 64, ours_kib=32),
    Choice("sm_89", 256, 40, 640, 32, ours_kib=16),
    Choice("sm_90", 256, 16, 0, 32),
    Choice("sm_90", 1024, 31, 12288, 32),
    Choice("sm_90", 256, 255, 133120, 132),
    Choice("sm_90", 128, 63, 30741, 228),
    Choice("sm_90", 256, 255, 230400, 228),
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_carveouts_that_drivers_chose(choice: Choice) -> None:
    gpu = load_gpu(SAMPLE[choice.architecture])
    a = gpu.architecture
    request = BlockRequest(choice.threads, choice.registers, static_shared_bytes=choice.shared_bytes)
    assert a.l1_and_shared_bytes is not None
    assert a.shared_carveouts_bytes is not None
    l1 = l1_kib(gpu.id, occupancy(request, a).blocks_per_sm, choice.shared_bytes)
    ours = a.l1_and_shared_bytes / KIB - l1
    assert ours == (choice.chosen_kib if choice.ours_kib is None else choice.ours_kib)
    if choice.ours_kib is not None:
        sizes = [size // KIB for size in a.shared_carveouts_bytes]
        assert sizes.index(choice.chosen_kib) == sizes.index(choice.ours_kib) + 1, "it is the next larger one"


@given(
    gpu=st.sampled_from(WITH_L2),
    blocks=st.integers(1, 32),
    shared_bytes=st.integers(0, 228 * KIB),
    more_bytes=st.integers(0, 32 * KIB),
)
def test_more_shared_memory_never_leaves_more_l1(gpu: GPU, blocks: int, shared_bytes: int, more_bytes: int) -> None:
    try:
        more = cache_geometry(gpu, blocks, shared_bytes + more_bytes)
    except LaunchError:
        return
    less = cache_geometry(gpu, blocks, shared_bytes)
    assert more.l1_bytes is not None
    assert less.l1_bytes is not None
    assert 0 < more.l1_bytes <= less.l1_bytes
    if gpu.architecture.l1_and_shared_bytes is not None:
        free = gpu.architecture.l1_and_shared_bytes - more.l1_bytes
        assert free >= blocks * (shared_bytes + more_bytes + gpu.architecture.reserved_shared_bytes_per_block)


@given(
    gpu=st.sampled_from(WITH_L2),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 64),
    shared_bytes=st.integers(0, 48 * KIB),
)
def test_whatever_is_resident_fits(gpu: GPU, threads: int, registers: int, shared_bytes: int) -> None:
    found = occupancy(BlockRequest(threads, registers, static_shared_bytes=shared_bytes), gpu.architecture)
    if found.blocks_per_sm:
        geometry = cache_geometry(gpu, found.blocks_per_sm, shared_bytes)
        assert (geometry.resident, geometry.sms) == (found.blocks_per_sm, gpu.sm_count)


# --- what is cached -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "global_loads", "read_only_loads", "local", "stores"),
    [
        ("sm_30", False, False, True, False),
        ("sm_35", False, True, True, False),
        ("sm_52", False, True, False, False),
        ("sm_60", True, True, True, False),
        ("sm_70", True, True, True, True),
        ("sm_75", True, True, True, True),
        ("sm_80", True, True, True, True),
        ("sm_86", True, True, True, True),
        ("sm_89", True, True, True, True),
        ("sm_90", True, True, True, True),
    ],
)
def test_what_l1_holds_by_default(
    name: str, *, global_loads: bool, read_only_loads: bool, local: bool, stores: bool
) -> None:
    """The tuning guides of Kepler, Maxwell and Pascal; from Volta on everything."""
    gpu = next(gpu for gpu in WITH_L2 if gpu.architecture.id == name)
    found = cache_geometry(gpu, 1, 0)
    assert (found.caches_global, found.caches_read_only) == (global_loads, read_only_loads)
    assert (found.caches_local, found.stores_allocate) == (local, stores)


def test_kepler_has_a_cache_for_read_only_loads() -> None:
    assert cache_geometry(load_gpu("k20"), 1, 0).read_only_bytes == 48 * KIB
    assert cache_geometry(load_gpu("gtx-680"), 1, 0).read_only_bytes is None
    assert cache_geometry(load_gpu("titan-v"), 1, 0).read_only_bytes is None


def test_l2_of_a100_h100_and_b200_is_in_two_parts() -> None:
    found = {gpu.id: cache_geometry(gpu, 1, 0).l2_partitions for gpu in WITH_L2}
    assert {name for name, parts in found.items() if parts == 2} == {
        "a100-pcie-40gb", "a100-sxm-40gb", "a100-pcie-80gb", "a100-sxm-80gb",
        "gh200-96gb", "h100-nvl", "h100-pcie", "h100-sxm", "h200", "b200", "b300",
    }  # fmt: skip
    assert load_gpu("v100-pcie-16gb").l2_partitions == 1
    assert load_gpu("rtx-3090").l2_partitions is None


def test_only_one_shipped_gpu_has_an_l2_of_unknown_size() -> None:
    assert {gpu.id for gpu in list_gpus()} - {gpu.id for gpu in WITH_L2} == {"b100"}


@pytest.mark.parametrize("gpu", WITH_L2, ids=lambda gpu: gpu.id)
def test_every_shipped_gpu_has_a_geometry(gpu: GPU) -> None:
    found = cache_geometry(gpu, 1, 0)
    assert found.l2_bytes == gpu.l2_bytes
    assert found.l1_bytes is not None
    # Microbenchmarks: lines of 32 bytes in L2 up to Pascal, 64 from Volta on.
    assert found.l2_fetch_bytes == (32 if gpu.architecture.number < 70 else 64)


# --- what is unknown or impossible ----------------------------------------------------------------


def test_unknown_l2_is_refused_and_the_rest_has_its_usual_value(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    small = "sm_count = 2\nclock_boost_mhz = 1000\ndram_gb_per_s = 100\n"
    path.write_text(f'from = "sm_86"\n{small}')
    with pytest.raises(MissingEvidenceError, match=r"L2 is unknown. Give peak.l2_kib"):
        cache_geometry(load_gpu(path), 1, 0)
    keys = (
        '[shared]\nl1_and_shared_kib = { status = "unknown" }\n',
        '[caches]\nl2_fetch_bytes = { status = "unknown" }\nl2_writes_back_early = { status = "unknown" }\n',
    )
    (tmp_path / "sm_87.toml").write_text(f'from = "sm_86"\ncompute_capability = "8.7"\n{"".join(keys)}')
    path.write_text(f'from = "sm_87.toml"\nl2_kib = 4096\n{small}')
    assert cache_geometry(load_gpu(path), 3, 0) == CacheGeometry(
        l1_bytes=None,
        l2_bytes=4096 * KIB,
        caches_global=True,
        caches_read_only=True,
        caches_local=True,
        stores_allocate=True,
        l2_fetch_bytes=32,
        resident=3,
        sms=2,
    )


@pytest.mark.parametrize(("blocks", "shared_bytes"), [(0, 0), (1, -1), (3, 48 * KIB), (1, 97 * KIB)])
def test_blocks_that_no_sm_holds(blocks: int, shared_bytes: int) -> None:
    with pytest.raises(LaunchError, match="shared memory"):
        cache_geometry(load_gpu("titan-v"), blocks, shared_bytes)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("[caches]\nlocal_in_l1 = 1", "caches.local_in_l1 is 1 (give true or false)"),
        ('[caches]\nlocal_in_l1 = "yes"', "caches.local_in_l1 is 'yes' (give true or false)"),
        (
            '[caches]\nlocal_in_l1 = { status = "unknown" }',
            "caches.local_in_l1 is missing (whether local memory is cached in L1)",
        ),
        ("[shared]\nleast_default_carveout_kib = 24", "least_default_carveout_kib is none of shared.carveouts_kib"),
    ],
)
def test_faulty_facts_on_caches(tmp_path: Path, entry: str, fault: str) -> None:
    (tmp_path / "sm_87.toml").write_text(f'from = "sm_86"\ncompute_capability = "8.7"\n{entry}\n')
    path = tmp_path / "mine.toml"
    path.write_text('from = "sm_87.toml"\nsm_count = 2\nclock_boost_mhz = 1000\ndram_gb_per_s = 100\n')
    with pytest.raises(GPUError) as caught:
        load_gpu(path)
    assert fault in str(caught.value)
