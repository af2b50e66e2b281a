"""Project families of mini-apps from a V100 onto newer GPUs, with the kernels' own ceilings: a report with pictures.

After section 5 of Van Lanker et al., Euro-Par 2024. Nothing here is measured: the time on the V100 is the simulation's,
and so are the times that the projections are held against. Counts are the executor's, with caches of the V100.

python benchmarks/project_mini_apps.py --out FOLDER [--family NAME]…
"""

import argparse
import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kerncast.bench import KERNELS
from kerncast.errors import KerncastError
from kerncast.forecast import Choices, LaunchCases
from kerncast.gpu import GPU, WARP_SIZE, load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.models import Case, Question, model_named
from kerncast.models.transfer.ceilings import kernel_rooflines
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import KernelRoofline, SourceRun
from kerncast.profiles.counts import DRAM_CROSSING
from kerncast.report.page.fragments import drawn
from kerncast.report.page.pages import Document, Section, render_html, render_markdown
from kerncast.report.pictures.picture_files import save_picture, svg_text
from kerncast.report.pictures.projection import Beside, draw_projection, projection_csv
from kerncast.report.pictures.roofline import draw_rooflines, roofline_csv
from kerncast.report.tables import Table
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUITE = KERNELS / "suite"
#: The paper's V100, A100-40, A100-80 and H100: its maxima are those of the PCIe cards.
SOURCE, TARGETS = "v100-pcie-32gb", ("a100-pcie-40gb", "a100-pcie-80gb", "h100-pcie")
#: The picture of rooflines is of this one beside the source.
ROOFLINE_TARGET = TARGETS[-1]
TIMING, RUN = Timing.PROFILER, "simulated"
#: A grid with fewer warps than this for each SM of the largest target leaves it under-used.
_FEW_WARPS = 8
_HONESTY = (
    "Nothing here is measured. The time on the source and the times that the projections are held against are those of"
    " the simulation, the bytes those of simulated caches of the source: this tells where two models differ, not which"
    " of them is right."
)
_COLUMNS = (
    "inside: launches whose simulated time on the target lies in the published interval. width: the interval's longest"
    " over its shortest time. off by: distance of the interval's middle from the simulated time. bias: by how much the"
    " middle is longer. These three are medians. Under-used: fewer than 8 warps for each SM of the H100."
)
EXPLANATION = (_HONESTY, _COLUMNS)


@dataclass(frozen=True, slots=True)
class Family:
    """Programs of one kind, as the paper groups them."""

    name: str
    title: str
    programs: tuple[str, ...]
    roofline_of: str
    """the kernel whose rooflines are drawn"""
    most_sizes: int
    """of each kernel, beside the small one for tests"""


FAMILIES = (
    Family("hydrodynamics", "Hydrodynamics in one dimension", ("hydro1d",), "hydro1d_move", 1),
    Family(
        "polybench",
        "PolyBench and nearest neighbours",
        (
            "polybench_2dconv", "polybench_3dconv", "polybench_2mm", "polybench_3mm", "polybench_gemm",
            "polybench_syrk", "polybench_syr2k", "polybench_atax", "polybench_bicg", "polybench_mvt",
            "polybench_gesummv", "polybench_fdtd2d", "polybench_corr", "polybench_covar", "polybench_gramschmidt",
            "knn",
        ),
        "polybench_gemm",
        1,
    ),
    Family("transport", "Monte-Carlo transport", ("monte_carlo_transport",), "monte_carlo_transport", 2),
    Family("lulesh", "Unstructured hydrodynamics (LULESH)", ("lulesh_element",), "lulesh_element", 2),
    Family("docking", "Molecular docking", ("docking",), "docking", 2),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Projected:
    """One launch carried over to one GPU, and what is forecast for it without a run."""

    family: str
    threads: int
    projection: Prediction
    """by the ceilings"""
    simulated: Prediction
    dram_bytes: tuple[float | None, float | None]
    """on the source and on the target, as the caches of each were simulated"""
    rooflines: tuple[KernelRoofline, ...]

    @property
    def is_inside(self) -> bool:
        """Whether the published interval holds what is simulated."""
        return self.projection.low <= self.simulated.seconds <= self.projection.high

    @property
    def ratio(self) -> float:
        """The middle of the interval over what is simulated."""
        return self.projection.seconds / self.simulated.seconds

    @property
    def is_under_used(self) -> bool:
        """Whether the grid has too few threads for the largest target."""
        return self.threads < _FEW_WARPS * WARP_SIZE * load_gpu(ROOFLINE_TARGET).sm_count

    @property
    def dram_ratio(self) -> float | None:
        """DRAM traffic of the target over that of the source."""
        before, after = self.dram_bytes
        return after / before if before and after is not None else None


def launches_of(family: Family) -> Iterator[Launch]:
    """Yield the launches of real sizes, a kernel after the other."""
    for program in family.programs:
        launches = load_launches(SUITE / f"{program}.toml")
        for name in dict.fromkeys(launch.kernel for launch in launches):
            own = [launch for launch in launches if launch.kernel == name]
            yield from own[1 : 1 + family.most_sizes] or own


def project(launch: Launch, family: Family, number: int) -> list[Projected]:
    """Carry one launch over from its simulated run to every target; raises KerncastError."""
    source, targets = load_gpu(SOURCE), [load_gpu(name) for name in TARGETS]
    cases = LaunchCases(launch, [source, *targets], (), Choices(TIMING, with_caches=True))
    ceilings, question = model_named("ceilings"), Question(TIMING)
    before = _case(cases, source)
    seconds = _simulated(cases, before, question).seconds
    measured = replace(before.profile, run=SourceRun(source, seconds, TIMING))
    found = []
    for gpu in targets:
        after = replace(_case(cases, gpu), source=measured)
        traffic = [case.profile.counts.first(DRAM_CROSSING) for case in (before, after)]
        found.append(
            Projected(
                family.name,
                launch.blocks * launch.threads_per_block,
                replace(ceilings.predict(after, question), launch=number),
                replace(_simulated(cases, after, question), launch=number),
                (traffic[0].value if traffic[0] else None, traffic[1].value if traffic[1] else None),
                kernel_rooflines(after),
            )
        )
    return found


def _simulated(cases: LaunchCases, case: Case, question: Question) -> Prediction:
    """Return the simulation's forecast of a case, with what it needs executed."""
    model, source = model_named("simulation"), cases.source_on(case.gpu)
    assert source is not None
    return model.forecast(case, source.estimate(model, case, question.timing), question)


def _case(cases: LaunchCases, gpu: GPU) -> Case:
    case = cases.on(gpu)
    if case is None:
        raise cases.failures[0].refusal
    return case


def project_family(family: Family) -> list[Projected]:
    """Carry the launches of a family over; tell on stderr what is refused."""
    found: list[Projected] = []
    for number, launch in enumerate(launches_of(family)):
        print(f"{family.name}: {launch.label}", file=sys.stderr, flush=True)
        try:
            found += project(launch, family, number)
        except KerncastError as error:
            print(f"  refused: {error}", file=sys.stderr, flush=True)
    return found


def results_csv(results: Iterable[Projected]) -> str:
    """Return a row per launch and target: all numbers of the tables."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("family", "kernel", "launch", "threads", "gpu", "source_seconds", "low", "middle", "high", "simulated_seconds",
         "is_inside", "middle_over_simulated", "dram_bytes_source", "dram_bytes_target")
    )  # fmt: skip
    for each in results:
        p = each.projection
        before, after = each.dram_bytes
        row = (
            each.family, p.kernel, p.launch, each.threads, p.gpu, source_seconds(p), p.low, p.seconds, p.high,
            each.simulated.seconds, str(each.is_inside).lower(), each.ratio, before, after,
        )  # fmt: skip
        writer.writerow(["" if cell is None else cell for cell in row])
    return text.getvalue()


def source_seconds(p: Prediction) -> float:
    """Return the time of the run."""
    return p.transfer.measured_seconds if p.transfer else 0.0


def summary_table(results: Sequence[Projected]) -> Table:
    """Return a row per family and target, and one of all launches that do and that do not fill the target."""
    rows = []
    for family in FAMILIES:
        own = [each for each in results if each.family == family.name]
        for is_under_used in (False, True):
            group = [each for each in own if each.is_under_used is is_under_used]
            title = f"{family.title}, {_USES[is_under_used]}"
            rows += [
                _summary(title, gpu, [each for each in group if each.projection.gpu == gpu])
                for gpu in dict.fromkeys(each.projection.gpu for each in group)
            ]
    for is_under_used, use in _USES.items():
        group = [each for each in results if each.is_under_used is is_under_used]
        if group:
            rows.append(_summary(f"all, {use}", "all", group))
    return Table(("family", "target", "launches", "inside", "width", "off by", "bias"), tuple(rows))


_USES = {False: "target filled", True: "target under-used"}


def _summary(title: str, gpu: str, group: Sequence[Projected]) -> tuple[str, ...]:
    widths = [each.projection.high / each.projection.low for each in group]
    errors = [abs(each.ratio - 1) for each in group]
    return (
        title, gpu, str(len(group)), str(sum(each.is_inside for each in group)), f"{median(widths):.2f}",
        f"{median(errors):.0%}", f"{median([each.ratio for each in group]) - 1:+.0%}",
    )  # fmt: skip


def family_table(results: Sequence[Projected]) -> Table:
    """Return a row per launch: the run, and per target the interval and what is simulated."""
    gpus = list(dict.fromkeys(each.projection.gpu for each in results))
    columns = [column for gpu in gpus for column in (f"{gpu}, interval", "simulated")]
    heading = ("kernel", f"{load_gpu(SOURCE).name}, {RUN}", *columns, f"DRAM bytes, {gpus[-1]} over source")
    rows = []
    for _, group in groupby(results, key=lambda each: each.projection.launch):
        own = list(group)
        cells = [own[0].projection.kernel, format_seconds(source_seconds(own[0].projection), 3)]
        for each in own:
            p = each.projection
            note = "" if each.is_inside else " (outside)"
            cells.append(f"{format_seconds(p.low, 3)} to {format_seconds(p.high, 3)}")
            cells.append(format_seconds(each.simulated.seconds, 3) + note)
        ratio = own[-1].dram_ratio
        rows.append((*cells, "–" if ratio is None else f"{ratio:.2f}"))
    return Table(heading, tuple(rows))


def bars_of(results: Sequence[Projected]) -> "Figure | None":
    """Return bars of the runs and of the projections, with what is simulated for the targets."""
    times = tuple(each.simulated.seconds for each in results)
    return draw_projection([each.projection for each in results], Beside(RUN, "simulated on the target", times))


def rooflines_of(family: Family, results: Sequence[Projected]) -> tuple[KernelRoofline, ...]:
    """Return the rooflines of one kernel of a family, of its largest launch, on the source and on one target."""
    own = [each for each in results if each.projection.kernel == family.roofline_of]
    return next((each.rooflines for each in reversed(own) if each.projection.gpu_id == ROOFLINE_TARGET), ())


def write_results(results: Sequence[Projected], folder: Path) -> None:
    """Write the report, and pictures and CSV of each family."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mini-apps.csv").write_text(results_csv(results), encoding="utf-8")
    sections = [Section("Summary", EXPLANATION, (summary_table(results),), key="summary")]
    for family in FAMILIES:
        own = [each for each in results if each.family == family.name]
        if not own:
            continue
        (folder / f"{family.name}-bars.csv").write_text(
            projection_csv([each.projection for each in own]), encoding="utf-8"
        )
        (folder / f"{family.name}-roofline.csv").write_text(roofline_csv(rooflines_of(family, own)), encoding="utf-8")
        pictures = []
        for name, figure in _figures(family, own):
            for ending in (".png", ".svg"):
                save_picture(figure, folder / f"{name}{ending}")
            pictures.append(drawn(svg_text(figure)))
        sections.append(Section(family.title, tables=(family_table(own),), key=family.name, pictures=tuple(pictures)))
    document = Document("Mini-apps projected from a V100 onto newer GPUs", tuple(sections))
    (folder / "mini-apps.md").write_text(render_markdown(document), encoding="utf-8")
    (folder / "mini-apps.html").write_text(render_html(document), encoding="utf-8")


def _figures(family: Family, own: Sequence[Projected]) -> Iterator[tuple[str, "Figure"]]:
    found = [
        (f"{family.name}{ending}", bars_of([each for each in own if each.is_under_used is is_under_used]))
        for is_under_used, ending in ((False, "-bars"), (True, "-under-used-bars"))
    ]
    found.append((f"{family.name}-roofline", draw_rooflines(rooflines_of(family, own), RUN)))
    return ((name, figure) for name, figure in found if figure is not None)


def main() -> int:
    """Project the families that are asked for; exit 1 where nothing could be projected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--family", action="append", choices=[family.name for family in FAMILIES])
    chosen = parser.parse_args()
    asked = [family for family in FAMILIES if not chosen.family or family.name in chosen.family]
    results = [each for family in asked for each in project_family(family)]
    if not results:
        return 1
    write_results(results, chosen.out)
    for row in summary_table(results).rows:
        print(*row, sep=", ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
