"""kerncast explain: what a word of a forecast or a profile means."""

from typing import Annotated

import typer

from kerncast.cli.shared.options import AsJson
from kerncast.cli.shared.output import emit_json, stdout_console


def command(
    term: Annotated[str | None, typer.Argument(help="Resource, warp state, model or counter; none: all terms.")] = None,
    json_: AsJson = False,
) -> int:
    """Explain a word of forecasts and profiles."""
    from kerncast.report import explain as words  # noqa: PLC0415  the help does without
    from kerncast.report.as_json import SCHEMA_VERSION, fields_of  # noqa: PLC0415

    found = words.terms() if term is None else (words.explain(term),)
    if json_:
        fields = [fields_of(each, "name", "kind", "called", "counter", "meaning") for each in found]
        emit_json({"schema_version": SCHEMA_VERSION, "terms": fields})
        return 0
    console = stdout_console()
    for each in found:
        lines = [f"{each.name}: {each.meaning}"] if term is None else each.sentences
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0
