"""A sensitivity study of some launches, and the advice on each of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kerncast.api.subjects import launches_only
from kerncast.caveats import Caveat
from kerncast.errors import Refusal
from kerncast.forecast import Job, Means, each_in_limits, in_limits, read_evidence
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import Question
from kerncast.studies.sensitivity.elasticities import Parameter, Study, sensitivity_of
from kerncast.studies.sensitivity.lifting import Advice, advise


def read_launches(files: Sequence[Path]) -> list[Launch]:
    """Return the launches of some files, numbered through; raises InputError for a file without a source."""
    found = [each for file in files for each in launches_only(read_evidence(file), str(file))]
    return [replace(each, index=number) for number, each in enumerate(found)]


def varied(
    launches: Sequence[Launch],
    gpu: tuple[GPU, tuple[Caveat, ...]],
    question: Question,
    wanted: Sequence[Parameter],
    means: Means,
) -> Study:
    """Return how the time of each launch follows each parameter of a GPU, of which something may be assumed."""
    chosen, assumed = gpu
    study = in_limits(Study, lambda own: sensitivity_of(launches, chosen, question, wanted, own), launches, means)
    return replace(study, found=tuple(replace(each, assumed=assumed) for each in study.found))


def of_study(launches: Sequence[Launch], study: Study) -> list[Launch]:
    """Return the launches that a study did not refuse."""
    known = {number for each in study.found for number in each.launches}
    return [launch for launch in launches if launch.index in known]


def advice_on(
    launches: Sequence[Launch], gpu: GPU, question: Question, means: Means
) -> tuple[tuple[Advice, ...], tuple[tuple[int, Refusal], ...]]:
    """Return the advice on each launch that can be simulated, and the number of each other one with the reason."""
    jobs: list[Job[Advice | Refusal]] = [Job(launch, partial(advise, launch, gpu, question)) for launch in launches]
    answers = list(zip(launches, each_in_limits(Advice, jobs, means), strict=True))
    found = tuple(answer for _, answer in answers if isinstance(answer, Advice))
    return found, tuple((launch.index, answer) for launch, answer in answers if isinstance(answer, Refusal))
