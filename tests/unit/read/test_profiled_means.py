"""Metrics of one kernel from a profiler's file."""

from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.read.features import read_profiled_means

ROW = '"0","1","app","127.0.0.1","{kernel}","2026-Jan-01 00:00:00","1","7","1, 1, 1","1, 1, 1","{sectors}","{loads}"\n'
PAGE = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Block Size",'
    '"Grid Size","lts__t_sectors_op_read.sum","smsp__inst_executed_op_global_ld.sum"\n'
    '"","","","","","","","","","","sector","inst"\n'
)


def page(*rows: tuple[str, str, str]) -> str:
    return PAGE + "".join(ROW.format(kernel=kernel, sectors=sectors, loads=loads) for kernel, sectors, loads in rows)


def test_the_mean_over_the_launches_of_one_kernel(tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_text(page(("k", "1,000", "7"), ("k", "3,000", "7")), encoding="utf-8")
    found = read_profiled_means(file)
    names = ("lts__t_sectors_op_read.sum", "smsp__inst_executed_op_global_ld.sum")
    assert found.of(names) == (2000.0, 7.0)


def test_several_kernels_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_text(page(("k", "1", "7"), ("other", "3", "7")), encoding="utf-8")
    with pytest.raises(InputError, match="2 kernels"):
        read_profiled_means(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_profiled_means(tmp_path / "missing.csv")
