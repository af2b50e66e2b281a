"""A section of a report: a title, facts and tables below it."""

from dataclasses import dataclass

from kerncast.report.tables import Table


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a section."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with facts and tables below it."""

    title: str
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
