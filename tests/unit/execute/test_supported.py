"""The list of instructions in the documents is the table by which they are refused."""

import re

import pytest

from kerncast.execute.native import engine, warp  # noqa: F401  importing the engine registers all instructions
from kerncast.execute.native.arithmetic.crosslane import CROSS_LANE
from kerncast.execute.native.block import LOWERINGS
from kerncast.execute.native.memory import mbarriers
from kerncast.execute.reference import batch
from kerncast.execute.reference.arithmetic import ARITHMETIC
from kerncast.execute.setup.supported import SPECIALS
from kerncast.ptx import TYPE_BITS, Trait
from kerncast.ptx.opcodes import FORMS, OPCODES
from tests.helpers.places import ROOT

#: Replaced by other instructions before they are executed (``ptx/warp_matrices.py``).
EXPANDED = {"wmma"}
DOCUMENT = (ROOT / "docs" / "instructions.md").read_text(encoding="utf-8")
EXECUTED, REFUSED = DOCUMENT.split("## Refused")


def names(part: str) -> list[str]:
    """Return what stands in backticks in the second column of a table."""
    rows = [line.split("|")[2] for line in part.splitlines() if line.startswith("| ") and line.count("|") > 3]
    return [name for row in rows for name in re.findall(r"`(\S+)`", row)]


def is_covered(opcode: str) -> bool:
    root, *modifiers = opcode.split(".")
    types = [m for m in modifiers if m in TYPE_BITS]
    others = {m for m in modifiers if m not in TYPE_BITS}
    return any(
        others <= form.modifiers
        and len(types) == len(form.types)
        and all(one in allowed for one, allowed in zip(types, form.types, strict=True))
        for form in FORMS.get(root, ())
        if form.needed <= others
    )


def test_what_is_executed() -> None:
    listed = names(EXECUTED)
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == set(FORMS) | EXPANDED


def test_both_engines_know_what_is_executed() -> None:
    computing = {name for name in FORMS if not (OPCODES[name].flow or OPCODES[name].has(Trait.INERT))}
    with_carry = {name for name in FORMS if OPCODES[name].has(Trait.CARRY)}
    accessing = {name for name in FORMS if OPCODES[name].access}
    arriving = {"barrier.cluster.arrive"}
    telling = {"st.async", "red.async"}  # a store or a reduction, and what tells an mbarrier
    with_phases = {name for name in FORMS if OPCODES[name].has(Trait.PHASE)} - telling
    in_tensor_memory = {name for name in FORMS if OPCODES[name].has(Trait.TENSOR_MEMORY)}
    with_carry |= in_tensor_memory | telling
    with_carry |= arriving | {name for name in FORMS if OPCODES[name].has(Trait.DESCRIBED)}
    assert {*LOWERINGS, *CROSS_LANE, *warp._ACCESSES, *mbarriers.WRITERS, *warp._MOVES, *with_carry} == computing
    assert {*ARITHMETIC, *batch._CROSS_LANE, *batch._MOVES, *accessing, *with_phases, *with_carry} == computing
    assert set(mbarriers.WRITERS) == with_phases
    assert set(warp._ACCESSES) == accessing - in_tensor_memory - telling


@pytest.mark.parametrize("name", [name for name in names(REFUSED) if name not in {"call", "malloc", "free"}])
def test_what_is_refused(name: str) -> None:
    assert name not in SPECIALS
    assert not is_covered(name)
    assert "." in name or name not in FORMS
