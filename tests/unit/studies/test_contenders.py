"""GPUs that compete: the power limit lowers clocks, and only where it has to."""

import math

import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import InputError
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.models.energy import least_clock_hz
from kerncast.profiles import KernelProfile
from kerncast.read.declared import declared_profile
from kerncast.studies.comparing.contenders import Contender, contenders_of
from tests.helpers.caveats import kinds, only

ARITHMETIC = declared_profile("k", (40960, 1, 1), (256, 1, 1), fp32_flops=1e12, dram_bytes=1e6)
STREAM = declared_profile("k", (4096, 1, 1), (256, 1, 1), fp32_flops=1e6, dram_bytes=1e9)


def contender(name: str, *, counts: KernelProfile = ARITHMETIC, clock: str | None = None) -> Contender:
    field = contenders_of([counts], resolve_gpus([name]), Options(clock=clock))
    return field.groups[0].contenders[0]


def test_arithmetic_on_a_board_of_70_watts_is_slowed_down() -> None:
    found = contender("t4")
    told = only(found.caveats, CaveatKind.POWER_LIMITED)
    assert found.is_capped
    assert float(told.details["watts"]) > 70
    assert found.energy is not None
    assert 0.9 * 70 < found.energy.watts <= 70
    assert least_clock_hz(found.gpu) <= found.gpu.clock_hz < found.own_clock_hz
    (alone,) = forecast_all([ARITHMETIC], [(found.gpu, ())], Options()).predictions
    assert found.total.seconds == pytest.approx(alone.seconds), "forecast again at the lower clock"
    (before,) = forecast_all([ARITHMETIC], resolve_gpus(["t4"]), Options()).predictions
    assert found.total.seconds / before.seconds == pytest.approx(found.own_clock_hz / found.gpu.clock_hz, rel=0.01)
    assert found.total.low <= before.seconds, "the interval keeps the clocks above"


def test_no_clock_is_lowered_without_need() -> None:
    for name, counts in (("t4", STREAM), ("a100-sxm-80gb", ARITHMETIC)):
        found = contender(name, counts=counts)
        assert not found.is_capped
        assert kinds(found.caveats) == []


def test_the_base_clock_is_guaranteed() -> None:
    found = contender("t4", clock="base")
    assert not found.is_capped
    assert found.gpu.clock_hz == found.own_clock_hz == found.gpu.clock_base_hz


def test_several_launches_are_one_run() -> None:
    field = contenders_of([ARITHMETIC, STREAM], resolve_gpus(["a100-sxm-80gb"]), Options())
    (found,) = field.groups[0].contenders
    assert found.total.seconds == pytest.approx(math.fsum(each.seconds for each in found.predictions))


def test_other_levels_are_refused() -> None:
    with pytest.raises(InputError, match="90 % intervals"):
        contenders_of([STREAM], resolve_gpus(["t4"]), Options(level=0.5))
