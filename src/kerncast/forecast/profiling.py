"""The profile of one launch: what a profiler would show of it, without a GPU."""

from dataclasses import replace
from pathlib import Path

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MachineLimitError, Refusal
from kerncast.execute import Budget, Executed, profile_of, run_launch
from kerncast.forecast.compiled_launch import Progress, compile_launch, gathered, with_compiler_caveats
from kerncast.forecast.evidence import resolve_gpus
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.occupancy import check_can_run
from kerncast.profiles import KernelProfile
from kerncast.read.launches import load_launches

_DEFAULT_ARCHITECTURE = "sm_70"
#: Older ones load and store in place of an asynchronous copy.
_FIRST_WITH_COPIES = "sm_80"


def profile_launch(
    launch: Launch | str | Path,
    gpu: str | Path | GPU | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    late: bool = False,
) -> KernelProfile:
    """Characterise one launch; a file must hold just one.

    With a GPU it is compiled for that one, and its caches, its machine instructions and what warps wait for are part
    of the profile; without one it is compiled for sm_70, and the profile holds what no GPU changes. ``late`` copies
    asynchronously when that is waited for, so that a read before it is a KernelFault.
    """
    if not isinstance(launch, Launch):
        launches = load_launches(launch)
        if len(launches) > 1:
            raise InputError(f"{launch} has {len(launches)} launches", cure="Pass one of load_launches(path).")
        launch = launches[0]
    gpus = resolve_gpus(gpu) if gpu is not None else []
    if len(gpus) > 1:
        raise InputError(f"{len(gpus)} GPUs are named for one profile", cure="Name one GPU.")
    otherwise = _FIRST_WITH_COPIES if late else _DEFAULT_ARCHITECTURE
    architecture = gpus[0][0].architecture.code_name if gpus else otherwise
    compiled = compile_launch(launch, [architecture]).kernel_for(architecture)
    if gpus:
        check_can_run(launch, compiled.resources, gpus[0][0])
    report = (lambda done, total: progress(f"executing {launch.label}", done, total)) if progress else None
    executed = run_launch(compiled, launch, budget, report, "late" if late else "native")
    found = with_compiler_caveats(profile_of(executed.trace, executed.sampler, compiled, launch), compiled)
    return _with_gpu(found, executed, *gpus[0], progress) if gpus else found


def _with_gpu(
    found: KernelProfile, executed: Executed, gpu: GPU, assumed: tuple[Caveat, ...], progress: Progress | None
) -> KernelProfile:
    """Add what the caches, the machine code and the warps of a GPU tell."""
    from kerncast.execute.on_gpu import with_gpu, without_caches  # noqa: PLC0415  a forecast does without
    from kerncast.execute.recording import LaunchRecorder  # noqa: PLC0415
    from kerncast.models.sm.simulation import with_warp_states  # noqa: PLC0415

    report = (lambda done, total: progress(f"caches of {gpu.name}", done, total)) if progress else None
    try:
        found = with_gpu(found, executed, gpu, report)
    except MachineLimitError as limit:
        found = without_caches(found, executed, limit)
    if progress:
        progress(f"simulating {found.kernel} on {gpu.name}", 0, 0)
    try:
        found = with_warp_states(found, gathered(found, gpu, LaunchRecorder.after(executed), progress), gpu)
    except Refusal as refusal:
        note = Caveat.of(CaveatKind.WARP_STATES_NOT_SIMULATED, reason=refusal.what)
        found = replace(found, caveats=(*found.caveats, note))
    return replace(found, caveats=(*assumed, *found.caveats))
