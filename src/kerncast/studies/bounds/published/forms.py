"""The regressors of base models: a curve over the TPCs, or features of other applications."""

from collections.abc import Sequence
from enum import Enum

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements import PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.studies.bounds.base import Blocks, Curve, Floats, Regressors, typical_of
from kerncast.studies.bounds.shapes import typical_shape

FORMS = ("suite", "inverse", "affine", "staircase")
DEFAULT_FORM = "suite"


class Selected(Enum):
    """The five features of section 3.2 of G. Warde, "Estimating the Execution Time of CUDA Programs", 2025.

    Each has the names that Nsight Compute, the report, nvprof, and tables made from nvprof's descriptions give it.
    """

    CYCLES_ELAPSED = ("sm__cycles_elapsed.sum", "sm_cycles_elapsed.sum", "elapsed_cycles_sm")
    BRANCHES = (
        "smsp__inst_executed_op_branch.sum", "smsp_inst_executed_op_branch.sum", "cf_executed",
        "executed_control_flow_instructions",
    )  # fmt: skip
    GLOBAL_LOADS = ("smsp__inst_executed_op_global_ld.sum", "smsp_inst_executed_op_global_ld.sum", "gld_request")
    L2_READ_SECTORS = ("lts__t_sectors_op_read.sum", "lts_t_sectors_op_read.sum", "l2_read_transactions")
    CYCLES_ACTIVE = ("sm__cycles_active.sum", "sm_cycles_active.sum", "active_cycles")


def selected_features(tables: Sequence[Sequence[str]]) -> dict[Selected, str]:
    """Return the names that all tables give the five features; raises InputError where they share none.

    >>> list(selected_features([("gld_request", "elapsed_cycles_sm", "ipc")]).values())
    ['elapsed_cycles_sm', 'gld_request']
    """
    shared = set(tables[0]).intersection(*tables[1:]) if tables else set()
    chosen = {each: next((name for name in each.value if name in shared), "") for each in Selected}
    if not any(chosen.values()):
        raise InputError(
            "the tables share none of the five features of cycles, branches, global loads and L2 reads",
            cure=f"Collect {', '.join(each.value[0] for each in Selected)}.",
        )
    return {each: name for each, name in chosen.items() if name}


def regressors_of_form(
    form: str, anchors: PartitionTimes, tpcs: Sequence[int], blocks: Blocks | None, most: int
) -> Regressors:
    """Return the curve of a form, 1/k, k, ceil(N/k) or what the median simulated kernel does, as long as the anchors.

    ``most`` is the TPCs of the GPU. Raises InputError for an unknown form, for a staircase whose number of blocks is
    unknown, and for a line over k through a single count.
    """
    if form not in FORMS:
        raise InputError(f"no form is called {form[:40]!r}", cure=f"Known: {', '.join(FORMS)}.")
    counts, known = tuple(sorted({*anchors.counts, *tpcs})), typical_of(anchors)
    if form == "affine" and len(known.counts) < 2:
        raise InputError(
            "a straight line over the TPCs needs times on two counts",
            where=anchors.source,
            cure="Measure a second count, name another --form, or give the launch file: its simulation is the curve.",
        )
    raw = typical_shape(counts, most) if form == "suite" else Curve(counts, tuple(_form(form, counts, blocks).tolist()))
    # The calibration does not see this factor: only a method without one does.
    scale = sum(known.seconds) / float(raw.at(known.counts).sum())
    return regressors_of_curve(form, Curve(counts, tuple(scale * each for each in raw.seconds)))


def _form(form: str, counts: Sequence[int], blocks: Blocks | None) -> Floats:
    if form == "staircase":
        if blocks is None:
            raise InputError("the form staircase needs the number of blocks", cure="Add --blocks N, the grid's size.")
        return blocks.waves(counts)
    numbers = np.array(counts, np.float64)
    return numbers if form == "affine" else 1 / numbers


def regressors_of_curve(name: str, curve: Curve) -> Regressors:
    """Return the times of a curve as the only regressor, and as what is learned from."""
    values = np.array(curve.seconds)[:, np.newaxis]
    return Regressors((name,), values, values[:, 0], curve.counts, values)


def regressors_of_features(training: FeatureTable, times: PartitionTimes, tpcs: Sequence[int]) -> Regressors:
    """Return features of each count, and launches of other applications to learn from.

    Raises InputError where a feature is not in the training table, and where a count that is asked has none.
    """
    if not times.feature_names:
        raise InputError(
            "it has no columns of features",
            where=times.source,
            cure=f"Add columns named as in the training table, such as {', '.join(training.names)[:200]}.",
        )
    table = training.features(times.feature_names)
    known = {each.tpcs: each.values for each in times.features}
    missing = [count for count in sorted(set(tpcs)) if count not in known]
    if missing:
        raise InputError(
            f"the features of {', '.join(map(str, missing))[:100]} TPCs are unknown",
            where=times.source,
            cure="Add rows with an empty time and the features, or ask for fewer counts.",
        )
    counts = tuple(sorted({*tpcs, *(count for count in times.counts if count in known)}))
    values = np.array([known[count] for count in counts], np.float64)
    return Regressors(times.feature_names, table.values, table.seconds, counts, values)
