"""What a profile lacks, from the execution of its kernel's source."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

from kerncast.characterised import Progress, characterise_launch
from kerncast.execute import Budget
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.launch import Launch
from kerncast.models.demands import float_mixes_of, memory_levels_of
from kerncast.remembered import remembered
from kerncast.tuning import is_tuned_so

_NAME = re.compile(r"[A-Za-z_]\w*")
_NOT_COUNTS = frozenset({"origin"})


def launch_of(profile: KernelProfile, launches: Sequence[Launch]) -> Launch | None:
    """Return the launch that a profile is of: the same kernel, tuned alike, with as many blocks and threads, or None.

    Another launch of the kernel has other counts. Of a grid that a profiler tells only the size of, the size decides.
    """
    settings = profile.run.settings if profile.run else ()
    same_name = [each for each in _of_this_kernel(profile, launches) if is_tuned_so(each, settings)]
    same = [each for each in same_name if (each.grid, each.block) == (profile.grid, profile.block)]
    sizes = prod(profile.grid), prod(profile.block)
    same += [each for each in same_name if (prod(each.grid), prod(each.block)) == sizes]
    return same[0] if same else None


def without_launch(profile: KernelProfile, launches: Sequence[Launch]) -> KernelProfile:
    """Return a profile of which no launch was given; a caveat tells so where other launches of its kernel were."""
    if not _of_this_kernel(profile, launches) or not _lacks_anything(profile):
        return profile
    tuned = ", tuned in this way" if profile.run and profile.run.settings else ""
    other = (
        f"the source that was given has no launch of this kernel with grid {list(profile.grid)} and block"
        f" {list(profile.block)}{tuned}: nothing was counted by executing it"
    )
    return replace(profile, caveats=(*profile.caveats, other))


def _of_this_kernel(profile: KernelProfile, launches: Sequence[Launch]) -> list[Launch]:
    return [each for each in launches if each.kernel is None or _base(each.kernel) == _base(profile.kernel)]


class Executions:
    """What was executed for one forecast, each launch once per GPU: many rows of a profile may be of one launch."""

    def __init__(self) -> None:
        self.on = remembered(64)(_executed_on)


def with_missing_counts(
    profile: KernelProfile,
    launch: Launch,
    budget: Budget | None,
    progress: Progress | None,
    executions: Executions | None = None,
) -> KernelProfile:
    """Execute a launch as compiled for the GPU of a profile, and take from it what the profile lacks."""
    if profile.run is None or not _lacks_anything(profile):
        return profile
    known = executions or Executions()
    return filled(profile, known.on(profile.run.gpu, launch, budget, progress))


def _lacks_anything(profile: KernelProfile) -> bool:
    """Return whether an execution could add to a profile; what only a check asks for counts, too."""
    counts = [
        getattr(noun, field.name)
        for noun in (memory_levels_of(profile), profile.work, profile.traffic)
        for field in fields(noun)
    ]
    active = profile.run.active_threads if profile.run else None
    others = active, float_mixes_of(profile), profile.resources, profile.mix, profile.balance
    return None in counts or None in others


def _executed_on(gpu: GPU, launch: Launch, budget: Budget | None, progress: Progress | None) -> KernelProfile:
    """Return a launch as it was executed, with the caches of a GPU."""
    from kerncast.execute.on_gpu import with_gpu  # noqa: PLC0415  LLVM takes time to load

    name = gpu.architecture.code_name
    known = characterise_launch(launch, [name], budget, progress)
    found = known.on(name)
    if found is None:
        raise known.failures[0].refusal
    return with_gpu(found.profile, found.executed, gpu)


def filled(profile: KernelProfile, executed: KernelProfile) -> KernelProfile:
    """Return a profile with each count that it lacks as it was executed, and the names of these counts."""
    assert profile.run is not None
    missing: list[str] = []
    levels = _filled(memory_levels_of(profile), memory_levels_of(executed), missing)
    work = _filled(profile.work, executed.work, missing)
    traffic = _filled(profile.traffic, executed.traffic, missing)
    mixes = float_mixes_of(profile)
    if mixes is None:
        mixes = float_mixes_of(executed)
        missing.append("float_mix")
    active = profile.run.active_threads
    if active is None and executed.mix is not None:
        active = executed.mix.active_lanes
        missing.append("active_threads")
    if profile.resources is None:
        missing.append("resources")
    return replace(
        profile,
        levels=levels,
        work=work,
        traffic=traffic,
        float_mixes=mixes,
        resources=profile.resources or executed.resources,
        mix=profile.mix or executed.mix,
        balance=profile.balance or executed.balance,
        run=replace(profile.run, active_threads=active, not_in_profile=tuple(dict.fromkeys(missing))),
        caveats=(*profile.caveats, *_said(missing)),
    )


def _filled(noun: Any, other: Any, missing: list[str]) -> Any:
    """Return a noun of counts with those that it lacks from another one."""
    changes = {}
    for field in fields(noun):
        if field.name in _NOT_COUNTS or getattr(noun, field.name) is not None:
            continue
        value = getattr(other, field.name)
        if value is not None:
            changes[field.name] = value
            missing.append(field.name)
    return replace(noun, **changes)


def _said(missing: Iterable[str]) -> tuple[str, ...]:
    names = ", ".join(dict.fromkeys(missing))
    return (f"not in the profile, counted by executing the source: {names}",) if names else ()


def _base(kernel: str) -> str:
    """Return a kernel's name without return type, namespace, template arguments and parameters.

    >>> _base("void ns::reduce<float, 256>(const T1 *, T1 *)"), _base("saxpy")
    ('reduce', 'saxpy')
    """
    before = re.split(r"[<(]", kernel, maxsplit=1)[0]
    names = _NAME.findall(before)
    return names[-1] if names else kernel
