"""Scripts in Python that launch kernels of Triton, Numba or CuPy: run here, without a GPU, and recorded."""

from kerncast.scripts.here import record
from kerncast.scripts.session import Recorded, Script, record_script

__all__ = ["Recorded", "Script", "record", "record_script"]
