"""How long calls of CUDA's libraries take on a GPU: as operators where one is like them, else by their roofline."""

from collections.abc import Sequence
from dataclasses import replace

from kerncast.errors import InputError, MissingEvidenceError
from kerncast.forecast.asked import Options
from kerncast.forecast.operators import forecast_operators
from kerncast.gpu import GPU
from kerncast.models import Case
from kerncast.models.base import Question
from kerncast.models.roofline import Roofline
from kerncast.operators import parse_operator
from kerncast.prediction import Prediction, Timing
from kerncast.read.declared import declared_profile
from kerncast.read.operator_files import OperatorTable
from kerncast.recording import LibraryCall

_THREADS = 256


def forecast_library_calls(calls: Sequence[LibraryCall], gpu: GPU, options: Options) -> tuple[Prediction, ...]:
    """Return the forecast of each call, as it takes on the GPU alone.

    A library's kernels are not known: what has no measured operator is given the time that its operations or its bytes
    need at least, with the interval of a roofline.
    """
    return tuple(_forecast(call, number, gpu, options) for number, call in enumerate(calls))


def _forecast(call: LibraryCall, number: int, gpu: GPU, options: Options) -> Prediction:
    found = _as_operator(call, gpu, options) or _by_roofline(call, gpu, options.level)
    return replace(found, kernel=call.function, launch=number)


def _as_operator(call: LibraryCall, gpu: GPU, options: Options) -> Prediction | None:
    try:
        operator = parse_operator(call.operator)
    except (InputError, MissingEvidenceError):
        return None
    plain = Options(level=options.level, clock=options.clock)
    found = forecast_operators(OperatorTable((operator,)), [(gpu, ())], plain, None)
    return found.predictions[0] if found.predictions else None


def _by_roofline(call: LibraryCall, gpu: GPU, level: float) -> Prediction:
    operations = {"fp64_flops" if call.double else "fp32_flops": call.operations}
    profile = declared_profile(
        call.function, (4 * gpu.sm_count, 1, 1), (_THREADS, 1, 1), 0, dram_bytes=call.nbytes, **operations
    )
    case, model = Case(profile, gpu), Roofline()
    return model.forecast(case, model.estimate(case, Timing.PROFILER), Question(Timing.PROFILER, level))
