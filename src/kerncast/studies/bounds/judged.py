"""The measured times that a published procedure judges itself by, where it looks at more than it calibrates on."""

from kerncast.errors import InputError
from kerncast.studies.bounds.base import BoundQuestion, Regressors
from kerncast.studies.bounds.curve import Curve, largest_of


def regressors_of(question: BoundQuestion) -> Regressors:
    """Return the regressors of a question; raises InputError where there are none."""
    if question.regressors is None:
        raise InputError("this method needs a form of k or features to learn from", cure="Name --form, or --train.")
    return question.regressors


def judged_times(question: BoundQuestion, method: str) -> Curve:
    """Return the longest times of all counts that were measured and have regressors.

    Raises InputError where none is beyond the anchors: then there is nothing that an oracle could see.
    """
    known = set(regressors_of(question).counts)
    counts = tuple(count for count in question.times.counts if count in known)
    if not set(counts) - set(question.anchors):
        raise InputError(
            f"{method} sets itself by times that it should forecast, and none is measured beside the anchors",
            cure=f"Name fewer --anchors, measure more counts, or use {method.removesuffix('-oracle')}.",
        )
    return largest_of(question.times.only(counts))
