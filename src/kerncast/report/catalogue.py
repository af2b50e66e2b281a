"""The table of the toolchain's parts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerncast.report.tables import Table

if TYPE_CHECKING:  # occupancy does not wait for the compiler
    from kerncast.compile import ToolStatus


def doctor_table(statuses: "Sequence[ToolStatus]") -> Table:
    """Return one row per part of the toolchain."""
    rows = tuple(
        (
            s.name,
            "found" if s.found else "missing (optional)" if s.is_optional else "missing",
            s.version or "–",
            s.needed_for,
            s.cure or "",
        )
        for s in statuses
    )
    return Table(("part", "state", "version", "needed for", "cure"), rows)
