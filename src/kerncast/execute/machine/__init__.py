"""Machine instructions (SASS) that a launch executes, without a GPU."""

from kerncast.execute.machine.mix import machine_mix

__all__ = ["machine_mix"]
