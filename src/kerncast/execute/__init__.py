"""VERB execute: a compiled kernel and a launch become a KernelProfile, on the CPU."""

from kerncast.execute.budget import Budget, WholeGrid
from kerncast.execute.characterise import characterise, profile_of
from kerncast.execute.run import execute

__all__ = ["Budget", "WholeGrid", "characterise", "execute", "profile_of"]
