"""Level 1 of BLAS: vectors.

Source: Lawson et al., "Basic Linear Algebra Subprograms for Fortran Usage", ACM Trans. Math. Softw. 5 (1979) 308;
cuBLAS Library User's Guide 12.9, section 2.5.
"""

import math
from collections.abc import Callable

import numpy as np

from kerncast.device.libraries.operands import INT32, Arguments, Array, Format, Number, Work


def _vector(call: Arguments, count: int, form: Format | None = None) -> Array:
    """Take a vector's pointer and step."""
    address, step = call.pointer(), call.integer()
    return call.memory.vector(address, count, step, form or call.form)


def _reduction(of: Callable[[Array], Number], *, gives_index: bool = False) -> Callable[[Arguments], Work | None]:
    """Return a routine that makes one number of a vector, 0 of an empty one or one without a positive step."""

    def routine(call: Arguments) -> Work | None:
        count = call.integer()
        address, step = call.pointer(), call.integer()
        result = call.result(1, INT32 if gives_index else call.form.real)
        if count <= 0 or step <= 0:
            result.put(0)
            return None
        result.put(of(call.memory.vector(address, count, step, call.form)))
        return call.work(count, count)

    return routine


def _sizes(x: Array) -> Array:
    """Return absolute values as BLAS compares and sums them: of complex numbers those of both parts together."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def norm(x: Array) -> Number:
    """Return the Euclidean norm, without overflow or underflow on the way."""
    wide = np.abs(x).astype(np.float64)
    largest = float(wide.max(initial=0.0))
    if not 0 < largest < math.inf:
        return largest
    return largest * math.sqrt(float(np.square(wide / largest).sum()))


iamax = _reduction(lambda x: int(np.argmax(_sizes(x))) + 1, gives_index=True)
iamin = _reduction(lambda x: int(np.argmin(_sizes(x))) + 1, gives_index=True)
asum = _reduction(lambda x: _sizes(x).sum(dtype=np.float64))
nrm2 = _reduction(norm)


def _inner(*, conjugates: bool) -> Callable[[Arguments], Work | None]:
    def routine(call: Arguments) -> Work | None:
        count = call.integer()
        x, y = _vector(call, count), _vector(call, count)
        call.result().put(np.dot(x.conj() if conjugates else x, y) if count > 0 else 0)
        return call.work(count, 2 * count) if count > 0 else None

    return routine


dot = _inner(conjugates=False)
dotc = _inner(conjugates=True)


def axpy(call: Arguments) -> Work | None:
    """Add a multiple of a vector to another one."""
    count, alpha = call.integer(), call.scalar()
    x, y = _vector(call, count), _vector(call, count)
    if count <= 0 or alpha == 0:
        return None
    y[...] = alpha * x + y
    return call.work(count, 3 * count)


def copy(call: Arguments) -> Work | None:
    """Copy a vector."""
    count = call.integer()
    x, y = _vector(call, count), _vector(call, count)
    y[...] = x.copy()
    return call.work(0, 2 * count) if count > 0 else None


def swap(call: Arguments) -> Work | None:
    """Exchange two vectors."""
    count = call.integer()
    x, y = _vector(call, count), _vector(call, count)
    x[...], y[...] = y.copy(), x.copy()
    return call.work(0, 4 * count) if count > 0 else None


def _scaled(call: Arguments, form: Format) -> Work | None:
    count, alpha = call.integer(), call.scalar(form)
    address, step = call.pointer(), call.integer()
    if count <= 0 or step <= 0:
        return None
    call.memory.vector(address, count, step, call.form)[...] *= alpha
    return call.work(count, 2 * count)


def scal(call: Arguments) -> Work | None:
    """Multiply a vector by a number."""
    return _scaled(call, call.form)


def real_scal(call: Arguments) -> Work | None:
    """Multiply a complex vector by a real number."""
    return _scaled(call, call.form.real)


def _rotated(call: Arguments, sine: Format) -> Work | None:
    count = call.integer()
    x, y = _vector(call, count), _vector(call, count)
    c, s = call.scalar(call.form.real), call.scalar(sine)
    if count <= 0:
        return None
    x[...], y[...] = c * x + s * y, c * y - np.conj(s) * x
    return call.work(2 * count, 4 * count)


def rot(call: Arguments) -> Work | None:
    """Rotate the points whose coordinates are two vectors."""
    return _rotated(call, call.form)


def real_rot(call: Arguments) -> Work | None:
    """Rotate by a real sine."""
    return _rotated(call, call.form.real)


def rotg(call: Arguments) -> Work | None:
    """Find the rotation that turns a point onto the first axis."""
    a, b = call.result(), call.result()
    c, s = call.result(1, call.form.real), call.result()
    given = a.view[0].item(), b.view[0].item()
    found = _complex_rotation(*given) if call.form.is_complex else _rotation(*given)
    for place, value in zip((a, b, c, s), found, strict=True):
        if value is not None:
            place.put(value)
    return call.work(4, 4)


def _rotation(a: float, b: float) -> tuple[float, float, float, float]:
    """Return r, the number that c and s can be told from, c and s."""
    if a == 0 and b == 0:
        return 0.0, 0.0, 1.0, 0.0
    r = math.copysign(math.hypot(a, b), a if abs(a) > abs(b) else b)
    c, s = a / r, b / r
    return r, s if abs(a) > abs(b) else 1 / c if c else 1.0, c, s


def _complex_rotation(a: complex, b: complex) -> tuple[complex, None, float, complex]:
    if a == 0:
        return b, None, 0.0, 1.0
    size = math.hypot(abs(a), abs(b))
    turn = a / abs(a)
    return turn * size, None, abs(a) / size, turn * b.conjugate() / size


def rotm(call: Arguments) -> Work | None:
    """Apply a modified rotation, whose matrix has ones or zeros at the places that its flag tells."""
    count = call.integer()
    x, y = _vector(call, count), _vector(call, count)
    flag, h11, h21, h12, h22 = call.scalars(5)
    if count <= 0 or flag == -2:
        return None
    one = x.dtype.type(1)
    if flag == 0:
        h11, h22 = one, one
    elif flag == 1:
        h12, h21 = one, -one
    x[...], y[...] = h11 * x + h12 * y, h21 * x + h22 * y
    return call.work(2 * count, 4 * count)


#: Modified rotations keep their scales between 1 / this squared and this squared.
_GAMMA = 4096.0


def rotmg(call: Arguments) -> Work | None:
    """Find the modified rotation that makes the second of two scaled coordinates zero."""
    d1, d2, x1 = call.result(), call.result(), call.result()
    y1, matrix = float(call.scalar()), call.result(5)
    found = _modified(float(d1.view[0]), float(d2.view[0]), float(x1.view[0]), y1)
    old = matrix.view.copy()
    for place, value in zip((d1, d2, x1), found[:3], strict=True):
        place.put(value)
    matrix.put([old[n] if each is None else each for n, each in enumerate(found[3])])
    return call.work(8, 8)


def _modified(d1: float, d2: float, x1: float, y1: float) -> tuple[float, float, float, tuple[float | None, ...]]:
    """Return the new scales and coordinate, and flag, h11, h21, h12, h22: None where the flag tells them."""
    p2 = d2 * y1
    if d1 < 0:
        return 0.0, 0.0, 0.0, (-1.0, 0.0, 0.0, 0.0, 0.0)
    if p2 == 0:
        return d1, d2, x1, (-2.0, None, None, None, None)
    p1 = d1 * x1
    q1, q2 = p1 * x1, p2 * y1
    if abs(q1) > abs(q2):
        h21, h12 = -y1 / x1, p2 / p1
        u = 1 - h12 * h21
        if u <= 0:
            return 0.0, 0.0, 0.0, (-1.0, 0.0, 0.0, 0.0, 0.0)
        return _rescaled((d1 / u, d2 / u, x1 * u), (1.0, h21, h12, 1.0), 0.0)
    if q2 < 0:
        return 0.0, 0.0, 0.0, (-1.0, 0.0, 0.0, 0.0, 0.0)
    h11, h22 = p1 / p2, x1 / y1
    u = 1 + h11 * h22
    return _rescaled((d2 / u, d1 / u, y1 * u), (h11, -1.0, 1.0, h22), 1.0)


def _rescaled(
    scales: tuple[float, float, float], matrix: tuple[float, float, float, float], flag: float
) -> tuple[float, float, float, tuple[float | None, ...]]:
    """Bring the scales into their range, and tell of the matrix what the flag does not."""
    (d1, d2, x1), (h11, h21, h12, h22) = scales, matrix
    square = _GAMMA * _GAMMA
    while 0 < d1 <= 1 / square or square <= d1 < math.inf:
        up = d1 <= 1 / square
        d1, factor = (d1 * square, 1 / _GAMMA) if up else (d1 / square, _GAMMA)
        x1, h11, h12, flag = x1 * factor, h11 * factor, h12 * factor, -1.0
    while 0 < abs(d2) <= 1 / square or square <= abs(d2) < math.inf:
        up = abs(d2) <= 1 / square
        d2, factor = (d2 * square, 1 / _GAMMA) if up else (d2 / square, _GAMMA)
        h21, h22, flag = h21 * factor, h22 * factor, -1.0
    if flag == 0:
        return d1, d2, x1, (flag, None, h21, h12, None)
    if flag == 1:
        return d1, d2, x1, (flag, h11, None, None, h22)
    return d1, d2, x1, (flag, h11, h21, h12, h22)
