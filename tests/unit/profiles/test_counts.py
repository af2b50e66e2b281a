"""The table of counts: names that Nvidia's library knows, which origin wins, bytes of the levels worked out by hand."""

import csv

import pytest

from kerncast.metrics import vocabulary
from kerncast.profiles import QUESTIONS, Count, Counted, Counts, Origin, counts
from kerncast.profiles.counts import (
    DRAM_BYTES,
    DRAM_BYTES_ONCE,
    DRAM_READ_SECTORS,
    DRAM_WRITE_SECTORS,
    FLOAT_OPERATIONS,
    FP32_FLOPS,
    L1_BYTES,
    L2_ATOMIC_SECTORS,
    L2_BYTES_EXCHANGED,
    L2_LOAD_SECTORS,
    L2_WRITE_SECTORS,
    OPERATIONS,
    QUANTITIES,
    SHARED_WAVEFRONTS,
    SPACES,
    access_name,
    dram_bytes_of_launch,
    float_operation,
    with_totals,
)
from tests.helpers.places import ROOT

exact = Count.exact


def names() -> list[str]:
    """Return every name that the table may hold."""
    constants = [value for name, value in vars(counts).items() if name.isupper() and isinstance(value, str)]
    accesses = [access_name(*place) for place in ((s, o, q) for s in SPACES for o in OPERATIONS for q in QUANTITIES)]
    return [*constants, *accesses, *(float_operation(bits, each) for bits in (16, 32, 64) for each in FLOAT_OPERATIONS)]


def test_names_that_are_not_our_own_are_those_of_nvidias_library() -> None:
    # tools/record_ncu_names.py made the file.
    with (ROOT / "tests" / "golden" / "ncu_names.csv").open(encoding="utf-8", newline="") as file:
        known = {row["name"] for row in csv.DictReader(file)}
    others = {name for name in names() if not name.startswith("kerncast__")}
    assert len(others) > 30
    assert others <= known


def test_a_name_of_our_own_is_in_the_vocabulary_or_not_printed_under_another() -> None:
    """What is printed has one name: no other name differs from it in its ending only."""
    printed = {word.name.rsplit(".", 1)[0]: word.name for word in vocabulary()}
    assert all(printed.get(name.rsplit(".", 1)[0], name) == name for name in names())


def test_accesses_have_a_name_each() -> None:
    found = {access_name(s, o, q) for s in SPACES for o in OPERATIONS for q in QUANTITIES}
    assert len(found) == 3 * 5 * 8


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Origin.PROFILED, Origin.EXECUTED),
        (Origin.PROFILED, Origin.SIMULATED),
        (Origin.EXECUTED, Origin.SIMULATED),
        (Origin.EXECUTED, Origin.DECLARED),
        (Origin.DISASSEMBLED, Origin.ESTIMATED),
    ],
)
def test_of_two_origins_the_nearer_to_the_hardware_wins(better: Origin, worse: Origin) -> None:
    one, two = Counts.of(better, {FP32_FLOPS: exact(1)}), Counts.of(worse, {FP32_FLOPS: exact(2)})
    assert one.merged(two) == two.merged(one) == one


def test_of_equal_origins_the_own_count_stays() -> None:
    one, two = (Counts.of(Origin.PROFILED, {FP32_FLOPS: exact(number)}) for number in (1, 2))
    assert one.merged(two) == one
    assert one.updated(two) == two


def test_a_merged_table_has_what_either_knows() -> None:
    one = Counts.of(Origin.PROFILED, {FP32_FLOPS: exact(1), L1_BYTES: None})
    both = one.merged(Counts.of(Origin.EXECUTED, {L1_BYTES: exact(64)}))
    assert both.rows == {
        FP32_FLOPS: Counted(exact(1), Origin.PROFILED),
        L1_BYTES: Counted(exact(64), Origin.EXECUTED),
    }
    assert both.origin(DRAM_BYTES) is None


def test_equal_tables_are_equal_in_their_origins_too() -> None:
    one, two = Counts.of(Origin.PROFILED, {FP32_FLOPS: exact(1)}), Counts.of(Origin.EXECUTED, {FP32_FLOPS: exact(1)})
    assert one != two
    assert hash(one) == hash(one.updated(Counts()))
    assert {one, two, one.merged(two)} == {one, two}


def test_the_bytes_of_each_level_of_memory() -> None:
    """Sectors of 32 bytes; an atomic crosses between L1 and L2 twice, there and back."""
    accessed = {
        access_name("global", "ld", "sectors"): exact(8),
        access_name("global", "st", "sectors"): exact(4),
        access_name("local", "ld", "sectors"): exact(2),
        access_name("shared", "ld", "wavefronts"): exact(5),
        access_name("shared", "red", "wavefronts"): exact(7),
    }
    let_through = {
        L2_LOAD_SECTORS: exact(6),
        L2_WRITE_SECTORS: exact(4),
        L2_ATOMIC_SECTORS: exact(1),
        DRAM_READ_SECTORS: exact(3),
        DRAM_WRITE_SECTORS: exact(2),
    }
    found = with_totals(Counts.of(Origin.EXECUTED, accessed).updated(Counts.of(Origin.SIMULATED, let_through)))
    assert found.rows[L1_BYTES] == Counted(exact(32 * 14), Origin.EXECUTED)
    assert found.rows[SHARED_WAVEFRONTS] == Counted(exact(12), Origin.EXECUTED)
    assert found.rows[L2_BYTES_EXCHANGED] == Counted(exact(32 * 12), Origin.SIMULATED)
    assert found.rows[DRAM_BYTES] == Counted(exact(32 * 5), Origin.SIMULATED)


def test_levels_that_nobody_counted_stay_unknown() -> None:
    assert with_totals(Counts()) == Counts()


@pytest.mark.parametrize(("origin", "expected"), [(Origin.SIMULATED, 96), (Origin.PROFILED, 64), (Origin.DECLARED, 64)])
def test_traffic_of_a_launch_by_itself_comes_from_no_simulated_cache(origin: Origin, expected: int) -> None:
    once = Counts.of(Origin.EXECUTED, {DRAM_BYTES_ONCE: exact(96)})
    assert dram_bytes_of_launch(once.updated(Counts.of(origin, {DRAM_BYTES: exact(64)}))) == exact(expected)
    assert dram_bytes_of_launch(once) == exact(96)
    assert dram_bytes_of_launch(Counts()) is None


def test_every_question_has_names_of_its_own() -> None:
    asked = [name for answers in QUESTIONS.values() for name in answers]
    assert len(asked) == len(set(asked))
    assert set(asked) <= set(names())
