"""Every program of examples/kernels compiles, runs, and leaves in memory what its check in NumPy expects."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kerncast.bench import KERNELS
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Launch, load_launches, read_toml
from tests.helpers.programs import (
    ARCHITECTURES,
    EXAMPLES,
    arguments_before,
    base_name,
    bound_arguments,
    checks,
    compiled,
    difference,
    every_architecture,
    first_launches,
    launch_files,
)
from tests.helpers.thorough import THOROUGH

CHECKS = dict(checks())

SUITE_OF_16 = read_toml(KERNELS / "suite.toml")["seed"]

FIRST_LAUNCHES = {
    f"{path.stem}-{kernel or 'only'}": launch
    for path in launch_files()
    for kernel, launch in first_launches(path).items()
}
CASES = [pytest.param(launch, id=name) for name, launch in FIRST_LAUNCHES.items()]
#: Launches, by their place in the file, that take other paths than the first: other template instances, other edges.
FURTHER = [
    pytest.param("conv2d_variants.toml", 10, id="conv2d_variants-blocks_of_8"),
    pytest.param("conv2d_variants.toml", 16, id="conv2d_variants-size_14"),
    pytest.param("shared_bank_conflict.toml", 1, id="shared_bank_conflict-broadcast"),
]
FILES = [pytest.param(path, id=path.stem) for path in launch_files()]


@pytest.mark.parametrize("launch", CASES)
def test_memory_after_the_first_launch(launch: Launch) -> None:
    check_memory_after(launch)


@pytest.mark.parametrize(("name", "index"), FURTHER)
def test_memory_after_further_launches(name: str, index: int) -> None:
    check_memory_after(load_launches(EXAMPLES / "kernels" / name)[index])


def check_memory_after(launch: Launch) -> None:
    kernel = compiled(launch, tuple(ARCHITECTURES)).kernels[0]  # together, as another test needs both
    name = base_name(kernel.kernel)
    assert name in CHECKS, f"no function {name} in examples/checks"
    check = CHECKS[name]
    before = arguments_before(kernel, launch)
    kept = {key: value.copy() for key, value in before.items() if isinstance(value, np.ndarray)}
    expected = check.expect(before)
    trace, _ = execute(kernel, launch, WholeGrid())
    assert len(trace.block_ids) == launch.blocks
    assert not set(expected) - set(trace.memory)
    for buffer, contents in trace.memory.items():
        if buffer not in check.scratch:
            tolerance = check.tolerance if buffer in expected else 0.0
            assert difference(contents, expected.get(buffer, kept[buffer]), tolerance) is None, buffer


def ends(path: Path) -> list[Launch]:
    """Return the first and the last launch of each kernel of a file, which are its smallest and its largest."""
    last = {base_name(launch.kernel): launch for launch in load_launches(path)}
    return [*first_launches(path).values(), *last.values()]


@pytest.mark.parametrize("path", FILES)
def test_every_launch_compiles_and_takes_its_arguments(path: Path) -> None:
    for launch in load_launches(path) if THOROUGH else ends(path):
        source = compiled(launch, tuple(ARCHITECTURES))
        assert [kernel.architecture for kernel in source.kernels] == ARCHITECTURES
        assert not [kernel.caveats for kernel in source.kernels if kernel.caveats]
        bound_arguments(source.kernels[0], launch)


def architectures_for(stem: str) -> tuple[str, ...]:
    """Return the oldest and the newest architecture, the first of each compiler, and this kernel's share of the others.

    What a source may use grows with the architecture, so that the ends tell; each between them compiles some kernel.
    """
    every = every_architecture()
    own = every[SUITE_OF_16.index(stem) :: len(SUITE_OF_16)]
    return tuple(name for name in every if name in {every[0], "sm_35", "sm_50", every[-1], *own})


@pytest.mark.parametrize("stem", SUITE_OF_16)
def test_the_suite_of_16_kernels_compiles_for_old_and_new_architectures(stem: str) -> None:
    architectures = architectures_for(stem)
    assert {"sm_30", "sm_35", "sm_50", "sm_121"} <= set(architectures)
    for kernel, launch in first_launches(EXAMPLES / "kernels" / f"{stem}.toml").items():
        source = compiled(launch, architectures)
        assert all(each.cubin and kernel in each.mangled for each in source.kernels)
        caveats = {each.architecture for each in source.kernels if each.caveats}
        assert caveats <= {"sm_30", "sm_32"}, "their code comes from sm_35"


def test_every_architecture_compiles_some_kernel_of_the_suite() -> None:
    assert {name for stem in SUITE_OF_16 for name in architectures_for(stem)} == set(every_architecture())


def test_kernels_and_checks_match() -> None:
    assert {name: count for name, count in Counter(name for name, _ in checks()).items() if count > 1} == {}
    launches = FIRST_LAUNCHES.values()
    assert set(CHECKS) == {base_name(each.kernel or compiled(each).kernels[0].kernel) for each in launches}


def test_every_source_has_a_launch() -> None:
    launched = {load_launches(path)[0].source.resolve() for path in launch_files()}
    assert launched == {path.resolve() for path in (EXAMPLES / "kernels").glob("*.cu")}


def test_the_suite_of_16_kernels_has_71_configurations() -> None:
    launches = [launch for stem in SUITE_OF_16 for launch in load_launches(EXAMPLES / "kernels" / f"{stem}.toml")]
    assert len({base_name(launch.kernel) for launch in launches}) == len(SUITE_OF_16) == 16
    distinct = {(launch.kernel, launch.grid, launch.block, launch.arguments) for launch in launches}
    assert len(distinct) == len(launches) == 71
