"""One table says what is known of an opcode: its facts, and that nobody else keeps a set of opcodes."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kerncast.ptx import (
    Flow,
    Instruction,
    MemoryAccess,
    Register,
    Trait,
    opcode_of,
    opcodes,
    result_count,
    results_of,
    sources_of,
)
from kerncast.ptx.opcodes import FORMS, OPCODES, WHY_REFUSED
from tests.helpers.places import ROOT

PACKAGE = ROOT / "src" / "kerncast"
NAMES = frozenset(OPCODES)
#: Names that are modifiers too, as in setp.lt.and and atom.add: sets of these alone say nothing of opcodes.
OPERATIONS = {"add", "min", "max", "and", "or", "xor"}
#: Sets that do not mean opcodes of instructions, and why.
EXCEPTIONS = {
    "profiles/counts.py": "operations on memory, and of floating-point counters, in the names of counts",
    "metrics": "operations on memory in a profile: profiles.counts.OPERATIONS",
    "report": "the same",
    "read": "parts of the names of another tool's counters",
    "models/operators": "names of element-wise operators of deep learning",
}


def literals(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Yield what may be a set of names: sets, words of a text, tuples and lists with a name or behind ``in``."""
    for node in ast.walk(tree):
        match node:
            case ast.Set(members) | ast.Assign(value=ast.Tuple(members) | ast.List(members)):
                found = {each.value for each in members if isinstance(each, ast.Constant)}
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Tuple(members) | ast.List(members)]):
                found = {each.value for each in members if isinstance(each, ast.Constant)}
            case ast.Call(ast.Attribute(ast.Constant(str(text)), "split")):
                found = set(text.split())
            case _:
                continue
        yield node.lineno, {each for each in found if isinstance(each, str)}


@cache
def opcode_sets(path: Path) -> list[str]:
    """Return the literals of a file that name two opcodes or more."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    place = path.relative_to(PACKAGE).as_posix()
    return [
        f"{place}:{line}: {found}" for line, found in literals(tree) if len(found & NAMES) > 1 and found - OPERATIONS
    ]


def test_no_set_of_opcodes_stands_outside_of_the_table() -> None:
    found = [each for path in sorted(PACKAGE.rglob("*.py")) for each in opcode_sets(path)]
    assert [each for each in found if not each.startswith(tuple(EXCEPTIONS))] == []


@pytest.mark.parametrize("place", EXCEPTIONS)
def test_each_exception_is_needed(place: str) -> None:
    files = [PACKAGE / place] if place.endswith(".py") else sorted((PACKAGE / place).rglob("*.py"))
    assert any(opcode_sets(path) for path in files)


def test_the_search_finds_a_set() -> None:
    for text in ('x = {"bar", "barrier"}', 'x = y in ("ld", "st")', 'x = ["bra", "ret"]', 'x = "atom red".split()'):
        assert [found for _, found in literals(ast.parse(text)) if len(found & NAMES) > 1]


def test_every_opcode_has_one_row() -> None:
    names = [name for names, *_ in opcodes._rows(opcodes._OPCODES) for name in names.split()]
    assert sorted(names) == sorted(set(names))
    assert set(FORMS) <= set(names)
    assert {name for name in WHY_REFUSED if "." not in name}.isdisjoint(FORMS)


def test_facts_of_the_isa() -> None:
    """As chapter 9 of the PTX ISA describes them."""
    assert {name for name, each in OPCODES.items() if each.flow is Flow.BARRIER} == {
        "bar",
        "barrier",
        "barrier.cluster.wait",
    }
    assert {name for name, each in OPCODES.items() if each.access is MemoryAccess.LOAD} == {
        "ld", "ldu", "ldmatrix", "tex", "tld4", "suld"
    }  # fmt: skip
    assert {name for name, each in OPCODES.items() if each.access is MemoryAccess.STORE} == {
        "st", "st.async", "stmatrix", "sust", "tcgen05.alloc"
    }  # fmt: skip
    assert {name for name, each in OPCODES.items() if each.has(Trait.CARRY)} == {"addc", "subc", "madc"}
    assert {name for name, each in OPCODES.items() if each.has(Trait.FENCE)} == {
        "membar", "fence", "barrier.cluster.arrive", "barrier.cluster.wait"
    }  # fmt: skip
    exchanging = {name for name, each in OPCODES.items() if each.has(Trait.CROSS_LANE)}
    products = {"mma", "mma.sp", "mma.sp::ordered_metadata", "movmatrix", "wgmma.mma_async", "wgmma.mma_async.sp"}
    assert exchanging == {"shfl", "vote", "match", "activemask", "elect", "redux"} | products
    assert {name for name, each in OPCODES.items() if each.has(Trait.ACCUMULATE)} == {
        "wgmma.mma_async", "wgmma.mma_async.sp"
    }  # fmt: skip
    assert opcode_of("fma").flops == opcode_of("mad").flops == 2
    assert opcode_of("red").access is MemoryAccess.REDUCTION
    assert not opcode_of("red").has_result


def test_an_unknown_opcode_is_known_for_nothing() -> None:
    unknown = opcode_of("newer")
    assert (unknown.work, unknown.access, unknown.flow, unknown.traits) == ("move", None, None, frozenset())


def test_sums_are_read_and_written() -> None:
    """As section 9.7.15.5 says of wgmma.mma_async: D = A * B + D."""
    d, a, b, p = (
        Register(f"%{name}", kind) for name, kind in (("d", "f32"), ("a", "b64"), ("b", "b64"), ("p", "pred"))
    )
    modifiers = ("mma_async", "sync", "aligned", "m64n8k16", "f32", "f16", "f16")
    ins = Instruction("wgmma", modifiers, (d, a, b, p), None, False, None)
    assert results_of(ins) == (d,)
    assert set(sources_of(ins)) == {d, a, b, p}


@pytest.mark.parametrize(
    ("name", "operands", "results"),
    [
        ("setp.lt.s32", 3, 1), ("setp.lt.s32", 4, 2), ("setp.lt.and.s32", 4, 1), ("setp.lt.and.s32", 5, 2),
        ("shfl.idx.b32", 4, 1), ("shfl.idx.b32", 5, 2), ("shfl.sync.idx.b32", 5, 1), ("shfl.sync.idx.b32", 6, 2),
        ("match.sync.any.b32", 3, 1), ("match.sync.all.b32", 4, 2), ("elect.sync", 3, 2), ("vote.sync.all.pred", 3, 1),
        ("bar.sync", 1, 0), ("bar.red.popc.u32", 3, 1), ("st.global.u32", 2, 0), ("add.u32", 3, 1), ("ret", 0, 0),
    ],
)  # fmt: skip
def test_which_operands_are_results(name: str, operands: int, results: int) -> None:
    root, *modifiers = name.split(".")
    registers = tuple(Register(f"%r{number}", "b32") for number in range(operands))
    assert result_count(Instruction(root, tuple(modifiers), registers, None, False, None)) == results
