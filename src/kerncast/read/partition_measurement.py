"""Reads times on parts of a GPU from a measurement file, as ``kerncast measure --tpcs`` writes it."""

from pathlib import Path

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.measurement import Configuration, Measurement, Method
from kerncast.measurement_files import read_measurement
from kerncast.partition_times import PartitionTimes

_MOST_NAMED = 6


def read_measured_partitions(path: Path, gpu: GPU, kernel: str | None = None) -> PartitionTimes:
    """Return every single launch of one kernel on parts of the GPU that was measured; raises InputError.

    ``kernel`` is the key of its configurations without ``@N``, such as ``partition/saxpy#0``, or the kernel's name; it
    may be left out where the file has one kernel on parts. Series are not taken: a mean hides the longest run.
    """
    measurement = read_measurement(path)
    machine, sms_per_tpc = measurement.machine, gpu.sm_count // (gpu.tpc_count or gpu.sm_count)
    if machine.sm_count != gpu.sm_count:
        raise InputError(
            f"{machine.gpu_name} was measured, which has {machine.sm_count} SMs; {gpu.name} has {gpu.sm_count}",
            where=str(path),
            cure="Name the GPU that was measured.",
        )
    parts = _parts(measurement, path)
    key = _chosen(parts, kernel, path)
    runs: list[tuple[int, float]] = []
    for configuration in measurement.configurations:
        if _key(configuration) != key:
            continue
        sms = configuration.sm_count or machine.sm_count
        if sms % sms_per_tpc:
            raise InputError(
                f"{configuration.key} ran on {sms} SMs, which are no whole TPCs of {sms_per_tpc}",
                where=str(path),
                cure="Measure with --tpcs.",
            )
        singles = measurement.trials_of(configuration.key, Method.SINGLE)
        runs += [(sms // sms_per_tpc, seconds) for trial in singles for seconds in trial.seconds]
    if not runs:
        raise InputError(
            f"{key} has no single launches",
            where=str(path),
            cure="Measure with --timing single: a mean hides the longest.",
        )
    counts, seconds = zip(*runs, strict=True)
    return PartitionTimes(counts, seconds, source=str(path))


def _key(configuration: Configuration) -> str:
    return configuration.key.rpartition("@")[0] if configuration.sm_count is not None else configuration.key


def _parts(measurement: Measurement, path: Path) -> dict[str, str]:
    """Return the kernels that were measured on parts of the GPU, by key."""
    parts = {_key(each): each.kernel for each in measurement.configurations if each.sm_count is not None}
    if not parts:
        raise InputError("nothing in it ran on parts of the GPU", where=str(path), cure="Measure with --tpcs 1-8,16.")
    return parts


def _chosen(parts: dict[str, str], kernel: str | None, path: Path) -> str:
    found = [key for key, name in parts.items() if kernel is None or kernel in {key, name}]
    if len(found) == 1:
        return found[0]
    named = sorted(found or parts)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    cure = f"Give --kernel one of {', '.join(named[:_MOST_NAMED])}{more}."
    asked = (kernel or "")[:60]
    what = "it has several kernels on parts of the GPU" if found else f"none of its kernels on parts is {asked!r}"
    raise InputError(what, where=str(path), cure=cure)
