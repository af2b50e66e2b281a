"""The memory in which the engines are compared: what lies beside it cannot be touched, and its values can."""

import ctypes
import faulthandler

import numpy as np
import pytest

from kerncast.child_process import EndedError, Room, alone, is_possible
from kerncast.execute.setup.arena import Arena
from tests.helpers.guarded_memory import PAGE, guarded, guarded_launches


@pytest.mark.parametrize("nbytes", [1, 256, PAGE, PAGE + 256])
@pytest.mark.parametrize("at_end", [True, False])
def test_all_of_it_can_be_touched(nbytes: int, *, at_end: bool) -> None:
    data = guarded(nbytes, at_end=at_end)
    assert len(data) == nbytes
    data[:] = 7
    assert data.sum() == 7 * nbytes
    assert (data.ctypes.data + (nbytes if at_end else 0)) % PAGE == 0


@pytest.mark.skipif(not is_possible(), reason="only Linux forks here")
@pytest.mark.parametrize(("at_end", "beyond"), [(True, 256), (False, -1)])
def test_what_lies_beside_it_ends_the_process(beyond: int, *, at_end: bool) -> None:
    with guarded_launches(at_end=at_end):
        memory = Arena.for_buffers([("x", 100)]).data
    place = memory.ctypes.data + (len(memory) - 256 if beyond > 0 else 0) + beyond

    def touch(_: object) -> int:
        faulthandler.disable()
        return int(ctypes.c_uint8.from_address(place).value)

    assert np.count_nonzero(memory) == 0
    with pytest.raises(EndedError, match="by signal SIGSEGV"):
        alone(int, touch, Room())
