"""kerncast compare: which GPU is the best for some launches, by time, energy and cost, and how sure that is."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared import options as option
from kerncast.cli.shared.output import check_place, console_of, emit_json, progress_on_stderr, tell, write_text
from kerncast.cli.shared.scripts import SCRIPT, is_script, launches_of_script
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.forecast import Options
    from kerncast.gpu import GPU
    from kerncast.launch import Launch
    from kerncast.profiles import KernelProfile
    from kerncast.read.prices import Price
    from kerncast.report.comparison.comparison_table import Compared
    from kerncast.studies.comparing.contenders import Resolved
    from kerncast.studies.comparing.ranking import Key

_REFUSED_STATUS = 3


def command(  # noqa: PLR0913  each parameter is one option
    launches: Annotated[
        list[Path], typer.Argument(help="Launch files, or a file of declared counts (.toml); all launches are one run.")
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    price: Annotated[
        Path | None, typer.Option(help="Prices: a .csv with the columns gpu,usd_per_hour[,usd_price].")
    ] = None,
    sort: Annotated[str, typer.Option(help="time, energy or cost.")] = "time",
    against: Annotated[str | None, typer.Option(help="GPU that each one is compared with.")] = None,
    clock: Annotated[str | None, typer.Option(help="Clock: base, boost, default or a number of MHz.")] = None,
    timing: Annotated[str, typer.Option(help="Kind of time: series, single, cold or profiler.")] = "series",
    memory: option.Memory = None,
    pareto: Annotated[
        Path | None, typer.Option(help="Draw time against cost, or energy, to a .png, .svg or .pdf.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a row per GPU to a .csv.")] = None,
    json_: option.AsJson = False,
    out: option.Out = None,
    quiet: option.Quiet = False,
) -> int:
    """Compare GPUs by time, energy and cost, with the probability that one is faster than another."""
    from kerncast.forecast import Options, resolve_gpus, timing_named  # noqa: PLC0415

    _check_files(pareto, csv)
    key = _key(sort, price)
    options = Options(
        force=None,
        timing=timing_named(timing),
        clock=option.clock_of(clock),
        budget=option.budget_of(memory),
        apart=True,
    )
    gpus = resolve_gpus(gpu or ())
    other = _against(against, [each for each, _ in gpus])
    prices = _prices(price, [each for each, _ in gpus])
    with TemporaryDirectory(prefix="kerncast-") as folder:
        evidence = _evidence(launches, gpus, Path(folder), quiet=quiet)
        compared = _compare(evidence, gpus, options, (key, prices, other), quiet=quiet)
    _emit(compared, as_json=json_, out=out)
    if csv is not None:
        from kerncast.report.comparison.comparison_table import comparison_csv  # noqa: PLC0415

        write_text(csv, comparison_csv(compared))
    if not compared.rankings:
        for each in compared.field.set_apart:
            tell(f"{each.gpu} is set apart: {each.reason}")
        return _REFUSED_STATUS
    if pareto is not None:
        _draw(pareto, compared)
    return 0


def _compare(
    evidence: "Sequence[Launch] | Sequence[KernelProfile]",
    gpus: "Sequence[Resolved]",
    options: "Options",
    asked: "tuple[Key, Sequence[Price], str | None]",
    *,
    quiet: bool,
) -> "Compared":
    from kerncast.report.comparison.comparison_table import Compared  # noqa: PLC0415
    from kerncast.studies.comparing.contenders import contenders_of  # noqa: PLC0415
    from kerncast.studies.comparing.ranking import rank  # noqa: PLC0415

    key, prices, other = asked
    with progress_on_stderr(quiet=quiet) as progress:
        field = contenders_of(evidence, gpus, options, progress)
    return Compared(field, tuple(rank(group, prices, key, other) for group in field.groups), bool(prices))


def _emit(compared: "Compared", *, as_json: bool, out: Path | None) -> None:
    from kerncast.report.comparison import comparison_table as words  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    if as_json:
        emit_json(words.comparison_object(compared), out)
        return
    with console_of(out) as console:
        for number, ranking in enumerate(compared.rankings):
            for text in (words.heading(ranking, is_first=not number), words.verdict(ranking)):
                if text:
                    console.print(text, highlight=False, markup=False)
            print_table(words.time_table(ranking), console)
            print_table(words.energy_table(compared, ranking), console)
        notes = [words.front_note(compared)] if compared.rankings else []
        notes += [text for _, text in words.sentences_of(compared, words.MOST_NAMES)]
        print_notes([*notes, *(words.apart_note(each) for each in compared.field.set_apart)], console)


def _draw(path: Path, compared: "Compared") -> None:
    from kerncast.report.comparison.pareto_picture import draw_pareto  # noqa: PLC0415  draws with matplotlib
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415

    figure = draw_pareto(compared.rankings[0], has_prices=compared.has_prices)
    if figure is None:
        what = "price" if compared.has_prices else "estimate of its energy"
        tell(f"{path} is not drawn: no GPU has a {what}")
        return
    save_picture(figure, path)


def _evidence(
    paths: Sequence[Path], gpus: "Sequence[Resolved]", folder: Path, *, quiet: bool
) -> "list[Launch] | list[KernelProfile]":
    """Return the launches of all files, numbered in their order, or declared counts; raises InputError."""
    from dataclasses import replace  # noqa: PLC0415

    from kerncast.forecast import read_evidence  # noqa: PLC0415
    from kerncast.launch import Launch  # noqa: PLC0415
    from kerncast.profiles import KernelProfile  # noqa: PLC0415

    for path in paths:
        if path.suffix.lower() not in {".toml", option.RECORDING, SCRIPT}:
            cure = (
                "Give launch files, recordings, or counts that are declared in a .toml; kerncast predict reads others."
            )
            raise InputError(f"{path} is no launch file", cure=cure)
    found: list[object] = []
    for number, path in enumerate(paths):
        if is_script(path):
            own = folder / str(number)
            own.mkdir()
            with progress_on_stderr(quiet=quiet) as progress:
                found += launches_of_script(path, list(gpus), own, progress)
        else:
            found += read_evidence(path)
    launches = [replace(each, index=n) for n, each in enumerate(found) if isinstance(each, Launch)]
    profiles = [replace(each, index=n) for n, each in enumerate(found) if isinstance(each, KernelProfile)]
    if launches and profiles:
        raise InputError("launches and declared counts cannot be compared", cure="Give files of one kind.")
    return launches or profiles


def _key(text: str, price: Path | None) -> "Key":
    from kerncast.studies.comparing.ranking import Key  # noqa: PLC0415

    try:
        key = Key(text)
    except ValueError:
        raise InputError(f"--sort {text[:40]!r} is unknown", cure=f"Known: {', '.join(Key)}.") from None
    if key is Key.COST and price is None:
        raise InputError("--sort cost needs prices", cure="Add --price prices.csv.")
    return key


def _against(name: str | None, gpus: "Sequence[GPU]") -> str | None:
    """Return the id of the GPU of --against; raises InputError where it is not compared."""
    if name is None:
        return None
    from kerncast.forecast import resolve_gpus  # noqa: PLC0415
    from kerncast.gpu import normalise  # noqa: PLC0415

    own = [each.id for each in gpus if normalise(name) in {normalise(each.id), normalise(each.name)}]
    wanted = own[0] if own else resolve_gpus([name])[0][0].id
    if wanted not in {each.id for each in gpus}:
        raise InputError(f"--against {name[:60]} is not among the GPUs", cure="Name it with --gpu, too.")
    return wanted


def _prices(path: Path | None, gpus: "Sequence[GPU]") -> "tuple[Price, ...]":
    if path is None:
        return ()
    from kerncast.read.prices import read_prices  # noqa: PLC0415

    found = read_prices(path, gpus)
    if not {each.gpu_id for each in found} & {each.id for each in gpus}:
        raise InputError("none of the GPUs has a price", where=str(path), cure="Add rows for them.")
    return found


def _check_files(pareto: Path | None, csv: Path | None) -> None:
    if pareto is not None:
        from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

        check_place(pareto, FORMATS)
    if csv is not None:
        check_place(csv, (".csv",))
