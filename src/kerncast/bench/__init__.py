"""VERB bench: run launches on a GPU that is here, and keep every sample."""

from pathlib import Path

import kerncast

#: The CUDA programs that are measured: the suite, the microbenchmarks, and the two kernels of the harness.
KERNELS = Path(kerncast.__path__[0]) / "kernels"
