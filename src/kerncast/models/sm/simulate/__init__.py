"""VERB simulate: micro-ops and a trace of the blocks of one SM become the cycles that it takes."""

from kerncast.models.sm.simulate.known_answer import wrong_answer
from kerncast.models.sm.simulate.simulator import (
    hand_on_machine_code,
    is_prepared,
    prepare,
    simulate,
    simulate_together,
)

__all__ = ["hand_on_machine_code", "is_prepared", "prepare", "simulate", "simulate_together", "wrong_answer"]
