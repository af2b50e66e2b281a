"""Whether the blocks of a launch can run at the same time without any of them seeing what another one writes.

Where they cannot, one core runs them one after the other, so that equal input gives equal counts.
"""

from collections.abc import Iterable, Mapping

from kerncast.execute.setup.layout import Program
from kerncast.ptx import Address, Instruction, Symbol, results_of, sources_of, symbols_of

_GLOBAL = frozenset({"global", "generic"})
#: A pointer that comes out of memory.
_UNKNOWN = "?"
Bases = frozenset[str]


def blocks_are_independent(program: Program, buffers: Bases) -> bool:
    """Return False if some block may read global memory that another one writes, or update it atomically.

    Told by what an address is made from: ``buffers``, the parameters that hold one, and the module's variables. Two
    blocks that write one place are not told apart.
    """
    code = program.function.instructions
    bases, known = _bases_of_registers(program), buffers | {variable.name for variable in program.globals}
    accesses = [ins for ins in code if ins.space in _GLOBAL and ins.opcode.access is not None]
    if any(ins.is_update for ins in accesses):
        return False
    read = _union(_address_bases(ins, bases, known) for ins in accesses if ins.is_load)
    written = _union(_address_bases(ins, bases, known) for ins in accesses if ins.is_store)
    if not read or not written:
        return True
    return _UNKNOWN not in read | written and not read & written


def _bases_of_registers(program: Program) -> Mapping[str, Bases]:
    """Return what each register may be made from, over all of the function."""
    bases: dict[str, Bases] = {}
    changed = True
    while changed:
        changed = False
        for ins in program.function.instructions:
            found = _result_bases(ins, program, bases)
            for register in results_of(ins) if found else ():
                before = bases.get(register.name, frozenset())
                changed |= not found <= before
                bases[register.name] = before | found
    return bases


def _result_bases(ins: Instruction, program: Program, bases: Mapping[str, Bases]) -> Bases:
    if ins.is_load:
        base = ins.operands[1].base if isinstance(ins.operands[1], Address) else None
        is_parameter = isinstance(base, Symbol) and base.name in program.parameters
        return frozenset({base.name if is_parameter and isinstance(base, Symbol) else _UNKNOWN})
    if ins.is_update:
        return frozenset({_UNKNOWN})
    symbols = frozenset(name for operand in ins.operands for name in symbols_of(operand))
    return _union([symbols, *(bases.get(register.name, frozenset()) for register in sources_of(ins))])


def _address_bases(ins: Instruction, bases: Mapping[str, Bases], known: Bases) -> Bases:
    """Return what an address is made from; what was loaded only counts as a pointer where there is no other."""
    address = next(operand for operand in ins.operands if isinstance(operand, Address))
    if isinstance(address.base, Symbol):
        return frozenset({address.base.name})
    found = bases.get(address.base.name, frozenset()) if address.base else frozenset()
    return found & known or frozenset({_UNKNOWN})


def _union(sets: Iterable[Bases]) -> Bases:
    return frozenset(name for each in sets for name in each)
