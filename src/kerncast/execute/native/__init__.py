"""The fast engine: PTX as code of this CPU, a warp as vectors of 32 lanes."""

from kerncast.execute.native.jit import TooLargeError
from kerncast.execute.native.runner import NativeEngine

__all__ = ["NativeEngine", "TooLargeError"]
