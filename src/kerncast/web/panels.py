"""What the page shows of answers, as HTML: every text of others is escaped, and nothing is loaded from elsewhere."""

import html
import math
from collections.abc import Iterator, Sequence

from kerncast.printable import printable_lines
from kerncast.report.words import describe_percent, describe_range
from kerncast.units import format_seconds
from kerncast.web.questions import ForecastTold, LaunchesTold, LineCost, LinesTold, Problem, Row

_MOST_PARTS = 6
_MOST_LINES = 6
_DIGITS = 3
#: Room on both sides of the longest interval, as a factor.
_MARGIN = 1.15
_TICKS = (1, 2, 5)
#: Pane B is as fast as pane A within this factor.
_SAME = 1.005


def text(raw: str) -> str:
    """Return a text as HTML shows it."""
    return html.escape(printable_lines(raw))


def verdict(told: ForecastTold) -> str:
    """Return the sentence that answers: its first part is the answer, the rest what to do with it."""
    head, stop, rest = told.verdict.partition(". ")
    return f'<p class="kc-verdict"><b>{text(head + stop.strip())}</b> {text(rest)}</p>'


def rows(told: ForecastTold) -> str:
    """Return a row per GPU with time and interval, on one logarithmic axis."""
    low = min(row.low for row in told.rows) / _MARGIN
    high = max(row.high for row in told.rows) * _MARGIN

    def place(seconds: float) -> float:
        return 100 * math.log(seconds / low) / math.log(high / low)

    body = "".join(_row(row, place(row.low), place(row.seconds), place(row.high)) for row in told.rows)
    ticks = "".join(
        f'<i style="left:{place(each):.2f}%"><span>{text(format_seconds(each, 1))}</span></i>'
        for each in _ticks(low, high)
    )
    axis = f'<div class="kc-axis" aria-hidden="true"><div>{ticks}</div></div>'
    return f'<div class="kc-rows" role="table" aria-label="Time per GPU">{body}{axis}</div>'


def _row(row: Row, low: float, place: float, high: float) -> str:
    mark = '<span class="kc-tag">what if</span>' if row.is_hypothetical else ""
    span = f'<span class="kc-span" style="left:{low:.2f}%;width:{high - low:.2f}%"></span>'
    dot = f'<span class="kc-dot" style="left:{place:.2f}%"></span>'
    return (
        f'<div class="kc-row" role="row" data-gpu="{text(row.gpu_id)}">'
        f'<div role="cell" class="kc-gpu">{text(row.gpu)}{mark}</div>'
        f'<div role="cell" class="kc-time">{text(format_seconds(row.seconds, _DIGITS))}</div>'
        f'<div role="cell" class="kc-bar">{span}{dot}</div>'
        f'<div role="cell" class="kc-why">{text(describe_range(row.low, row.high))} at 90 % · {text(row.limiter)}'
        f"{'' if row.model == 'simulation' else f' · by the {text(row.model)}'}</div></div>"
    )


def _ticks(low: float, high: float) -> Iterator[float]:
    """Yield round times within an axis, few enough to be read on a telephone."""
    decades = math.log10(high / low)
    steps = _TICKS if decades < 1 else _TICKS[:1] + _TICKS[2:] if decades < 2 else _TICKS[:1]
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        yield from (each * 10.0**exponent for each in steps if low < each * 10.0**exponent < high)


def resources(row: Row) -> str:
    """Return what each resource would take alone, as bars."""
    longest = max((part.seconds for part in row.parts), default=0.0)
    body = "".join(
        f'<div class="kc-part"><span>{text(part.name)}</span>'
        f'<i><b style="width:{100 * part.seconds / longest:.1f}%;background:{text(part.colour)}"></b></i>'
        f"<em>{text(describe_percent(min(part.seconds / row.seconds, 1.0)))}</em></div>"
        for part in row.parts[:_MOST_PARTS]
        if longest
    )
    note = "Each share is the time that this resource alone would take, of the forecast. They overlap."
    return f'<h3>What takes the time on {text(row.gpu)}</h3>{body}<p class="kc-note">{note}</p>'


def occupancy(told: ForecastTold) -> str:
    """Return how many warps an SM holds, for each GPU."""
    body = "".join(
        f'<div class="kc-warps"><span>{text(row.gpu)}</span>{_slots(row)}<em>{text(row.occupancy)}</em></div>'
        for row in told.rows
        if row.occupancy
    )
    return f"<h3>Occupancy</h3>{body}" if body else ""


def _slots(row: Row) -> str:
    share = 100 * row.resident_warps / max(1, row.most_warps)
    told = f"{row.resident_warps} of {row.most_warps} warps"
    return f'<i title="{told}" style="--slots:{row.most_warps}"><b style="width:{share:.1f}%"></b></i>'


def lines(told: LinesTold, source: str) -> str:
    """Return the lines that cost most, with their text."""
    written = source.splitlines()
    ranked = sorted(told.lines, key=lambda each: -each.share)[:_MOST_LINES]
    body = "".join(
        f"<tr><td>{each.line}</td><td>{text(describe_percent(each.share))}</td>"
        f"<td><code>{text(written[each.line - 1].strip()) if each.line <= len(written) else ''}</code>"
        f"<small>{text(each.reason)}</small>{_code(each)}</td></tr>"
        for each in ranked
    )
    head = f'<h3>Source lines by cost on {text(told.gpu)}</h3><p class="kc-note">Shares of {text(told.by)}.</p>'
    return f'{head}<table class="kc-lines">{body}</table>' if body else ""


def _code(line: LineCost) -> str:
    """Return the instructions that a line has become, folded: PTX and machine code beside each other."""
    kinds = [(name, code) for name, code in (("PTX", line.ptx), ("Machine code", line.sass)) if code]
    columns = "".join(f"<div><b>{name}</b><pre>{text(chr(10).join(code))}</pre></div>" for name, code in kinds)
    more = f'<p class="kc-note">{line.left_out} further instructions are left out.</p>' if line.left_out else ""
    told = ", ".join(f"{len(code)} of {'PTX' if name == 'PTX' else 'machine code'}" for name, code in kinds)
    head = f"<summary>Instructions: {told}</summary>"
    return f'<details class="kc-code">{head}<div tabindex="0">{columns}</div>{more}</details>' if kinds else ""


def launches(told: LaunchesTold, place: int) -> str:
    """Return the time of each launch, and of all together."""
    known = [each.seconds for each in told.times if each.seconds is not None]
    whole = sum(known)
    body = "".join(
        f"<tr{' class=kc-on' if number == place else ''}><td>{number + 1}</td><td>{text(each.kernel)}"
        f"<small>{text(each.problem)}</small></td>"
        f"<td>{'' if each.seconds is None else text(format_seconds(each.seconds, _DIGITS))}</td>"
        f"<td>{'' if each.seconds is None else text(describe_percent(each.seconds / whole))}</td></tr>"
        for number, each in enumerate(told.times)
    )
    total = (
        f"<tr><td></td><td>Together</td><td>{text(format_seconds(whole, _DIGITS))}</td><td></td></tr>" if known else ""
    )
    return f'<h3>All launches on {text(told.gpu)}</h3><table class="kc-launches">{body}{total}</table>'


def notes(told: ForecastTold) -> str:
    """Return what to know before relying on it."""
    points = [*told.refused, told.sampling, *told.notes]
    return "<ul>" + "".join(f"<li>{text(each)}</li>" for each in points) + "</ul>"


def problem(found: Problem) -> str:
    """Return what is wrong, where and how to mend it."""
    places = [f"<li><b>Line {line}</b> {text(what)}</li>" for line, what in found.lines if what and what != found.what]
    where = f'<p class="kc-note">Line {found.lines[0][0]}</p>' if found.lines and not places else ""
    listed = f"<ul>{''.join(places)}</ul>" if places else ""
    kind = "kc-problem kc-endless" if found.is_endless else "kc-problem"
    head = found.what[:1].upper() + found.what[1:]
    cure = f'<p class="kc-cure">{_broken(found.cure)}</p>' if found.cure else ""
    return f'<div class="{kind}" role="alert"><b>{_broken(head)}</b>{where}{listed}{cure}</div>'


def _broken(raw: str) -> str:
    return text(raw).replace("\n", "<br>")


def comparison(one: ForecastTold, other: ForecastTold) -> str:
    """Return how much faster pane B is than pane A on each GPU that both have."""
    known = {row.gpu_id: row for row in one.rows}
    pairs = [(known[row.gpu_id], row) for row in other.rows if row.gpu_id in known]
    return "".join(_compared(a, b) for a, b in pairs)


def _compared(a: Row, b: Row) -> str:
    factor = a.seconds / b.seconds
    if 1 / _SAME < factor < _SAME:
        word, kind = "A and B are equally fast", "same"
    else:
        word = f"B is {max(factor, 1 / factor):.3g}× {'faster' if factor > 1 else 'slower'}"
        kind = "faster" if factor > 1 else "slower"
    times = f"{format_seconds(a.seconds, _DIGITS)} → {format_seconds(b.seconds, _DIGITS)}"
    return f'<div class="kc-pair kc-{kind}"><b>{text(word)}</b><span>{text(b.gpu)}</span><em>{text(times)}</em></div>'


def decorations(told: LinesTold, source_lines: int) -> list[dict[str, object]]:
    """Return the marks of the editor's lines by their cost."""
    most = max((each.share for each in told.lines), default=0.0)
    found: Sequence[dict[str, object]] = [
        {
            "kind": "line", "line": each.line, "class": "kc-cost",
            "attributes": {
                "data-cost": describe_percent(each.share), "style": f"--cost:{each.share / most:.3f}",
                "title": f"{describe_percent(each.share)} of {told.by} on {told.gpu}; {each.reason}".rstrip("; "),
            },
        }
        for each in told.lines
        if 0 < each.line <= source_lines and each.share > 0
    ]  # fmt: skip
    return list(found)


def error_decorations(found: Problem, source_lines: int) -> list[dict[str, object]]:
    """Return the marks of the editor's lines at which something is wrong."""
    first: dict[int, str] = {}
    for line, what in found.lines:
        first.setdefault(line, what or found.what)
    return [
        {"kind": "line", "line": line, "class": "kc-error", "attributes": {"data-error": what, "title": what}}
        for line, what in first.items()
        if 0 < line <= source_lines
    ]
