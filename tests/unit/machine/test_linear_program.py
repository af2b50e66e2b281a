"""The interior-point method against all corners of small programs."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kerncast.machine import frequencies
from kerncast.machine.linear_program import NotSolvedError, solve_linear_program

GOLDEN = Path(__file__).parents[2] / "golden" / "machine"
SMALL = st.integers(-4, 4)


@given(st.data())
def test_no_corner_is_better(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 3)), data.draw(st.integers(3, 6))
    matrix = np.array(data.draw(st.lists(SMALL, min_size=rows * columns, max_size=rows * columns)), float)
    matrix = matrix.reshape(rows, columns)
    assume(np.linalg.matrix_rank(matrix) == rows)
    inside = np.array(data.draw(st.lists(st.integers(0, 5), min_size=columns, max_size=columns)), float)
    costs = np.array(data.draw(st.lists(st.integers(0, 9), min_size=columns, max_size=columns)), float)
    right = matrix @ inside
    best = corner_value(costs, matrix, right)
    found = solve_linear_program(costs, matrix, right)
    assert found.min() >= 0
    assert matrix @ found == pytest.approx(right, abs=1e-3)
    assert costs @ found == pytest.approx(best, abs=2e-2)


def corner_value(costs: np.ndarray, matrix: np.ndarray, right: np.ndarray) -> float:
    """Return the least costs over all basic solutions."""
    values = []
    for basis in combinations(range(matrix.shape[1]), matrix.shape[0]):
        part = matrix[:, basis]
        if abs(np.linalg.det(part)) > 1e-8:
            x = np.linalg.solve(part, right)
            if x.min() > -1e-8:
                values.append(float(costs[list(basis)] @ x))
    return min(values)


def test_contradicting_rows_are_reported() -> None:
    with pytest.raises(NotSolvedError):
        solve_linear_program(np.ones(2), np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([1.0, 5.0]))


@pytest.mark.parametrize("size", [1.0, 1413.0, 3e9])
def test_frequencies_are_whole_where_the_solution_is(size: float) -> None:
    """Digits beyond the solver's tolerance differ between processors, and the simulation would follow them."""
    program = frequencies._Program.__new__(frequencies._Program)
    program.edges, program.costs = [(0, 1), (0, 2)], [1.0, 2.0]
    program.rows, program.right = [{0: 1.0, 1: 1.0}], [size]
    assert solve_linear_program(np.array([1.0, 2.0]), np.ones((1, 2)), np.array([1.0]))[0] != 1.0
    assert program.solve().tolist() == [size, 0.0]


def test_a_program_of_very_different_sizes_is_solved() -> None:
    """The frequencies of a product's machine code, of 8192 turns, whose least costs HiGHS finds (2.0864454).

    Whether its normal equations had digits enough depended on the processor: a product took 1.5 times as long where
    they had not, by the averages of its PTX.
    """
    with np.load(GOLDEN / "mainloop_program.npz") as held:
        matrix = np.zeros((len(held["right"]), len(held["costs"])))
        matrix[held["rows"], held["columns"]] = held["values"]
        costs, right = held["costs"], held["right"]
    found = solve_linear_program(costs, matrix, right)
    assert costs @ found == pytest.approx(2.0864454, rel=1e-4)
    assert matrix @ found == pytest.approx(right, abs=1e-3)
