"""Files of ``kerncast measure`` become cases: launches of the suite are simulated, others named."""

from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.launch import load_launches
from kerncast.measurements import Configuration, Trial
from kerncast.studies.zero_shot.cases import study_cases
from kerncast.studies.zero_shot.measured_launches import simulate_measured
from tests.unit.measurements.test_measurement_files import MACHINE, record
from tests.unit.read.test_observations import SUITE, configuration, trials


def of_suite(name: str) -> Configuration:
    """Return the first launch of a program of the suite as it is measured."""
    launch = load_launches(SUITE / f"{name}.toml")[0]
    arguments = tuple((each.name, str(each.value)) for each in launch.arguments)
    like = configuration(f"seed/{name}#0")
    assert launch.kernel is not None
    return replace(like, kernel=launch.kernel, grid=launch.grid, block=launch.block, arguments=arguments)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    lines: list[Configuration | Trial] = []
    for each in (of_suite("saxpy"), of_suite("vector_add"), configuration("mine/own#3")):
        lines += [each, *trials(each.key, 2.0e-6, 2.2e-6)]
    return [
        record(tmp_path / f"{number}.jsonl", *lines, machine=replace(MACHINE, gpu_name=name))
        for number, name in enumerate(("NVIDIA H200", "NVIDIA T4"))
    ]


def test_measured_launches_are_simulated(files: list[Path]) -> None:
    found = simulate_measured(files)
    assert [(each.kernel, each.gpu) for each in found.cases] == [
        (kernel, gpu) for gpu in ("h200", "t4") for kernel in ("saxpy", "vector_add")
    ]
    assert all(each.by("simulation") and each.by("roofline") for each in found.cases)
    assert found.cases[0].seconds == pytest.approx(2.1e-6)
    assert [reason.endswith("its source is not known") for reason in found.refused] == [True, True]
    assert len(study_cases(found.cases).every) == 4
