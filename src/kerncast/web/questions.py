"""NOUN Asked: one state of a pane of the page, and the answers that come back, one after the other."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Hypothetical:
    """A GPU that does not exist: one of the catalogue with some values changed."""

    base: str
    """id of the GPU that it is made from"""
    name: str
    changes: tuple[tuple[str, float], ...]
    """key of ``[peak]`` in the data sheet's unit, and its new value"""


@dataclass(frozen=True, slots=True)
class TypedLaunch:
    """One launch of the source, as it was typed."""

    kernel: str = ""
    grid: str = ""
    block: str = ""
    shared_bytes: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """All that a pane says: source, launch and GPUs, as they were typed."""

    source: str
    kernel: str = ""
    grid: str = ""
    block: str = ""
    shared_bytes: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    """name and text of each argument; in a question, also of those that the kernel does not have now"""
    gpus: tuple[str, ...] = ()
    hypothetical: Hypothetical | None = None
    wants_report: bool = False
    """whether the HTML report is asked for, and nothing else"""
    defines: str = ""
    """macros, as NAME=VALUE or NAME with spaces between them"""
    measured: str = ""
    """measured times of the launch, as GPU=TIME with commas between them"""
    others: tuple[TypedLaunch, ...] = ()
    """the other launches of the source, in their order"""
    place: int = 0
    """number of the launch above among all"""

    @property
    def launches(self) -> tuple[TypedLaunch, ...]:
        """All launches in their order."""
        own = TypedLaunch(self.kernel, self.grid, self.block, self.shared_bytes, self.arguments)
        return (*self.others[: self.place], own, *self.others[self.place :])

    def at(self, place: int, launches: tuple[TypedLaunch, ...]) -> "Asked":
        """Return the same with these launches, of which the one at a place is looked at."""
        own = launches[place]
        return replace(
            self, kernel=own.kernel, grid=own.grid, block=own.block, shared_bytes=own.shared_bytes,
            arguments=own.arguments, others=(*launches[:place], *launches[place + 1 :]), place=place,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArgumentTold:
    """One parameter of the kernel, and what it is given."""

    name: str
    type_text: str
    text: str
    """value as a launch file writes it"""
    is_filled: bool
    """whether the page said nothing, so that a value was chosen"""


@dataclass(frozen=True, slots=True)
class CompiledTold:
    """The kernel compiled: its parameters are known."""

    kernel: str
    arguments: tuple[ArgumentTold, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The time that one resource alone would need."""

    name: str
    seconds: float
    colour: str


@dataclass(frozen=True, slots=True)
class Row:
    """The forecast on one GPU."""

    gpu: str
    gpu_id: str
    seconds: float
    low: float
    high: float
    limiter: str
    """what limits, in words"""
    parts: tuple[Part, ...]
    """longest first"""
    model: str
    is_hypothetical: bool
    occupancy: str
    """occupancy in a sentence; empty where it is not known"""
    resident_warps: int
    most_warps: int


@dataclass(frozen=True, slots=True)
class ForecastTold:
    """The answer: the fastest GPU first."""

    verdict: str
    rows: tuple[Row, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    sampling: str
    """how much of the launch was executed"""
    is_draft: bool = False
    """whether it is of the first GPU alone, without its machine code, and the next one follows"""


@dataclass(frozen=True, slots=True)
class LineCost:
    """The share that one source line has in the time of the warps."""

    line: int
    share: float
    reason: str
    """what the warps wait for there; empty where that is not simulated"""
    ptx: tuple[str, ...] = ()
    sass: tuple[str, ...] = ()
    """machine instructions; empty where nothing reads them"""
    left_out: int = 0
    """further instructions of both kinds"""


@dataclass(frozen=True, slots=True)
class LinesTold:
    """The source lines by cost, on one GPU."""

    gpu: str
    lines: tuple[LineCost, ...]
    by: str
    """what the shares are of"""


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """The forecast of one launch of several."""

    kernel: str
    seconds: float | None
    """None where it has no forecast"""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LaunchesTold:
    """All launches of the source on the GPU that was named first, in their order."""

    gpu: str
    times: tuple[LaunchTime, ...]


@dataclass(frozen=True, slots=True)
class PictureTold:
    """A picture."""

    name: str
    svg: str
    """text of the picture; empty where there is nothing to draw"""


@dataclass(frozen=True, slots=True)
class ReportTold:
    """The report, a whole page."""

    html: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and how to mend it."""

    what: str
    cure: str = ""
    lines: tuple[tuple[int, str], ...] = field(default=())
    """lines of the source with what is wrong there"""
    is_endless: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """All was said."""

    seconds: float
    """time until the forecast was there"""
    is_draft: bool = False
    """whether only the first answer was said"""


Answer = CompiledTold | ForecastTold | LinesTold | LaunchesTold | PictureTold | ReportTold | Problem | Done
