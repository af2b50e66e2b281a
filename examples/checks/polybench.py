"""What the PolyBench-GPU equivalents must compute: linear algebra."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Results = dict[str, Any]


def _doubles(before: Arguments, names: str) -> list[Any]:
    """Return these buffers in double precision, so that the check's own rounding does not count."""
    return [before[name].astype(np.float64) for name in names.split()]


def polybench_2mm_first(before: Arguments) -> Results:
    """C += A B."""
    a, b, c = _doubles(before, "A B C")
    return {"C": c + a @ b}


def polybench_2mm_second(before: Arguments) -> Results:
    """E += C D."""
    c, d, e = _doubles(before, "C D E")
    return {"E": e + c @ d}


def polybench_3mm_first(before: Arguments) -> Results:
    """E += A B."""
    a, b, e = _doubles(before, "A B E")
    return {"E": e + a @ b}


def polybench_3mm_second(before: Arguments) -> Results:
    """F += C D."""
    c, d, f = _doubles(before, "C D F")
    return {"F": f + c @ d}


def polybench_3mm_third(before: Arguments) -> Results:
    """G += E F."""
    e, f, g = _doubles(before, "E F G")
    return {"G": g + e @ f}


def polybench_atax_rows(before: Arguments) -> Results:
    """Ax += A x."""
    a, x, product = _doubles(before, "A x Ax")
    return {"Ax": product + a @ x}


def polybench_atax_columns(before: Arguments) -> Results:
    """Y += A^T (A x)."""
    a, product, y = _doubles(before, "A Ax y")
    return {"y": y + product @ a}


def polybench_bicg_columns(before: Arguments) -> Results:
    """S = A^T r."""
    a, r = _doubles(before, "A r")
    return {"s": r @ a}


def polybench_bicg_rows(before: Arguments) -> Results:
    """Q = A p."""
    a, p = _doubles(before, "A p")
    return {"q": a @ p}


def polybench_gemm(before: Arguments) -> Results:
    """C = alpha A B + beta C."""
    a, b, c = _doubles(before, "A B C")
    return {"C": before["alpha"] * a @ b + before["beta"] * c}


def polybench_gesummv(before: Arguments) -> Results:
    """Y = alpha A x + beta (y + B x), with A x kept as well."""
    a, b, x, y, product = _doubles(before, "A B x y Ax")
    product += a @ x
    return {"Ax": product, "y": before["alpha"] * product + before["beta"] * (y + b @ x)}


def polybench_gramschmidt_norm(before: Arguments) -> Results:
    """R[k, k] is the length of column k."""
    a, r = _doubles(before, "A R")
    k = before["k"]
    r[k, k] = np.linalg.norm(a[:, k])
    return {"R": r}


def polybench_gramschmidt_scale(before: Arguments) -> Results:
    """Column k of Q is that of A, divided by R[k, k]."""
    a, r, q = _doubles(before, "A R Q")
    k = before["k"]
    q[:, k] = a[:, k] / r[k, k]
    return {"Q": q}


def polybench_gramschmidt_remove(before: Arguments) -> Results:
    """The later columns of A lose their share of column k of Q, which goes to R."""
    a, r, q = _doubles(before, "A R Q")
    k = before["k"]
    r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
    a[:, k + 1 :] -= np.outer(q[:, k], r[k, k + 1 :])
    return {"A": a, "R": r}


def polybench_mvt_rows(before: Arguments) -> Results:
    """x1 += A y1."""
    a, x, y = _doubles(before, "A x1 y1")
    return {"x1": x + a @ y}


def polybench_mvt_columns(before: Arguments) -> Results:
    """x2 += A^T y2."""
    a, x, y = _doubles(before, "A x2 y2")
    return {"x2": x + y @ a}


def polybench_syrk(before: Arguments) -> Results:
    """C = alpha A A^T + beta C."""
    a, c = _doubles(before, "A C")
    return {"C": before["alpha"] * a @ a.T + before["beta"] * c}


def polybench_syr2k(before: Arguments) -> Results:
    """C = alpha (A B^T + B A^T) + beta C."""
    a, b, c = _doubles(before, "A B C")
    product = a @ b.T
    return {"C": before["alpha"] * (product + product.T) + before["beta"] * c}
