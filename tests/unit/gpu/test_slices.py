"""Slices of Multi-Instance GPU: names, shares, and what no slice has more of than the GPU."""

import pytest

from kerncast.errors import GPUError
from kerncast.forecast import resolve_gpus
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.gpu.slices import name_of_slice, slice_of, slices_of

WITH_SLICES = [gpu for gpu in list_gpus() if slices_of(gpu)]


@pytest.mark.parametrize("gpu", WITH_SLICES, ids=lambda gpu: gpu.id)
def test_no_slice_has_more_than_its_gpu_and_larger_ones_have_no_less(gpu: GPU) -> None:
    """Seven slices of an A100 have 98 of its 108 SMs: the rest is left out."""
    parts = [slice_of(gpu, each.name) for each in slices_of(gpu)]
    for part in parts:
        assert part.sm_count <= gpu.sm_count
        assert part.dram_bytes_per_s <= gpu.dram_bytes_per_s
        assert (part.l2_bytes or 0) <= (gpu.l2_bytes or 0)
    by_size = sorted(parts, key=lambda part: part.sm_count)
    assert [part.dram_bytes_per_s for part in by_size] == sorted(part.dram_bytes_per_s for part in by_size)
    # Whole TPCs, as nvidia-smi lists them.
    assert all(part.sm_count % 2 == 0 for part in parts)


def test_a_slice_is_named_after_its_gpu() -> None:
    ((found, caveats),) = resolve_gpus("A100 SXM 80GB MIG 3g.40gb")
    assert (found.id, found.sm_count, found.memory_bytes) == ("a100-sxm-80gb-mig-3g.40gb", 42, 40 * 2**30)
    assert [each.kind.value for each in caveats] == ["mig-bandwidth-assumed"]
    assert name_of_slice("A100 MIG") is None
    assert name_of_slice("h100_mig_1g.10gb") == ("h100", "1g.10gb")


def test_slices_that_do_not_exist_are_told() -> None:
    with pytest.raises(GPUError, match=r"no slice 5g\.40gb.*3g\.40gb"):
        slice_of(load_gpu("a100-sxm-80gb"), "5g.40gb")
    with pytest.raises(GPUError, match="No slices of it are known"):
        resolve_gpus("T4 MIG 1g.5gb")
