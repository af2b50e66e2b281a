"""The fast engine: PTX as code of this CPU, a warp as vectors of 32 lanes."""

from kerncast.execute.native.engine import NativeEngine
from kerncast.execute.native.jit import TooLargeError

__all__ = ["NativeEngine", "TooLargeError"]
