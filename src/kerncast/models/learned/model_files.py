"""The file of a trained model: its header, its arrays, and how it is made and read."""

import io
import json
import math
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import Floats
from kerncast.measurements.scores import Scores
from kerncast.models.learned.reach import MOST_LOG_ERROR, Reach, SplitErrors
from kerncast.models.learned.regressors import Linear, Perceptron, RadialBasis, Regressor, Scaling, Trained
from kerncast.models.learned.trees import BoostedTrees, Forest, Trees
from kerncast.models.learned.tuning import Setting, Settings, Tried, Tuning
from kerncast.printable import printable
from kerncast.read.features.cleaning import DataFile
from kerncast.replaced_file import replacing
from kerncast.units import MIB

FORMAT = "kerncast model"
#: 1.x are read; fields may be added in 1.y. 1.1 adds the reach and the tuning, 1.2 the base of a residual.
FORMAT_VERSION = "1.2"
_CURE = "The file was changed or damaged: copy it again, or train the model again."


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the programs that trained the model; forecasts need none of them."""

    kerncast: str
    python: str
    sklearn: str
    numpy: str


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Some launches and what the model said of them when it was written."""

    values: tuple[tuple[float, ...], ...]
    """[launches, features]"""
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """The origin of a model: data, settings, scores."""

    recipe: str
    model: str
    """name of the model in the recipe"""
    form: str
    """name of its class in regressors.py"""
    features: tuple[str, ...]
    """names of the features, in the order of the arrays"""
    data: tuple[DataFile, ...]
    gpus: tuple[str, ...]
    """GPUs that it learned from, as the data call them"""
    kernels: tuple[str, ...]
    rows: int
    """launches after cleaning"""
    learned_from: int
    """launches that it learned from"""
    split: str
    seed: int
    scores: Scores
    """scores on the launches held out; errors in seconds"""
    caveats: tuple[str, ...]
    command: str
    """command that makes the model again"""
    versions: Versions
    check: SelfCheck
    reach: Reach | None = None
    """errors on what was held out, and what was learned from; None in files of format 1.0"""
    tuning: Tuning | None = None
    """choice of the settings; None where they are the published ones"""
    base: str | None = None
    """feature that holds the simulated time, of a residual; None where the model tells the time itself"""

    @property
    def name(self) -> str:
        """Name of the model and its recipe."""
        return f"{self.model} of {self.recipe}"


def header_object(header: ModelHeader) -> dict[str, Any]:
    """Return a header as JSON; r2 is null where it is no number."""
    table = asdict(header)
    r2 = header.scores.r2
    table["scores"] |= {"rmse": header.scores.rmse, "r2": None if math.isnan(r2) else r2, "unit": "s"}
    table["tuning"] = None if header.tuning is None else tuning_object(header.tuning)
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **table}


def tuning_object(tuning: Tuning) -> dict[str, Any]:
    """Return a choice of settings as JSON."""
    tried = [{**asdict(each), "settings": dict(each.settings)} for each in tuning.tried]
    return {**asdict(tuning), "tried": tried, "chosen": dict(tuning.chosen)}


def read_header(text: str, where: str) -> ModelHeader:
    """Return the header of a JSON text; raises InputError for what is none, or is of a newer format."""
    try:
        table = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("its header is not JSON", where=where, cure=_CURE) from None
    if not isinstance(table, Mapping) or table.get("format") != FORMAT:
        raise InputError("it is not a model of kerncast", where=where, cure="Give a file that kerncast train wrote.")
    version = str(table.get("format_version"))[:20]
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        what = f"its format is {version}, this kerncast reads {FORMAT_VERSION}"
        raise InputError(what, where=where, cure="Update kerncast, or train the model again.")
    try:
        return _header(table)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("its header lacks what every model's has", where=where, cure=_CURE) from None


_VERSIONS = ("kerncast", "python", "sklearn", "numpy")


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _header(table: Mapping[str, Any]) -> ModelHeader:
    check = table["check"]
    return ModelHeader(
        recipe=_text(table["recipe"]),
        model=_text(table["model"]),
        form=_text(table["form"]),
        features=_texts(table["features"]),
        data=tuple(DataFile(_text(each["name"]), _text(each["sha256"])) for each in table["data"]),
        gpus=_texts(table["gpus"]),
        kernels=_texts(table["kernels"]),
        rows=_count(table["rows"]),
        learned_from=_count(table["learned_from"]),
        split=_text(table["split"]),
        seed=_count(table["seed"]),
        scores=_scores(table["scores"]),
        caveats=_texts(table["caveats"]),
        command=_text(table["command"]),
        versions=Versions(**{name: _text(table["versions"][name]) for name in _VERSIONS}),
        check=SelfCheck(
            tuple(tuple(float(cell) for cell in row) for row in check["values"]),
            tuple(float(cell) for cell in check["seconds"]),
        ),
        reach=_reach(table["reach"], len(table["features"])) if table.get("reach") else None,
        tuning=_tuning(table["tuning"]) if table.get("tuning") else None,
        base=None if table.get("base") is None else _text(table["base"]),
    )


def _reach(table: Mapping[str, Any], features: int) -> Reach:
    """Return the reach of a header; raises ValueError for what no training gives."""
    rows = tuple(_numbers(row, features) for row in table["sample"])
    low, median, high, spread = (_numbers(table[name], features) for name in ("low", "median", "high", "spread"))
    is_range = all(a <= b <= c for a, b, c in zip(low, median, high, strict=True))
    if not rows or not is_range or not all(each > 0 for each in spread):
        raise ValueError(table)
    return Reach(tuple(map(_errors, table["errors"])), low, median, high, spread, rows, _error(table["distance"]))


def _errors(table: Mapping[str, Any]) -> SplitErrors:
    levels, quantiles = (tuple(map(_error, table[name])) for name in ("levels", "quantiles"))
    is_ascending = all(a < b for a, b in pairwise((0.0, *levels, 1.0))) and all(a <= b for a, b in pairwise(quantiles))
    if not levels or len(levels) != len(quantiles) or not is_ascending or quantiles[-1] > MOST_LOG_ERROR:
        raise ValueError(table)
    launches, groups = _count(table["launches"]), _count(table["groups"])
    if not 0 < groups <= launches:
        raise ValueError(table)
    return SplitErrors(_text(table["split"]), levels, quantiles, launches, groups)


def _numbers(values: Sequence[Any], count: int) -> tuple[float, ...]:
    numbers = tuple(map(_finite, values))
    if len(numbers) != count:
        raise ValueError(values)
    return numbers


def _tuning(table: Mapping[str, Any]) -> Tuning:
    tried = tuple(
        Tried(_settings(each["settings"]), _error(each["log_error"]), tuple(map(_error, each["by_fold"])))
        for each in table["tried"]
    )
    chosen = _settings(table["chosen"])
    if not any(each.settings == chosen for each in tried):
        raise ValueError(table)
    return Tuning(_text(table["grouped_by"]), _texts(table["held_out"]), _count(table["launches"]), tried, chosen)


def _settings(table: Mapping[str, Any]) -> Settings:
    return tuple((_text(name), _setting(value)) for name, value in table.items())


def _setting(value: Any) -> Setting:
    if isinstance(value, list):
        return tuple(_count(each) for each in value)
    return value if isinstance(value, bool | int) else _finite(value) if isinstance(value, float) else _text(value)


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError(values)
    return tuple(map(_text, values))


def _text(value: object) -> str:
    return printable(str(value))


def _scores(table: Mapping[str, Any]) -> Scores:
    r2 = table["r2"]
    return Scores(
        n=_count(table["n"]),
        mae=_error(table["mae"]),
        max_ae=_error(table["max_ae"]),
        mse=_error(table["mse"]),
        r2=math.nan if r2 is None else _finite(r2),
        mape=_error(table["mape"]),
    )


def _count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _error(value: Any) -> float:
    number = _finite(value)
    if number < 0:
        raise ValueError(value)
    return number


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


# The file of a trained model: a ZIP with a JSON header and NumPy arrays, read without running anything that it holds.
#
# No pickle and no objects: the arrays are numbers of two types, their names and shapes follow from the header, and
# what each means stands in ``regressors.py``. Sizes are checked before anything is unpacked.


#: A forest of 150 trees on 34,000 launches has 110 MB of nodes, the header some kB.
_MOST_UNPACKED_BYTES = 512 * MIB
_MOST_PACKED_BYTES = 256 * MIB
_MOST_HEADER_BYTES = 4 * MIB
#: Deflate can pack by 1000; numbers that a model learned pack by less than 100.
_MOST_RATIO = 200
_MOST_ARRAYS = 64
#: zipfile unpacks these piece by piece; what bzip2 and LZMA declare does not bound what they unpack to.
_PACKED_BY = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
#: Launches whose forecasts the header records.
MOST_CHECKED = 8
_HEADER = "header.json"
#: The date of each entry: the same model gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
#: Sums in another order differ by less.
_SAME = 1e-5
#: What NumPy writes before the numbers; parsed here, as NumPy's own parser takes any Python literal.
_ARRAY_START = b"\x93NUMPY\x01\x00"
_ARRAY_HEADER = re.compile(
    rb"\{'descr': '(?P<kind><f8|<i4|<i2)', 'fortran_order': False, 'shape': \((?P<shape>[0-9, ]{0,60})\), \}[ ]*\n"
)

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model with what its header says of it."""

    header: ModelHeader
    trained: Trained

    def seconds(self, values: Floats) -> Floats:
        """Return the forecast of each row [rows, features of the header]."""
        return self.trained.seconds(values)


def write_model(path: Path, model: ModelFile) -> None:
    """Write a model; the same model gives the same bytes. Raises InputError where it cannot be written."""
    arrays = _arrays(model.trained)
    text = json.dumps(header_object(model.header), indent=1, allow_nan=False, ensure_ascii=False)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        _add(archive, _HEADER, text.encode())
        for name, array in arrays.items():
            raw = io.BytesIO()
            np.lib.format.write_array(raw, array, allow_pickle=False)
            _add(archive, f"{name}.npy", raw.getvalue())
    with replacing(path) as place:
        place.write_bytes(packed.getvalue())


def read_model(path: Path) -> ModelFile:
    """Read a model and check its own forecasts; raises InputError for a file that is damaged, hostile or too new."""
    where = str(path)
    try:
        _check_kind(path)
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, where)
            header = read_header(_header_text(archive, where), where)
            names = [name for name in archive.namelist() if name != _HEADER]
            arrays = {name.removesuffix(".npy"): _array(archive, name, where) for name in names}
        model = ModelFile(header, _trained(header, arrays))
        _check_forecasts(model)
    except InputError as error:
        raise InputError(error.what, where=where, cure=error.cure) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError("it is not a model of kerncast, or damaged", where=where, cure=_CURE) from error
    except (OSError, ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        if isinstance(error, OSError):
            reason = error.strerror or "no such path"
            raise InputError(f"cannot be read ({reason})", where=where, cure="Name an existing file.") from None
        raise InputError("its arrays do not fit its header", where=where, cure=_CURE) from error
    return model


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content, compresslevel=6)


def _check_kind(path: Path) -> None:
    """Raise InputError for what would never end, or is larger than any model."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError("is not a file", where=str(path), cure="Give a file that kerncast train wrote.")
    if found.st_size > _MOST_PACKED_BYTES:
        raise _too_large(str(path))


def _check_sizes(archive: zipfile.ZipFile, where: str) -> None:
    """Raise InputError for more entries or bytes than a model has, by what the file declares: reading stops there."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    known = all(name == _HEADER or name.endswith(".npy") for name in names)
    if _HEADER not in names or not known or len(set(names)) < len(names) or len(names) > _MOST_ARRAYS:
        raise InputError("it is not a model of kerncast", where=where, cure="Give a file that kerncast train wrote.")
    if not all(entry.compress_type in _PACKED_BY for entry in entries):
        raise InputError("it is not packed as kerncast packs", where=where, cure=_CURE)
    unpacked = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if unpacked > _MOST_UNPACKED_BYTES or unpacked > MIB + _MOST_RATIO * packed:
        raise _too_large(where)


def _too_large(where: str) -> InputError:
    return InputError(f"it would unpack to more than {_MOST_UNPACKED_BYTES // MIB} MiB", where=where, cure=_CURE)


def _header_text(archive: zipfile.ZipFile, where: str) -> str:
    if archive.getinfo(_HEADER).file_size > _MOST_HEADER_BYTES:
        raise _too_large(where)
    return archive.read(_HEADER).decode("utf-8")


def _array(archive: zipfile.ZipFile, name: str, where: str) -> Array:
    """Return one array: its type and size are checked against the entry's size before memory is taken for it."""
    declared = archive.getinfo(name).file_size
    with archive.open(name) as stream:
        start = stream.read(len(_ARRAY_START) + 2)
        length = int.from_bytes(start[-2:], "little")
        match = _ARRAY_HEADER.fullmatch(stream.read(length))
        if match is None or not start.startswith(_ARRAY_START):
            raise InputError(f"{name} holds no numbers of a model", where=where, cure=_CURE)
        kind = np.dtype(match["kind"].decode())
        shape = tuple(int(size) for size in match["shape"].replace(b",", b" ").split())
        size = math.prod(shape) * kind.itemsize
        raw = stream.read(size) if size + length + len(start) == declared else b""
    if len(raw) != size:
        raise InputError(f"{name} is cut off", where=where, cure=_CURE)
    array = np.frombuffer(raw, kind).reshape(shape)
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds a number that is not finite", where=where, cure=_CURE)
    return array


def _arrays(trained: Trained) -> dict[str, Array]:
    """Return what a model consists of, by name."""
    found: dict[str, Array] = {}
    for name, scaling in (("features", trained.feature_scaling), ("times", trained.time_scaling)):
        if scaling is not None:
            found |= {f"{name}.mean": np.asarray(scaling.mean), f"{name}.deviation": np.asarray(scaling.deviation)}
    match trained.regressor:
        case Linear() as linear:
            found |= {"coefficients": linear.coefficients, "intercept": np.array(linear.intercept)}
        case Perceptron() as network:
            for layer, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True)):
                found |= {f"weights.{layer}": np.ascontiguousarray(weights), f"biases.{layer}": biases}
        case RadialBasis() as basis:
            found |= {"vectors": np.ascontiguousarray(basis.vectors), "duals": basis.duals}
            found |= {"intercept": np.array(basis.intercept), "gamma": np.array(basis.gamma)}
        case Forest(trees):
            found |= _tree_arrays(trees)
        case BoostedTrees(trees, intercept):
            found |= _tree_arrays(trees) | {"intercept": np.array(intercept)}
        case _:
            raise TypeError(type(trained.regressor).__name__)
    return found


def _tree_arrays(trees: Trees) -> dict[str, Array]:
    return {name: getattr(trees, name) for name in ("roots", "right", "feature", "threshold")}


def _trained(header: ModelHeader, arrays: Arrays) -> Trained:
    regressor = _regressor(header.form, arrays, len(header.features))
    if regressor.features != len(header.features):
        raise InputError("it takes another number of features than its header names", cure=_CURE)
    features, times = (_scaling(arrays, name) for name in ("features", "times"))
    if features is not None and features.mean.shape != (regressor.features,):
        raise InputError("its scaling is of another number of features", cure=_CURE)
    if times is not None and times.mean.ndim:
        raise InputError("its scaling of times is not a number", cure=_CURE)
    return Trained(regressor, features, times, None if header.base is None else header.features.index(header.base))


def _scaling(arrays: Arrays, name: str) -> Scaling | None:
    if f"{name}.mean" not in arrays:
        return None
    mean, deviation = arrays[f"{name}.mean"], arrays[f"{name}.deviation"]
    if mean.shape != deviation.shape or not (deviation > 0).all():
        raise InputError("its scaling is not valid", cure=_CURE)
    return Scaling(mean, deviation)


def _regressor(form: str, arrays: Arrays, features: int) -> Regressor:
    if form == "Linear":
        coefficients = arrays["coefficients"]
        if coefficients.ndim != 1:
            raise InputError("its coefficients are not list", cure=_CURE)
        return Linear(coefficients, float(arrays["intercept"]))
    if form == "Perceptron":
        layers = range(sum(name.startswith("weights.") for name in arrays))
        weights = tuple(arrays[f"weights.{layer}"] for layer in layers)
        return Perceptron(weights, tuple(arrays[f"biases.{layer}"] for layer in layers))
    if form == "RadialBasis":
        return RadialBasis(arrays["vectors"], arrays["duals"], float(arrays["intercept"]), float(arrays["gamma"]))
    if form == "Forest":
        return Forest(_trees(arrays, features))
    if form == "BoostedTrees":
        return BoostedTrees(_trees(arrays, features), float(arrays["intercept"]))
    raise InputError(f"it is of the form {form[:40]!r}, which is not known", cure="Update kerncast.")


def _trees(arrays: Arrays, features: int) -> Trees:
    return Trees(arrays["roots"], arrays["feature"], arrays["threshold"], arrays["right"], features)


def _check_forecasts(model: ModelFile) -> None:
    """Raise InputError where the model does not say what its header says that it says."""
    check = model.header.check
    if not 1 <= len(check.values) <= MOST_CHECKED:
        raise InputError("its header does not record its forecasts", cure=_CURE)
    values = np.array(check.values, np.float64).reshape(len(check.values), len(model.header.features))
    found = model.seconds(values)
    if not np.allclose(found, np.array(check.seconds), rtol=_SAME, atol=0):
        raise InputError("it does not give the forecasts that its header records", cure=_CURE)
