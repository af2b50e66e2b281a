"""A forecast for which nobody waits until the machine code is read."""

from pathlib import Path

import pytest

from kerncast.caveats import CaveatKind
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.launch import Launch
from kerncast.machine import listing

_SOURCE = "__global__ void twice(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = 2.0f * x[i]; }\n"


def test_no_disassembler_starts_and_nothing_is_said_to_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(_SOURCE, encoding="utf-8")
    launch = Launch.of(source, grid=65536, block=256, args={"x": "f32[16777216] zeros"})
    started: list[object] = []
    monkeypatch.setattr(listing, "_started", lambda *how: started.append(how))
    (found,) = forecast_all((launch,), resolve_gpus(["t4"]), Options(by_averages=True)).predictions
    assert not started
    assert CaveatKind.MACHINE_CODE_ESTIMATED not in {each.kind for each in found.caveats}
    # What limits it is DRAM, whatever its machine code: 64 MiB are read and written, at 320 GB/s of the data sheet.
    least = 2 * 64 * 2**20 / 320e9
    assert least < found.seconds < 2 * least
