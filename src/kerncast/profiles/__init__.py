"""NOUN KernelProfile: what one launch does, each count with its origin and its range."""

from kerncast.profiles.counts import QUESTIONS, SECTOR_BYTES, Count, Counted, Counts, Origin
from kerncast.profiles.kernel_profile import (
    Balance,
    BasicBlockCount,
    CacheSimulation,
    ClusterUse,
    FloatMix,
    InstructionMix,
    KernelProfile,
    KernelRoofline,
    KindCount,
    LevelCeiling,
    LineCount,
    LineStates,
    MachineMix,
    OpcodeCount,
    ProfiledLaunch,
    Resources,
    ResourceTime,
    SampledLine,
    Sampling,
    SourceRun,
    SourceText,
    StateCycles,
    StateSamples,
    WarpStates,
)

__all__ = [
    "QUESTIONS", "SECTOR_BYTES", "Balance", "BasicBlockCount", "CacheSimulation", "ClusterUse", "Count", "Counted",
    "Counts", "FloatMix", "InstructionMix", "KernelProfile", "KernelRoofline", "KindCount", "LevelCeiling",
    "LineCount", "LineStates", "MachineMix", "OpcodeCount", "Origin", "ProfiledLaunch", "ResourceTime", "Resources",
    "SampledLine", "Sampling", "SourceRun", "SourceText", "StateCycles", "StateSamples", "WarpStates",
]  # fmt: skip
