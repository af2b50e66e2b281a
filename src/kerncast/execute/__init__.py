"""VERB execute: a compiled kernel and a launch become a KernelProfile, on the CPU."""

from kerncast.execute.counting import profile_of
from kerncast.execute.sampling.run import Executed, execute, run_launch
from kerncast.execute.sampling.sample import Budget, WholeGrid

__all__ = ["Budget", "Executed", "WholeGrid", "execute", "profile_of", "run_launch"]
