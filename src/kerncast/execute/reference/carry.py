"""Integer arithmetic of many words: additions that set the carry flag, or take it in.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.2.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.arithmetic import integer_product
from kerncast.execute.reference.threads import Index, Threads
from kerncast.ptx.module import Instruction, Register

AnyArray = npt.NDArray[Any]

_FLAG = Register("%cc", "pred")
_TAKES_FLAG = frozenset({"addc", "subc", "madc"})


def uses_carry(ins: Instruction) -> bool:
    """Return whether an instruction sets or reads the carry flag."""
    return ins.root in _TAKES_FLAG or "cc" in ins.modifiers


def compute(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run add, sub or mad with .cc, or addc, subc or madc."""
    word = f"u{ins.type[1:]}"
    *factors, last = ins.operands[1:]
    first = threads.value(factors[0], word, active)
    if len(factors) == 2:
        a, b = (threads.value(factor, ins.type, active) for factor in factors)
        first = np.ascontiguousarray(integer_product(ins, a, b)).view(first.dtype)
    second = threads.value(last, word, active)
    carry = threads.value(_FLAG, "pred", active).astype(first.dtype)
    if ins.root not in _TAKES_FLAG:
        carry = np.zeros(1, first.dtype)
    if ins.root in {"sub", "subc"}:
        part = first - second
        result, out = part - carry, (first < second) | (part < carry)
    else:
        part = first + second
        result, out = part + carry, (part < first) | (part + carry < part)
    threads.write(ins.operands[0], result, active)
    if "cc" in ins.modifiers:
        threads.write(_FLAG, out, active)
