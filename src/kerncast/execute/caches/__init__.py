"""Caches of one GPU, run on what a launch accesses."""

from kerncast.execute.caches.simulate import CacheCounts, Simulation, simulate

__all__ = ["CacheCounts", "Simulation", "simulate"]
