"""What the programs for n-body, Fourier transform, sparse product, scan and radix sort must compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Results = dict[str, Any]

#: Tight enough to see an error in the sixth digit of a twiddle factor.
TOLERANCE = {"fft_block": 1e-6, "fft_pass": 1e-6}


def nbody_step(before: Arguments) -> Results:
    """Newton's law for all pairs, with the force softened near zero, and a semi-implicit Euler step."""
    position, velocity = before["position"].astype(np.float64), before["velocity"].astype(np.float64)
    place, mass, dt = position[:, :3], position[:, 3], before["dt"]
    squares = (place**2).sum(axis=1)
    distance2 = squares[:, None] + squares - 2 * place @ place.T + before["softening"]
    strength = mass * distance2**-1.5
    acceleration = strength @ place - strength.sum(axis=1)[:, None] * place
    velocity[:, :3] += dt * acceleration
    return {"velocity": velocity, "next": np.column_stack([place + dt * velocity[:, :3], mass])}


def _complex(pairs: Any) -> Any:
    return pairs[..., 0].astype(np.float64) + 1j * pairs[..., 1]


def _pairs(numbers: Any) -> Any:
    return np.stack([numbers.real, numbers.imag], axis=-1)


def fft_block(before: Arguments) -> Results:
    """One transform per row."""
    return {"output": _pairs(np.fft.fft(_complex(before["input"])))}


def fft_pass(before: Arguments) -> Results:
    """The second half is turned by its twiddle factors, then both halves go through a transform of two points."""
    done, points = before["done"], before["points"]
    halves = _complex(before["input"]).reshape(2, points // (2 * done), done)
    halves[1] *= np.exp(-1j * np.pi * np.arange(done) / done)
    both = np.fft.fft(halves, axis=0)
    return {"output": _pairs(both.transpose(1, 0, 2).reshape(points))}


def spmv_csr_scalar(before: Arguments) -> Results:
    """The sum over each row's entries of value times x."""
    used = np.arange(before["slack"]) < before["row_length"][:, None]
    products = before["value"].astype(np.float64) * before["x"][before["column"]]
    return {"y": (products * used).sum(axis=1)}


def spmv_csr_vector(before: Arguments) -> Results:
    """The same."""
    return spmv_csr_scalar(before)


def scan_block(before: Arguments) -> Results:
    """Every row's sums of all elements before each, and the row's sum."""
    values = before["input"].astype(np.float64)
    sums = values.sum(axis=1)
    later = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return {"output": sums[:, None] - later, "sums": sums}


def scan_add_sums(before: Arguments) -> Results:
    """Every row grows by its number."""
    return {"output": before["output"].astype(np.float64) + before["scanned_sums"][:, None]}


def _digits(before: Arguments) -> Any:
    return before["keys"] // 2 ** before["shift"] % 16


def radix_count(before: Arguments) -> Results:
    """How often each digit stands in each tile."""
    return {"counts": np.array([np.bincount(tile, minlength=16) for tile in _digits(before)]).T}


def radix_scan(before: Arguments) -> Results:
    """The sum of all counts before each."""
    counts = before["counts"].ravel()
    return {"counts": (np.cumsum(counts) - counts).reshape(before["counts"].shape)}


def radix_scatter(before: Arguments) -> Results:
    """Every bucket holds the keys of its digit and tile, in their order."""
    result = before["sorted"].copy()
    for tile, (keys, digits) in enumerate(zip(before["keys"], _digits(before), strict=True)):
        for digit in range(16):
            found = keys[digits == digit]
            result[before["offsets"][digit, tile], : len(found)] = found
    return {"sorted": result}
