"""Which instructions the engine covers: anything else is refused by name before the kernel starts.

A modifier that is not listed for its opcode is refused too, so that none is silently ignored.
"""

from kerncast.errors import UnsupportedError
from kerncast.ptx.module import TYPE_BITS, Function, Instruction

_TYPES = frozenset(TYPE_BITS) - {"b128", "tf32", "f32x2"}
_ROUND = {"rn", "rz", "rm", "rp"}
_FLOAT = {"ftz", "sat"} | _ROUND
_CACHE = {
    "ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "volatile", "relaxed", "acquire", "release", "weak", "cta", "gpu",
    "sys", "cluster", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L1::no_allocate", "L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::64B", "L2::128B", "L2::256B",
    "unified", "noftz", "acq_rel", "mmio",
}  # fmt: skip
_SPACES = {"global", "shared", "local", "param", "const", "shared::cta", "param::entry", "param::func"}
_COMPARE = {
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}  # fmt: skip
_VECTOR = {"v2", "v4"}
_ATOMIC = {"add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor"}
_FENCE = {"sc", "acq_rel", "cta", "gpu", "sys", "gl", "cluster", "proxy", "alias", "async"}

_MODIFIERS: dict[str, set[str]] = {
    "add": _FLOAT, "sub": _FLOAT, "mul": _FLOAT | {"lo", "hi", "wide"}, "mad": _FLOAT | {"lo", "hi", "wide"},
    "fma": _FLOAT | {"relu"}, "div": {"approx", "full", "ftz"} | _ROUND, "rem": set(), "neg": {"ftz"}, "abs": {"ftz"},
    "min": {"ftz", "NaN", "relu"}, "max": {"ftz", "NaN", "relu"}, "sqrt": {"approx", "ftz"} | _ROUND,
    "rsqrt": {"approx", "ftz"}, "rcp": {"approx", "ftz"} | _ROUND, "sin": {"approx", "ftz"}, "cos": {"approx", "ftz"},
    "ex2": {"approx", "ftz"}, "lg2": {"approx", "ftz"}, "tanh": {"approx"}, "copysign": set(),
    "testp": {"finite", "infinite", "number", "notanumber", "normal", "subnormal"},
    "and": set(), "or": set(), "xor": set(), "not": set(), "cnot": set(), "shl": set(), "shr": set(),
    "shf": {"l", "r", "clamp", "wrap"}, "lop3": set(), "popc": set(), "clz": set(), "bfind": {"shiftamt"},
    "brev": set(), "bfe": set(), "bfi": set(), "prmt": set(), "sad": set(), "mul24": {"lo"}, "mad24": {"lo"},
    "dp4a": set(), "setp": _COMPARE | {"and", "or", "xor", "ftz"}, "set": _COMPARE | {"ftz"}, "selp": set(),
    "slct": {"ftz"}, "cvt": {"ftz", "sat", "relu", "rni", "rzi", "rmi", "rpi"} | _ROUND, "mov": set(),
    "cvta": {"to"} | _SPACES, "isspacep": _SPACES, "ld": _CACHE | _SPACES | _VECTOR, "ldu": _SPACES | _VECTOR,
    "st": _CACHE | _SPACES | _VECTOR, "atom": _ATOMIC | _CACHE | _SPACES, "red": _ATOMIC | _CACHE | _SPACES,
    "shfl": {"sync", "up", "down", "bfly", "idx"}, "vote": {"sync", "all", "any", "uni", "ballot"},
    "match": {"sync", "any", "all"}, "activemask": set(), "redux": {"sync", "add", "min", "max", "and", "or", "xor"},
    "bar": {"sync", "cta", "warp", "arrive"}, "barrier": {"sync", "aligned", "cta", "arrive"},
    "membar": _FENCE, "fence": _FENCE, "bra": {"uni"}, "brx": {"idx", "uni"}, "branchtargets": set(),
    "ret": {"uni"}, "exit": set(), "trap": set(), "call": {"vprintf", "__assertfail"}, "nanosleep": set(),
    "prefetch": {"global", "local", "L1", "L2"}, "prefetchu": {"L1"}, "pmevent": set(),
}  # fmt: skip

_CURES = {
    "mma": "Tensor-core instructions are not executed yet.", "wmma": "Tensor-core instructions are not executed yet.",
    "ldmatrix": "Tensor-core instructions are not executed yet.", "tex": "Textures are not executed yet.",
    "suld": "Surfaces are not executed yet.", "cp": "Asynchronous copies are not executed yet.",
    "call": "Only calls of functions with a body in this file are executed.",
}  # fmt: skip


def check_supported(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that the engine does not cover."""
    for instruction in function.instructions:
        allowed = _MODIFIERS.get(instruction.root)
        unknown = [m for m in instruction.modifiers if allowed is None or (m not in allowed and m not in _TYPES)]
        if allowed is None or unknown or _is_reduction_barrier(instruction):
            raise UnsupportedError(
                f"PTX instruction {instruction.name} is not supported",
                where=str(instruction.location) if instruction.location else function.name,
                cure=_CURES.get(instruction.root),
            )


def _is_reduction_barrier(instruction: Instruction) -> bool:
    return instruction.root in {"bar", "barrier"} and "red" in instruction.modifiers
