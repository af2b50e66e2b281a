"""The text of a GPU's file: a new one from what the driver says, and edits that keep everything else as it is."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kerncast.bench.ceilings.ceiling import nearest_architecture, peak_dram_bytes_per_s
from kerncast.bounded_file import OUR_DATA, read_text
from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU_FOLDER, Fact, Status, find_id, load_gpu, rules
from kerncast.measurements import Machine, Measurement
from kerncast.units import GIB, GIGA, KIB, MEGA

#: Marks a comment of ours, which the next writing replaces.
_MARK = "# kerncast: "
_HEADER = re.compile(r"\s*\[")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
#: Sections of a shipped file that say what a GPU is.
_CATALOGUED = ("peak", "lanes", "cycles")


@dataclass(frozen=True, slots=True)
class Line:
    """One value as it is to be written."""

    key: str
    value: float
    remark: str
    """comment behind the value; empty for none"""


@dataclass(frozen=True, slots=True)
class GPUFileText:
    """A GPU's file as text, which keeps its comments and its order when values are replaced."""

    text: str
    where: str

    def with_sustained(self, lines: Sequence[Line], source: str) -> str:
        """Return the text with these values in its section [sustained] and their source in [sources].

        Raises InputError for a file whose form cannot be edited line by line, such as one with inline tables.
        """
        before = self._parse(self.text)
        name = _free_source_name(before, {line.key for line in lines}, source)
        entries = {
            line.key: (f'{{ value = {_number(line.value)}, source = "{name}", status = "single-source" }}', line.remark)
            for line in lines
        }
        text = _with_entries(self.text, "sustained", entries)
        text = _with_entries(text, "sources", {name: (quoted(source), "")})
        wanted = {
            **before,
            "sources": {**before.get("sources", {}), name: source},
            "sustained": {
                **before.get("sustained", {}),
                **{line.key: {"value": line.value, "source": name, "status": "single-source"} for line in lines},
            },
        }
        if self._parse(text) != wanted:
            raise self._not_editable()
        return text

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError):
            raise self._not_editable() from None

    def _not_editable(self) -> InputError:
        return InputError(
            "its values cannot be replaced without changing something else",
            where=self.where,
            cure="Write one value per line under the headings [sources] and [sustained].",
        )


def quoted(text: str) -> str:
    r"""Return a TOML string.

    >>> quoted('12" disk')
    '"12\\" disk"'
    """
    plain = text.encode("utf-8", "replace").decode()
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def measured_text(measurement: Measurement, trials: int) -> str:
    """Say where measured values come from: which GPU, driver and compiler, when, and how often."""
    machine = measurement.machine
    days = sorted({trial.began[:10] for trial in measurement.trials})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else "unknown date"
    text = (
        f"kerncast measure ceilings on {machine.gpu_name}, driver {machine.driver}, {machine.compiler}, {when},"
        f" median of {trials} trials or more"
    )
    return text.encode("utf-8", "replace").decode()


def new_gpu_text(measurement: Measurement, copied_gb_per_s: float | None) -> str:
    """Return a complete file but for [sustained]: the data sheet's values where they are known, else the driver's."""
    machine = measurement.machine
    known = _catalogued(machine)
    architecture = nearest_architecture(machine.compute_capability)
    own = architecture.compute_capability == machine.compute_capability
    remark = (
        "" if own else f"  # no file describes compute capability {machine.compute_capability}: this is the nearest"
    )
    peak = _catalogue_peak(known) if known else None
    if peak is not None and copied_gb_per_s is not None and known is not None:
        # A board with other memory than the data sheet's must not get its peak.
        peak = peak if copied_gb_per_s <= load_gpu(known).dram_bytes_per_s / GIGA else None
    body = peak or _driver_peak(machine, architecture.sustained_dram_fraction, copied_gb_per_s)
    return "\n".join(
        [
            "# Written by kerncast measure ceilings.",
            f"name = {quoted(_name(machine))}",
            f'from = "{architecture.id}"{remark}',
            "",
            *body,
            "",
        ]
    )


def _name(machine: Machine) -> str:
    return machine.gpu_name if machine.gpu_name.strip() else "unnamed GPU"


def _catalogued(machine: Machine) -> str | None:
    """Return the id of the shipped file of this very GPU, if there is one."""
    try:
        gpu_id, guesses = find_id(machine.gpu_name)
    except GPUError:
        return None
    gpu = load_gpu(gpu_id)
    same = gpu.sm_count == machine.sm_count and gpu.compute_capability == machine.compute_capability
    return gpu_id if same and not guesses else None


def _catalogue_peak(gpu_id: str) -> list[str]:
    """Return [sources] and what is no measurement of a shipped file, as they stand there."""
    text = read_text(GPU_FOLDER / f"{gpu_id}.toml", OUR_DATA)
    table = tomllib.loads(text)
    sections = [name for name in _CATALOGUED if name in table]
    named = [e.get("source", []) for section in sections for e in table[section].values()]
    used = {name for source in named for name in ([source] if isinstance(source, str) else source)}
    sources = [line for line in _section(text, "sources") if (match := _ENTRY.match(line)) and match[1] in used]
    note = f"# [peak] is that of the shipped file {gpu_id}.toml, not measured."
    lines = [note, "[sources]", *sources]
    for name in sections:
        lines += ["", f"[{name}]", *(line for line in _section(text, name) if line.strip())]
    return lines


def _section(text: str, name: str) -> Iterator[str]:
    """Yield the lines of one section, without its heading."""
    inside = False
    for line in text.splitlines():
        if _HEADER.match(line):
            inside = line.strip() == f"[{name}]"
        elif inside:
            yield line


def _driver_peak(machine: Machine, fraction: float | None, copied_gb_per_s: float | None) -> list[str]:
    """Return [sources] and [peak] from what the driver says."""
    driver = quoted(f"attributes of this GPU as driver {machine.driver} states them")
    peak, is_named = _dram_peak(machine, fraction, copied_gb_per_s)
    lines = ["[sources]", f"driver = {driver}"]
    if not is_named:
        share = "the sustained share of its architecture" if fraction else "1"
        lines.append(f'estimate = "the copy measured here, divided by {share}: no figure of the driver is above it"')
    lines += ["", "[peak]", _entry("sm_count", machine.sm_count, "driver")]
    boost = "  # highest clock that the driver names, which may be above the maker's boost"
    lines.append(_entry("clock_boost_mhz", machine.clock_max_hz / MEGA, "driver") + boost)
    lines.append(_entry("dram_gb_per_s", peak, "driver" if is_named else "estimate"))
    if is_named:
        lines[-1] += "  # 2 x memory clock x bus width / 8"
    for key, value in (
        ("dram_gib", round(machine.memory_bytes / GIB, 2)),
        ("dram_bus_bits", machine.memory_bus_bits),
        ("l2_kib", machine.l2_bytes / KIB),
        ("tdp_w", machine.power_limit_w),
    ):
        lines += [_entry(key, value, "driver")] if value else []
    return lines


def driver_facts(machine: Machine) -> tuple[Fact, ...]:
    """Return what the driver says of a GPU, as facts of [peak]; its clock may be above the maker's boost."""
    dram = peak_dram_bytes_per_s(machine)
    values = {
        "sm_count": machine.sm_count,
        "clock_boost_mhz": machine.clock_max_hz / MEGA,
        "dram_gb_per_s": round(dram / GIGA, 3) if dram else None,
        "dram_gib": round(machine.memory_bytes / GIB, 2),
        "dram_bus_bits": machine.memory_bus_bits,
        "l2_kib": machine.l2_bytes / KIB,
        "tdp_w": machine.power_limit_w,
    }
    source = f"attributes of a {machine.gpu_name} as driver {machine.driver} states them"
    return tuple(
        Fact(f"peak.{key}", value, rules("gpu")[f"peak.{key}"].unit, (source,), Status.SINGLE_SOURCE)
        for key, value in values.items()
        if value
    )


def _dram_peak(machine: Machine, fraction: float | None, copied: float | None) -> tuple[float, bool]:
    """Return the peak DRAM bandwidth in GB/s, and whether it follows from what the driver names."""
    peak = peak_dram_bytes_per_s(machine)
    if peak is not None:
        named = round(peak / GIGA, 3)
        if named > 0 and (copied is None or copied <= named):
            return named, True
    if copied is None:
        raise InputError(
            "the driver names no memory clock, and no copy was measured",
            where=machine.gpu_name,
            cure="Measure the ceilings again, or write the file by hand.",
        )
    return float(f"{copied / (fraction or 1.0):.6g}"), False


def _entry(key: str, value: float, source: str) -> str:
    return f'{key} = {{ value = {_number(value)}, source = "{source}", status = "{Status.SINGLE_SOURCE}" }}'


def _number(value: float) -> str:
    """Return a number without the decimal point that a whole one does not need.

    >>> _number(3352.0), _number(0.5)
    ('3352', '0.5')
    """
    return str(int(value)) if value == int(value) else repr(value)


def _free_source_name(table: dict[str, Any], keys: set[str], source: str) -> str:
    """Return ``measured``, or with a number where that is the source of values that stay."""
    sources = table.get("sources", {})
    number = 1
    while True:
        name = "measured" if number == 1 else f"measured_{number}"
        if not isinstance(sources, dict) or name not in sources or sources[name] == source:
            return name
        if not any(key not in keys or section != "sustained" for section, key in _users(table, name)):
            return name
        number += 1


def _users(table: dict[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Yield section and key of each value that names a source."""
    for section, rows in table.items():
        for key, entry in rows.items() if isinstance(rows, dict) else ():
            named = entry.get("source", []) if isinstance(entry, dict) else []
            if name in ([named] if isinstance(named, str) else named):
                yield section, key


def _with_entries(text: str, section: str, entries: dict[str, tuple[str, str]]) -> str:
    """Return the text with lines ``key = value  # remark`` in a section, replaced where they stand, else added."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = re.findall(r"[^\n]*\n|[^\n]+$", text.replace("\r\n", "\n"))
    heading = re.compile(rf"\s*\[\s*{section}\s*\]\s*(#.*)?$")
    start = next((number for number, line in enumerate(lines) if heading.match(line.rstrip("\n"))), None)
    if start is None:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines += [*(["\n"] if lines else []), f"[{section}]\n"]
        start = len(lines) - 1
    stop = next((n for n in range(start + 1, len(lines)) if _HEADER.match(lines[n])), len(lines))
    body, missing = [], dict(entries)
    for line in lines[start + 1 : stop]:
        match = _ENTRY.match(line)
        if match and match[1] in missing:
            value, remark = missing.pop(match[1])
            body.append(_written(match[1], value, _own_comment(line), remark))
        else:
            body.append(line)
    if body and not body[-1].endswith("\n"):
        body[-1] += "\n"
    filled = max((number + 1 for number, line in enumerate(body) if line.strip()), default=0)
    body[filled:filled] = [_written(key, value, "", remark) for key, (value, remark) in missing.items()]
    head = lines[: start + 1]
    head[-1] = head[-1].rstrip("\n") + "\n"
    return "".join([*head, *body, *lines[stop:]]).replace("\n", newline)


def _written(key: str, value: str, comment: str, remark: str) -> str:
    said = [part for part in (comment, f"{_MARK}{remark}" if remark else "") if part]
    return "  ".join([f"{key} = {value}", *said]) + "\n"


def _own_comment(line: str) -> str:
    """Return the comment that somebody wrote behind a value, without a remark of ours."""
    quote = ""
    escaped = False
    for place, character in enumerate(line):
        if escaped:
            escaped = False
        elif quote:
            escaped = character == "\\" and quote == '"'
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return line[place:].partition(_MARK)[0].strip()
    return ""
