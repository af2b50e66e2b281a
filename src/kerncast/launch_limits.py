"""Whether a GPU can run a launch at all: what its kernel declares, and what a block may take of an SM."""

from kerncast.errors import Refusal
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile, Resources
from kerncast.launch import Extent, Launch
from kerncast.occupancy import BlockRequest, block_request, block_request_of, why_not


def check_can_run(launch: Launch, resources: Resources, gpu: GPU) -> None:
    """Raise Refusal for a launch that a GPU cannot run, with the limit by name."""
    request = block_request(launch.threads_per_block, resources, launch.shared_bytes)
    reason = _undeclared(launch.grid, launch.block, resources) or _why_not(request, resources, gpu)
    if reason is not None:
        raise Refusal(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch.")


def check_fits(found: KernelProfile, gpu: GPU, *, force: bool) -> tuple[str, ...]:
    """Raise Refusal for a launch that a GPU cannot run; where it is forced, return that as a caveat instead."""
    request, resources = block_request_of(found), found.resources
    if request is None or resources is None:
        return ()
    reason = _undeclared(found.grid, found.block, resources) or _why_not(request, resources, gpu)
    if reason is None:
        return ()
    if not force:
        raise Refusal(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch, or use --force.")
    return (f"this launch cannot run on {gpu.name} ({reason}): forced",)


def _undeclared(grid: Extent, block: Extent, resources: Resources) -> str | None:
    """Return why a launch does not fit what the kernel declares of its block and of its cluster."""
    needed, cluster = resources.required_block, resources.cluster_blocks
    if needed is not None:
        # With __block_size__ the grid counts clusters, so that any fits.
        return None if block == needed else f"the block is {list(block)}, not the {list(needed)} of its __block_size__"
    if cluster is None or all(size % part == 0 for size, part in zip(grid, cluster, strict=True)):
        return None
    return f"the grid {list(grid)} is no multiple of the {list(cluster)} of the kernel's __cluster_dims__"


def _why_not(request: BlockRequest, resources: Resources, gpu: GPU) -> str | None:
    """Return why a GPU cannot run a block, or None where it can."""
    limit = resources.max_threads_per_block
    if limit and request.threads > limit:
        return f"a block has {request.threads} threads, over the {limit} of the kernel's __launch_bounds__"
    return why_not(request, gpu.architecture)
