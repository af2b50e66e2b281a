"""Files of Nsight Compute become a KernelProfile."""

from kerncast.read.ncu.pages import NcuMetric, NcuRow, base_unit, metric_id, read_ncu_csv, read_raw_page
from kerncast.read.ncu.profile import profiles_of
from kerncast.read.ncu.report import SIGNATURE, is_report, read_ncu_report
from kerncast.read.ncu.rows import expected_units

__all__ = [
    "SIGNATURE", "NcuMetric", "NcuRow", "base_unit", "expected_units", "is_report", "metric_id", "profiles_of",
    "read_ncu_csv", "read_ncu_report", "read_raw_page",
]  # fmt: skip
