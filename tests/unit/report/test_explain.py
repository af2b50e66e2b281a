"""What words mean: each resource, each state of a warp and each model that people see is explained."""

import csv

import pytest

from kerncast.errors import InputError
from kerncast.report.explain import explain, terms
from kerncast.report.words import describe_limiter
from tests.helpers.places import ROOT

RESOURCES = "fma alu imad fp64 fp16 xu tensor lsu branch uniform issue shared l1 l2 dram atomics blocks launch latency"


@pytest.mark.parametrize("name", RESOURCES.split())
def test_every_resource_is_explained_by_the_name_that_tables_have(name: str) -> None:
    found = explain(name)
    assert found.kind == "resource"
    assert explain(found.called) == found
    assert found.called.removeprefix("the ") in describe_limiter(name)


def test_counters_that_terms_name_are_those_of_nsight_compute() -> None:
    with (ROOT / "tests" / "golden" / "ncu_names.csv").open(encoding="utf-8") as file:
        known = {row["name"] for row in csv.DictReader(file)}
    assert {term.counter for term in terms() if term.counter} <= known


def test_a_counter_has_the_meaning_of_the_vocabulary() -> None:
    assert explain("lts__t_sectors.sum").meaning == "L2: sectors of reads, writes and atomics"


def test_a_slip_gets_what_is_meant() -> None:
    with pytest.raises(InputError, match=r"Did you mean .*long_scoreboard"):
        explain("long_scorebord")
