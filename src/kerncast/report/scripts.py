"""What a script's autotuner tried, by forecast, as a table."""

import re
from typing import TYPE_CHECKING

from kerncast.report.tables import Table
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from kerncast.scripts.benchmarks import Tuning

#: What a configuration of Triton's says of options that nobody has set.
_PLAIN = re.compile(r", (?:\w+: None|num_ctas: 1)(?=,|$)")


def tuning_table(tuning: "Tuning") -> Table:
    """Return the configurations of a kernel, the fastest first."""
    rows = sorted(tuning.tried, key=lambda each: (each.seconds is None, each.seconds or 0.0))
    chosen = tuning.chosen
    cells = tuple(
        (
            _PLAIN.sub("", each.config),
            "–" if each.seconds is None else format_seconds(each.seconds),
            "✓" if each is chosen else "",
        )
        for each in rows
    )
    return Table((f"{tuning.kernel} on {tuning.gpu}, tuned by forecast", "time", "chosen"), cells)
