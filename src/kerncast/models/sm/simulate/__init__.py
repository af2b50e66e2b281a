"""VERB simulate: micro-ops and a trace of the blocks of one SM become the cycles that it takes."""

from kerncast.models.sm.simulate.simulator import is_prepared, kept_in, prepare, simulate

__all__ = ["is_prepared", "kept_in", "prepare", "simulate"]
