"""cuBLAS: its functions by their names, and those that compute with formats which they are told.

Source: cuBLAS Library User's Guide 12.9.
"""

from collections.abc import Mapping

import numpy as np

from kerncast.device.libraries import matrices, products, vectors
from kerncast.device.libraries.operands import BY_LETTER, Arguments, Array, Format, Routine, Work, require

_NOT_SUPPORTED = 15

_REAL, _COMPLEX, _ALL = "SD", "CZ", "SDCZ"
#: What has a second form: routines by the letters of the formats that they are there for.
_OF_BLAS: tuple[tuple[str, Mapping[str, Routine]], ...] = (
    (_ALL, {
        "axpy": vectors.axpy, "copy": vectors.copy, "swap": vectors.swap, "scal": vectors.scal, "rot": vectors.rot,
        "rotg": vectors.rotg, "gemv": matrices.gemv, "gbmv": matrices.gbmv, "trmv": matrices.trmv,
        "tbmv": matrices.tbmv, "tpmv": matrices.tpmv, "trsv": matrices.trsv, "tbsv": matrices.tbsv,
        "tpsv": matrices.tpsv, "symv": matrices.symv, "syr": matrices.syr, "syr2": matrices.syr2,
        "gemm": products.gemm, "symm": products.symm, "syrk": products.syrk, "syr2k": products.syr2k,
        "trsm": products.trsm, "trmm": products.trmm,
    }),
    (_REAL, {
        "asum": vectors.asum, "nrm2": vectors.nrm2, "dot": vectors.dot, "rotm": vectors.rotm,
        "rotmg": vectors.rotmg, "sbmv": matrices.sbmv, "spmv": matrices.spmv, "ger": matrices.ger,
        "spr": matrices.spr, "spr2": matrices.spr2,
    }),
    (_COMPLEX, {
        "dotu": vectors.dot, "dotc": vectors.dotc, "hemv": matrices.hemv, "hbmv": matrices.hbmv,
        "hpmv": matrices.hpmv, "geru": matrices.ger, "gerc": matrices.gerc, "her": matrices.her,
        "her2": matrices.her2, "hpr": matrices.hpr, "hpr2": matrices.hpr2, "hemm": products.hemm,
        "herk": products.herk, "her2k": products.her2k,
    }),
)  # fmt: skip
#: Those whose names say two formats, or begin with one of no number.
_OF_TWO: Mapping[str, tuple[str, Routine]] = {
    "Scasum": ("C", vectors.asum), "Dzasum": ("Z", vectors.asum), "Scnrm2": ("C", vectors.nrm2),
    "Dznrm2": ("Z", vectors.nrm2), "Csscal": ("C", vectors.real_scal), "Zdscal": ("Z", vectors.real_scal),
    "Csrot": ("C", vectors.real_rot), "Zdrot": ("Z", vectors.real_rot),
    **{f"I{letter.lower()}amax": (letter, vectors.iamax) for letter in _ALL},
    **{f"I{letter.lower()}amin": (letter, vectors.iamin) for letter in _ALL},
}  # fmt: skip
_EXTENSIONS: tuple[tuple[str, Mapping[str, Routine]], ...] = (
    (f"{_ALL}H", {"gemmBatched": products.gemm_batched, "gemmStridedBatched": products.gemm_strided}),
    ("H", {"gemm": products.gemm}),
    (_ALL, {
        "geam": products.geam, "dgmm": products.dgmm, "trsmBatched": products.trsm_batched,
        "getrfBatched": products.getrf_batched, "getriBatched": products.getri_batched,
        "getrsBatched": products.getrs_batched,
    }),
)  # fmt: skip


# Vectors of formats that are told: computed in singles, or in doubles where one of them is


def _told_vector(call: Arguments, count: int) -> tuple[Array, Format]:
    address, form, step = call.pointer(), products.format_of(call.integer()), call.integer()
    return call.memory.vector(address, count, step, form), form


def _moved(call: Arguments, count: int, *forms: Format) -> Work | None:
    if count <= 0:
        return None
    work = call.as_form(forms[0]).work(count, 0)
    return Work(work.operations, float(sum(count * each.nbytes for each in forms)), "", work.double)


def nrm2_told(call: Arguments) -> Work | None:
    """Return the Euclidean norm of a vector."""
    count = call.integer()
    x, form = _told_vector(call, count)
    address, result, _ = call.pointer(), products.format_of(call.integer()), call.integer()
    result.write(call.memory.vector(address, 1, 1, result), vectors.norm(form.read(x)))
    return _moved(call, count, form)


def axpy_told(call: Arguments) -> Work | None:
    """Add a multiple of a vector to another one."""
    count, alpha = call.integer(), _told_scalar(call)
    (x, of), (y, to) = _told_vector(call, count), _told_vector(call, count)
    call.integer()
    to.write(y, alpha * of.read(x) + to.read(y))
    return _moved(call, count, of, to, to)


def _told_scalar(call: Arguments) -> Array:
    """Take a factor whose format comes before it."""
    form = products.format_of(call.integer())
    found: Array = call.scalar(form)
    return found


def _dot_told(call: Arguments, *, conjugates: bool) -> Work | None:
    count = call.integer()
    (x, of), (y, other) = _told_vector(call, count), _told_vector(call, count)
    address, result, _ = call.pointer(), products.format_of(call.integer()), call.integer()
    first = of.read(x).conj() if conjugates else of.read(x)
    result.write(call.memory.vector(address, 1, 1, result), np.dot(first, other.read(y)) if count > 0 else 0)
    return _moved(call, count, of, other)


def dot_told(call: Arguments) -> Work | None:
    """Return the inner product of two vectors."""
    return _dot_told(call, conjugates=False)


def dotc_told(call: Arguments) -> Work | None:
    """Return the inner product of a conjugated vector and another one."""
    return _dot_told(call, conjugates=True)


def scal_told(call: Arguments) -> Work | None:
    """Multiply a vector by a number."""
    count, alpha = call.integer(), _told_scalar(call)
    address, form, step, _ = call.pointer(), products.format_of(call.integer()), call.integer(), call.integer()
    if count <= 0 or step <= 0:
        return None
    x = call.memory.vector(address, count, step, form)
    require(form.is_complex or not np.iscomplexobj(alpha), status=_NOT_SUPPORTED)
    form.write(x, alpha * form.read(x))
    return _moved(call, count, form, form)


_TOLD: Mapping[str, Routine] = {
    "cublasGemmEx": products.gemm_mixed, "cublasSgemmEx": products.gemm_mixed,
    "cublasGemmBatchedEx": products.gemm_batched_mixed, "cublasGemmStridedBatchedEx": products.gemm_strided_mixed,
    "cublasNrm2Ex": nrm2_told, "cublasAxpyEx": axpy_told, "cublasDotEx": dot_told, "cublasDotcEx": dotc_told,
    "cublasScalEx": scal_told,
}  # fmt: skip


def _all_functions() -> Mapping[str, tuple[Format, Routine]]:
    found = {
        f"cublas{letter}{name}{form}": (BY_LETTER[letter], routine)
        for table, form in ((_OF_BLAS, "_v2"), (_EXTENSIONS, ""))
        for letters, routines in table
        for name, routine in routines.items()
        for letter in letters
    }
    found |= {f"cublas{name}_v2": (BY_LETTER[letter], routine) for name, (letter, routine) in _OF_TWO.items()}
    found |= {name: (BY_LETTER["S"], routine) for name, routine in _TOLD.items()}
    return found


#: Format and routine of each function, by its name.
FUNCTIONS = _all_functions()
