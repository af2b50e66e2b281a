"""The parts of a launch's profile that depend on the GPU: its caches, and the machine code of its architecture."""

from dataclasses import replace

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import KernelFault, MachineLimitError, Refusal
from kerncast.execute.caches.launch_traffic import cache_traffic
from kerncast.execute.native import TooLargeError
from kerncast.execute.sampling.run import Executed
from kerncast.execute.setup.state import Progress
from kerncast.gpu import GPU
from kerncast.machine.mix import machine_mix, with_spills
from kerncast.occupancy import block_request_of, cache_geometry, occupancy, why_not
from kerncast.profiles import KernelProfile


def with_gpu(profile: KernelProfile, executed: Executed, gpu: GPU, progress: Progress | None = None) -> KernelProfile:
    """Add what the caches and the machine code of one GPU tell; raises MachineLimitError as ``with_caches``."""
    return with_machine_code(with_caches(profile, executed, gpu, progress), executed)


def without_caches(profile: KernelProfile, executed: Executed, limit: MachineLimitError) -> KernelProfile:
    """Add what ``with_gpu`` adds, where this machine's clock or memory has ended the simulation of the caches."""
    return with_machine_code(_without(profile, str(limit)), executed)


def with_machine_code(profile: KernelProfile, executed: Executed) -> KernelProfile:
    """Add the machine instructions that the executed PTX becomes, and the registers that they spill."""
    machine = machine_mix(executed.trace, executed.sampler.scale, executed.kernel)
    return with_spills(replace(profile, machine=machine))


def with_caches(
    profile: KernelProfile, executed: Executed, gpu: GPU, progress: Progress | None = None
) -> KernelProfile:
    """Add what the caches of a GPU let through; where that cannot be told, a caveat says why.

    Raises MachineLimitError where this machine's clock or memory is the reason, so that nobody remembers it.
    """
    request = block_request_of(profile)
    reason = None if request is None else why_not(request, gpu.architecture)
    if request is None or reason is not None:
        return _without(profile, f"{gpu.name} cannot run this launch: {reason}" if reason else "resources are unknown")
    resident = occupancy(request, gpu.architecture).blocks_per_sm
    try:
        geometry = cache_geometry(gpu, resident, request.shared_bytes)
        caches, counts = cache_traffic(profile, executed, geometry, gpu.id, progress)
    except MemoryError:
        raise MachineLimitError("more memory is needed than is free") from None
    except TooLargeError:
        return _without(profile, "the kernel is too large to be compiled for this CPU")
    except (KernelFault, MachineLimitError):
        raise  # the sample of blocks missed the fault: the kernel is to blame, not its caches
    except Refusal as refusal:
        return _without(profile, str(refusal))
    return replace(profile, caches=caches, counts=profile.counts.updated(counts))


def _without(profile: KernelProfile, reason: str) -> KernelProfile:
    return replace(profile, caveats=(*profile.caveats, Caveat.of(CaveatKind.CACHES_NOT_SIMULATED, reason=reason)))
