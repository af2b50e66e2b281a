"""Loading the compiled simulator: without scipy, and numba is as it was afterwards."""

import subprocess
import sys
import threading

import pytest

CODE = """
import sys
import numpy as np
from kerncast.models.sm.simulate import prepare
prepare()
assert "numba.np.arraymath" in sys.modules
assert "scipy.linalg" not in sys.modules
import numba
multiplied = numba.njit(lambda a, b: a @ b)(np.eye(3), np.arange(9.0).reshape(3, 3))
assert multiplied.sum() == 36.0
assert numba.np.arraymath._HAVE_BLAS
import scipy.linalg
assert scipy.linalg.det(np.eye(3)) == 1.0
"""


def test_the_simulator_loads_without_scipy_and_numba_multiplies_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [threading.Thread, threading.Timer])
def test_beside_another_thread_nothing_is_done(kind: type[threading.Thread], monkeypatch: pytest.MonkeyPatch) -> None:
    from kerncast.models.sm.simulate import simulator

    end = threading.Event()
    thread = threading.Timer(60, end.set) if kind is threading.Timer else threading.Thread(target=end.wait)
    monkeypatch.setattr(simulator, "_ASKS", "no.such.module")
    monkeypatch.setattr(simulator, "_BLAS", "nor.this")
    thread.start()
    try:
        with simulator.without_blas():
            assert ("nor.this" in sys.modules) is (kind is threading.Timer and threading.active_count() == 2)
    finally:
        end.set()
        if isinstance(thread, threading.Timer):
            thread.cancel()
        thread.join()
    assert "nor.this" not in sys.modules
