"""VERB read: a file becomes evidence."""

from kerncast.read.declared import declared_profile, read_declared
from kerncast.read.nvprof import NvprofLaunch, NvprofMetric, nvprof_profiles, read_nvprof
from kerncast.read.profile_files import read_profile, read_tuned
from kerncast.read.selection import Pattern, Selection, function_name
from kerncast.read.tuners import tuned_profiles

__all__ = [
    "NvprofLaunch",
    "NvprofMetric",
    "Pattern",
    "Selection",
    "declared_profile",
    "function_name",
    "nvprof_profiles",
    "read_declared",
    "read_nvprof",
    "read_profile",
    "read_tuned",
    "tuned_profiles",
]
