"""Score operators' forecasts leaving one GPU out: the physics with refitted constants, the residual, the interval.

    python benchmarks/score_operators.py [FAMILY ...] [--write]

Of each GPU the constants that a fit may move and the residual are learned from the other GPUs alone. ``--write`` learns
both from all GPUs and writes ``data/operators`` and ``data/calibration``. Prints Markdown.
"""

import argparse
import hashlib
import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from operator_rows import DATA, MeasuredOperators, aiconfigurator, neusight

import kerncast
from kerncast.measurements.scores import scores_of
from kerncast.models.learned.model_files import (
    MOST_CHECKED,
    ModelFile,
    ModelHeader,
    SelfCheck,
    Versions,
    write_model,
)
from kerncast.models.learned.reach import Reach, reach_of
from kerncast.models.learned.regressors import Trained
from kerncast.models.learned.trees import BoostedTrees
from kerncast.models.operators import (
    attention,
    attention_work,
    elementwise,
    experts,
    fp32_products,
    row_operators,
    tensor_products,
)
from kerncast.models.operators.constants import FOLDER
from kerncast.models.operators.forecasts import blame_in, model_of
from kerncast.models.operators.operator_work import Floats, OperatorModel, OperatorWork
from kerncast.models.operators.residuals import file_of
from kerncast.operators import Family as OperatorFamily
from kerncast.read.features.cleaning import DataFile
from kerncast.studies.learning.training import regressor_of
from kerncast.units import MICROSECOND, PERCENT
from kerncast.version import __version__

#: NeuSight's rows below are mostly dispatch; the issue scores those above.
LEAST_S = 200 * MICROSECOND
_ROWS_TO_FIT = 900
_ROWS_TO_LEARN = 20_000
_SEED = 22
#: How far a constant moves easily, in its logarithm; errors beyond the second number count by their size, not their
#: square; the weight of all rows together against the constants' beginnings.
_DEVIATION, _SOFT, _TRUST = 0.35, 0.15, 30.0
_MOST_STEPS = 15


@dataclass(frozen=True, slots=True)
class Family:
    """Measured operators that one model times."""

    name: str
    model: Any
    fitted: tuple[str, ...]
    data: tuple[MeasuredOperators, ...]
    has_residual: bool = True
    """whether a residual is learned, for GPUs of measured architectures"""
    least_s: float = 0.0
    file: str = ""
    """name of the file of its constants"""
    least_fitted_s: float = 0.0
    """constants are fitted on longer operators: those of less are mostly dispatch"""
    prior: Any = None
    """the model before any fit; None: as it is"""
    deviations: Mapping[str, float] = field(default_factory=dict)
    """how far constants move easily, where not as usual"""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the data."""
        if self.data[0].data == "NeuSight":
            return (DATA / "neusight" / "ops.parquet",)
        names = dict.fromkeys(each.batch.kind.name for each in self.data)
        return tuple(DATA / "aiconfigurator" / f"{name}.parquet" for name in names)

    @property
    def licence(self) -> str:
        """The data and their licence."""
        return "NeuSight (MIT)" if self.data[0].data == "NeuSight" else "aiconfigurator (Apache-2.0)"

    @property
    def gpus(self) -> tuple[str, ...]:
        """GPUs of the data."""
        return tuple(dict.fromkeys(each.gpu.id for each in self.data))


def works(model: OperatorModel, data: Sequence[MeasuredOperators]) -> Iterator[tuple[MeasuredOperators, OperatorWork]]:
    """Yield the physical forecast of measured operators."""
    for each in data:
        yield each, model.work(each.batch, each.gpu, model.timing)


def sampled(data: Sequence[MeasuredOperators], rows: int, draw: np.random.Generator) -> list[MeasuredOperators]:
    """Return so many rows of each GPU, each batch by its size."""
    total: dict[str, int] = {}
    for each in data:
        total[each.gpu.id] = total.get(each.gpu.id, 0) + len(each)
    found = []
    for each in data:
        wanted = min(len(each), max(1, round(rows * len(each) / total[each.gpu.id])))
        found.append(each.rows(np.sort(draw.choice(len(each), wanted, replace=False))))
    return found


def fitted(family: Family, data: Sequence[MeasuredOperators], *, knows_all: bool = False) -> Any:
    """Return the model with its constants fitted: least squares of soft L1 of ln(time), held by where they began.

    Where a GPU is left out, ``family.prior`` is where they begin, which no measured time has moved.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415

    begun = family.model if knows_all or family.prior is None else family.prior
    if not family.fitted:
        return begun
    longer = [each.rows(each.seconds > family.least_fitted_s) for each in data]
    some = sampled([each for each in longer if len(each)], _ROWS_TO_FIT, np.random.default_rng(_SEED))
    start = np.log([getattr(begun.constants, name) for name in family.fitted])
    truth = np.log(np.concatenate([each.seconds for each in some]))
    held = np.array([family.deviations.get(name, _DEVIATION) for name in family.fitted])

    def made(logs: Floats) -> Any:
        values = {name: float(np.exp(log)) for name, log in zip(family.fitted, start + logs, strict=True)}
        return replace(begun, constants=replace(begun.constants, **values))

    def distances(logs: Floats) -> Floats:
        seconds = np.concatenate([work.seconds for _, work in works(made(logs), some)])
        errors = np.log(seconds) - truth
        soft = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + (errors / _SOFT) ** 2) - 1))
        return np.concatenate([_TRUST * soft / np.sqrt(len(errors)), logs / held])

    return made(least_squares(distances, np.zeros(len(start)), diff_step=0.01, max_nfev=_MOST_STEPS).x)


def weights_of(data: Sequence[MeasuredOperators]) -> Floats:
    """Return weights of rows: each GPU has the same."""
    names = np.concatenate([np.full(len(each), each.gpu.id) for each in data])
    found = np.zeros(len(names))
    for name in set(names.tolist()):
        found[names == name] = 1 / (names == name).sum()
    found /= found.sum()
    return found


def learned(model: Any, data: Sequence[MeasuredOperators]) -> tuple[BoostedTrees, Floats]:
    """Return a residual, ln(measured / physical), learned with and without the names of libraries, and its features."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    some = sampled(data, _ROWS_TO_LEARN, np.random.default_rng(_SEED))
    some += [anonymous(each) for each in some if each.batch.libraries[0]]
    pairs = list(works(model, some))
    features = np.concatenate([work.features for _, work in pairs])[:, :-1]  # the last is the architecture
    target = np.concatenate([np.log(each.seconds / work.seconds) for each, work in pairs])
    trees = HistGradientBoostingRegressor(**_TREES, random_state=_SEED)
    weights = weights_of(some)
    trees.fit(features, target, sample_weight=weights * len(weights))
    found = regressor_of(trees, features)
    assert isinstance(found, BoostedTrees)
    return found, features


def anonymous(measured: MeasuredOperators) -> MeasuredOperators:
    """Return operators whose library nobody names."""
    nobody = np.full(len(measured), "")
    return replace(measured, batch=replace(measured.batch, libraries=nobody, kernels=nobody))


@dataclass(frozen=True, slots=True)
class Scored:
    """The errors of one GPU, or of one part of the sizes."""

    gpu: str
    truth: Floats
    base: Floats
    forecast: Floats
    shares: Floats
    """[operators, classes] what limits each operator"""
    parts: npt.NDArray[np.str_]
    """kind and format of each operator"""

    def of(self, part: str) -> "Scored":
        """Return the errors of one kind and format."""
        mine = self.parts == part
        names = ("truth", "base", "forecast", "shares", "parts")
        return Scored(self.gpu, *(getattr(self, name)[mine] for name in names))

    @property
    def errors(self) -> Floats:
        """ln(measured / forecast)."""
        return np.asarray(np.log(self.truth / self.forecast))

    @property
    def row(self) -> str:
        """A row of a table."""
        base, found = (np.abs(each / self.truth - 1) / PERCENT for each in (self.base, self.forecast))
        bias = np.median(self.forecast / self.truth - 1) / PERCENT
        return (
            f"| {self.gpu} | {len(self.truth)} | {base.mean():.1f} | {found.mean():.1f} | {np.median(found):.1f} |"
            f" {bias:+.1f} |"
        )


def joined(name: str, parts: Sequence[Scored]) -> Scored:
    """Return the errors of several GPUs as one."""
    names = ("truth", "base", "forecast", "shares", "parts")
    return Scored(name, *(np.concatenate([getattr(each, field) for each in parts]) for field in names))


def scored(
    name: str, family: Family, model: Any, residual: BoostedTrees | None, data: Sequence[MeasuredOperators]
) -> Scored:
    """Return the errors on some operators; ``residual`` takes as many of the features as it learned from."""
    parts = []
    for each, work in works(model, data):
        ratio = 0.0 if residual is None else residual.predict(work.features[:, : residual.features])
        keep = each.seconds > family.least_s
        least = 0.0 if work.least is None else work.least
        base, forecast = np.maximum(work.seconds, least), np.maximum(work.seconds * np.exp(ratio), least)
        kind = each.batch.kind
        part = kind.family.value if kind.family is OperatorFamily.ELEMENTWISE else kind.name
        label = np.full(int(keep.sum()), f"{part} {each.batch.dtype.name}")
        shares = shares_of(work)[keep]
        parts.append(Scored(name, each.seconds[keep], base[keep], forecast[keep], shares, label))
    return joined(name, parts)


#: Resources that errors are told apart by.
CLASSES = ("arithmetic", "memory", "launch", "latency")
_CLASS_OF = {
    "fp32": "arithmetic", "tensor": "arithmetic", "special": "arithmetic", "power": "arithmetic", "dram": "memory",
    "l2": "memory", "launch": "launch",
}  # fmt: skip


def shares_of(work: OperatorWork) -> Floats:
    """Return [operators, classes] what limits each operator, as models/clock.blame_of has it."""
    names, blame = blame_in(work)
    found = np.zeros((len(work.seconds), len(CLASSES)))
    for name, part in zip(names, blame.T, strict=True):
        found[:, CLASSES.index(_CLASS_OF.get(name, "latency"))] += part
    return found


def without(family: Family, gpu: str) -> Family:
    """Return a family whose stream shares, which element-wise operators tell, are not known from a GPU."""
    if family.data[0].data != "NeuSight" or family.name == "elementwise":
        return family
    streams = FAMILIES["elementwise"]()
    found = fitted(streams, [each for each in streams.data if each.gpu.id != gpu]).constants
    shares = {name: getattr(found, name) for name in elementwise.STREAM_SHARES}
    return replace(family, model=replace(family.model, constants=replace(family.model.constants, **shares)))


def left_out(whole: Family, gpu: str) -> Scored:
    """Return the errors on a GPU that nothing was learned from."""
    family = without(whole, gpu)
    train = [each for each in family.data if each.gpu.id != gpu]
    model = fitted(family, train)
    return scored(gpu, family, model, None, [each for each in family.data if each.gpu.id == gpu])


def new_sizes(family: Family, model: Any) -> list[Scored]:
    """Return the errors on each GPU where a fifth of the sizes was held out: what a measured architecture has."""
    found = []
    for gpu in family.gpus:
        own = [each for each in family.data if each.gpu.id == gpu]
        masks = [_is_held_out(each) for each in own]
        residual = learned(model, [each.rows(~mask) for each, mask in zip(own, masks, strict=True)])[0]
        held_out = [each.rows(mask) for each, mask in zip(own, masks, strict=True)]
        found.append(scored(gpu, family, model, residual, held_out))
    return found


def _is_held_out(measured: MeasuredOperators) -> npt.NDArray[np.bool_]:
    """Return which rows have sizes, but for their first, of which a fifth is held out: on every GPU the same."""
    sizes = measured.batch.sizes[:, 1:].astype(np.int64)
    return np.array([zlib.crc32(row.tobytes()) % 5 == 0 for row in sizes])


LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True, slots=True)
class Interval:
    """The width of intervals by what limits an operator, as a calibration file has it."""

    deviations: Floats
    """[classes]"""
    quantiles: tuple[float, ...]
    """[LEVELS]"""
    coverage: tuple[tuple[str, float], ...]
    """of 90 % intervals on each GPU, calibrated on the others"""

    def widths(self, of: Scored) -> Floats:
        """Return the deviation of each operator."""
        return np.asarray(np.sqrt(of.shares @ self.deviations**2))


def interval_of(parts: Sequence[Scored]) -> Interval:
    """Return how wide intervals have to be, so that they hold on GPUs that they were not calibrated on."""
    whole = joined("", parts)
    deviations = np.array([_deviation(whole, place) for place in range(len(CLASSES))])
    plain = Interval(deviations, (), ())
    ratios = [np.abs(each.errors) / plain.widths(each) for each in parts]
    quantiles = [_held(ratios, level) for level in LEVELS]
    nine = LEVELS.index(0.9)
    found = [(each.gpu, float((ratio <= quantiles[nine]).mean())) for each, ratio in zip(parts, ratios, strict=True)]
    return Interval(deviations, tuple(np.maximum.accumulate(quantiles).tolist()), tuple(found))


def _deviation(whole: Scored, place: int) -> float:
    """Return the median error of operators that a class limits."""
    limited = whole.shares[:, place] > 0.5
    chosen = np.abs(whole.errors)[limited] if limited.sum() > 50 else np.abs(whole.errors)
    return max(float(np.median(chosen)), 0.01)


def _held(ratios: Sequence[Floats], level: float) -> float:
    """Return a quantile, widened so that those of all other GPUs hold so many of each GPU's operators on average."""
    pooled = float(np.quantile(np.concatenate([np.quantile(each, np.linspace(0, 1, 401)) for each in ratios]), level))
    if len(ratios) == 1:
        return pooled
    own = []
    for place in range(len(ratios)):
        others = [np.quantile(each, np.linspace(0, 1, 401)) for n, each in enumerate(ratios) if n != place]
        own.append(float(np.quantile(np.concatenate(others), level)))
    low, high = 0.5, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        held = float(np.mean([(ratio <= middle * each).mean() for ratio, each in zip(ratios, own, strict=True)]))
        low, high = (middle, high) if held < level else (low, middle)
    return pooled * high


_TREES = {
    "loss": "squared_error", "max_iter": 200, "max_leaf_nodes": 31, "min_samples_leaf": 20, "learning_rate": 0.1,
    "l2_regularization": 1.0, "early_stopping": False,
}  # fmt: skip


def _products() -> Family:
    gemm = [each for each in aiconfigurator() if each.batch.kind.name == "gemm"]
    # vLLM's block-scaled FP8 takes 60 to 340 us for any small product: the host, not the kernel.
    usable = tuple(
        each.rows(~((each.batch.libraries == "vllm") & (each.batch.dtype.name == "fp8_block"))) for each in gemm
    )
    return Family("products", tensor_products.TensorProducts(), tensor_products.FITTED, usable, file="products")


def _of_neusight(name: str, model: Any, fitted: tuple[str, ...]) -> Family:
    data = tuple(each for each in neusight() if model_of(each.batch).name == model.name)
    least = LEAST_S if name == "elementwise" else LEAST_S / 2
    plain = Family(name, model, fitted, data, has_residual=False, file=name)
    return replace(plain, least_s=LEAST_S, least_fitted_s=least)


def _attention(name: str, kinds: tuple[str, ...], model: Any, priors: Sequence[attention_work.Prior]) -> Family:
    data = tuple(_possible(each) for each in aiconfigurator() if each.batch.kind.name in kinds)
    prior = replace(model, constants=model.constants.prior())
    names, held = tuple(each.name for each in priors), {each.name: each.log_deviation for each in priors}
    return Family(name, model, names, data, file=name, prior=prior, deviations=held)


def _possible(measured: MeasuredOperators) -> MeasuredOperators:
    """Return rows that do not read their cache faster than DRAM and L2 together could: some read less than they say."""
    if measured.batch.kind.name != "generation_attention":
        return measured
    heads = np.where(measured.batch.size("KV") > 0, measured.batch.size("KV"), measured.batch.size("H"))
    window = measured.batch.size("W")
    keys = np.where(window > 0, np.minimum(window, measured.batch.size("S")), measured.batch.size("S"))
    nbytes = 2 * measured.batch.size("B") * keys * heads * measured.batch.size("D") * measured.batch.cache_dtype.nbytes
    beyond_l2 = nbytes > 2 * float(measured.gpu.l2_bytes or 0)
    return measured.rows(~(beyond_l2 & (nbytes / measured.seconds > measured.gpu.dram_bytes_per_s)))


def _experts() -> Family:
    """Return gated experts; FlashInfer's kernels take four times as long as others on the same sizes."""
    data = []
    for each in aiconfigurator():
        if each.batch.kind.name == "moe":
            is_gated = (each.batch.size("topk") != _UNGATED_TOPK) & (each.batch.size("F") != _UNGATED_SIZE)
            data.append(each.rows(is_gated & (np.char.find(each.batch.kernels, "flashinfer") < 0)))
    model = experts.Experts()
    prior = replace(model, constants=experts.Constants.prior())
    return Family("experts", model, experts.FITTED, tuple(data), file="experts", prior=prior)


#: Models of the data whose experts have no gate: chosen experts, or the size inside one.
_UNGATED_TOPK, _UNGATED_SIZE = 22, 1856


#: The families of operators, each made where it is asked for.
FAMILIES: dict[str, Callable[[], Family]] = {
    "elementwise": lambda: _of_neusight("elementwise", elementwise.Elementwise(), elementwise.STREAM_SHARES),
    "softmax": lambda: _of_neusight("softmax", row_operators.Softmax(), row_operators.FITTED),
    "norm": lambda: _of_neusight("norm", row_operators.Norm(), row_operators.FITTED),
    "bmm-fp32": lambda: _of_neusight("bmm-fp32", fp32_products.Fp32Products(), fp32_products.FITTED_OF_BMM),
    "linear-fp32": lambda: _of_neusight(
        "linear-fp32", fp32_products.Fp32Products.with_weights(), fp32_products.FITTED_OF_LINEAR
    ),
    "products": _products,
    "prefill": lambda: _attention(
        "prefill", ("context_attention", "encoder_attention"), attention.Prefill(), attention.PREFILL_PRIORS
    ),
    "decode": lambda: _attention("decode", ("generation_attention",), attention.Decode(), attention.DECODE_PRIORS),
    "experts": _experts,
}


_HEAD = "| {} | n | physics | forecast | median | bias |\n|---|---|---|---|---|---|"


def show(title: str, found: Sequence[Scored]) -> None:
    """Print the errors of each kind and format: of each GPU, and of all together."""
    whole = joined("pooled", found)
    for part in dict.fromkeys(whole.parts.tolist()):
        print(f"\n{part}, {title}\n\n" + _HEAD.format("GPU"))
        for each in (*found, whole):
            if len(each.of(part).truth):
                print(each.of(part).row, flush=True)


def score(family: Family) -> Interval:
    """Print the errors of a family, and return the interval that they give."""
    print(f"\n## {family.name}")
    found = [left_out(family, gpu) for gpu in family.gpus]
    show("one GPU left out", found)
    interval = interval_of(found)
    held = ", ".join(f"{gpu} {share:.0%}" for gpu, share in interval.coverage)
    print(f"\n90 % intervals hold on GPUs left out: {held}; mean {np.mean([e for _, e in interval.coverage]):.0%}.")
    if family.has_residual:
        model = fitted(family, family.data, knows_all=True)
        show("a fifth of the sizes left out", new_sizes(family, model))
        if family.data[0].batch.libraries[0]:
            nameless = replace(family, data=tuple(anonymous(each) for each in family.data))
            show("a fifth of the sizes left out, libraries not named", new_sizes(nameless, model))
    return interval


def main() -> None:
    """Score, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("family", nargs="*", help="families to score; all where none is named")
    parser.add_argument("--write", action="store_true", help="learn from all GPUs, and write what forecasts use")
    asked = parser.parse_args()
    for name in asked.family or FAMILIES:
        family = FAMILIES[name]()
        start = time.monotonic()
        interval = score(family)
        if asked.write:
            write(family, interval)
        print(f"\n{time.monotonic() - start:.0f} s", flush=True)


def write(family: Family, interval: Interval) -> None:
    """Learn from all GPUs, and write constants, residuals and the interval."""
    model = fitted(family, family.data, knows_all=True)
    write_constants(family, model)
    write_interval(family, interval)
    for gpu in family.gpus if family.has_residual else ():
        own = replace(family, data=tuple(each for each in family.data if each.gpu.id == gpu))
        path = file_of(family.model.name, own.data[0].gpu.architecture.number)
        write_model(path, _model_file(own, model, *learned(model, own.data)))


def write_constants(family: Family, model: Any) -> None:
    """Write the fitted constants into the model's file, whose comments stay."""
    put_constants(family.file, family.fitted, model.constants)
    if family.name == "elementwise":
        for name in _STREAMING:
            put_constants(name, elementwise.STREAM_SHARES, model.constants)


#: Files of constants with the shares of streams, which element-wise operators tell.
_STREAMING = ("softmax", "norm", "bmm-fp32", "linear-fp32")


def put_constants(file: str, names: Sequence[str], constants: Any) -> None:
    """Write constants into a file."""
    path = FOLDER / f"{file}.toml"
    text = path.read_text(encoding="utf-8")
    for name in names:
        value = float(f"{getattr(constants, name):.4g}")
        text, count = re.subn(rf"(?m)^{name} = \S+", f"{name} = {value!r}", text)
        assert count == 1, name
    path.write_text(text, encoding="utf-8")


def write_interval(family: Family, interval: Interval) -> None:
    """Write the calibration file of a family's model."""
    usual = float(np.median(np.sqrt(interval.deviations**2)))
    known = sorted({each.gpu.architecture.microarchitecture for each in family.data})
    held = ", ".join(f"{gpu} {share:.0%}" for gpu, share in interval.coverage)
    lines = [
        "# By what factor forecasts of operators were off on GPUs that were left out; models/calibration.py says how",
        "# it is used, benchmarks/score_operators.py writes it. 90 % intervals hold, calibrated on the other GPUs:",
        f"# {held}. Data: {family.licence}.",
        "version = 2",
        f"levels = {list(LEVELS)}",
        f"quantiles = {[round(each, 3) for each in interval.quantiles]}",
        f"median_deviation = {usual:.4f}",
        f"families = {len({each.batch.kind.name for each in family.data})}",
        f"cases = {sum(map(len, family.data))}",
        f"microarchitectures = {json.dumps(known)}",
        f'measured = "{family.data[0].data} on {len(family.gpus)} GPUs"',
    ]
    for name, deviation in zip(CLASSES, interval.deviations, strict=True):
        resources = [each for each, of in _CLASS_OF.items() if of == name] or ["latency"]
        lines += [
            "",
            "[[class]]",
            f'name = "{name}"',
            f"resources = {json.dumps(resources)}",
            f"deviation = {deviation:.4f}",
        ]
    path = Path(kerncast.__path__[0]) / "data" / "calibration" / f"{family.model.name}.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _model_file(family: Family, model: Any, trees: BoostedTrees, learned_from: Floats) -> ModelFile:
    """Return the residual as a file: the forecasts that it checks itself by are ln(measured / physical)."""
    some = sampled(family.data, 4, np.random.default_rng(_SEED))
    features = np.concatenate([work.features for _, work in works(model, some)])[:MOST_CHECKED, : trees.features]
    trained = Trained(trees, None, None)
    whole, rows = joined("", [scored("", family, model, trees, family.data)]), sum(map(len, family.data))
    header = ModelHeader(
        recipe="operators", model=family.model.name, form="BoostedTrees",
        features=tuple(family.model.features[: trees.features]),
        data=tuple(DataFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in family.files),
        gpus=family.gpus, kernels=tuple(sorted({each.batch.kind.name for each in family.data})),
        rows=rows, learned_from=min(rows, _ROWS_TO_LEARN),
        split="gpus", seed=_SEED, scores=scores_of(whole.truth.tolist(), whole.forecast.tolist()),
        caveats=("scores are of operators that it learned from; docs/operators.md has those of GPUs left out",),
        command=f"python benchmarks/score_operators.py {family.name} --write",
        versions=Versions(__version__, sys.version.split()[0], version("scikit-learn"), np.__version__),
        check=SelfCheck(
            tuple(tuple(float(cell) for cell in row) for row in features),
            tuple(float(each) for each in trained.seconds(features)),
        ),
        reach=aligned(reach_of(learned_from, (), _SEED), family.model.features),
    )  # fmt: skip
    return ModelFile(header, trained)


def aligned(reach: Reach, features: Sequence[str]) -> Reach:
    """Return a reach that holds sizes of any alignment: no measured one is odd, and odd ones are taken like them."""
    low = (0.0 if name.startswith("align") else end for name, end in zip(features, reach.low, strict=False))
    return replace(reach, low=tuple(low))


if __name__ == "__main__":
    main()
