"""NOUN Measurement, PartitionTimes, FeatureTable: what was timed, and where."""

from kerncast.measurements.files import Record, Recorder, read_measurement, read_with_remarks
from kerncast.measurements.measurement import (
    Check,
    ClockState,
    Configuration,
    Counters,
    Failure,
    Machine,
    Measurement,
    Method,
    Outcome,
    Protocol,
    Reading,
    Summary,
    Trial,
    outliers,
    summarise,
)
from kerncast.measurements.partition_times import MOST_TPCS, CountFeatures, PartitionTimes, counts_up_to, parse_tpcs
from kerncast.observation import LEAST_BODY, LEAST_VARIANCE, Observation, TimedKernel

__all__ = [
    "LEAST_BODY", "LEAST_VARIANCE", "MOST_TPCS", "Check", "ClockState", "Configuration", "CountFeatures", "Counters",
    "Failure", "Machine", "Measurement", "Method", "Observation", "Outcome", "PartitionTimes", "Protocol", "Reading",
    "Record", "Recorder", "Summary", "TimedKernel", "Trial", "counts_up_to", "outliers", "parse_tpcs",
    "read_measurement", "read_with_remarks", "summarise",
]  # fmt: skip
