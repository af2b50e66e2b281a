"""Record which metric names NVIDIA's own library knows, and their units: tests/golden/ncu_names.csv.

    pip download --no-deps nvidia-cuda-cupti-cu12==12.9.79 && unzip nvidia_cuda_cupti_cu12-*.whl
    python tools/record_ncu_names.py nvidia/cuda_cupti/lib/libnvperf_host.so > tests/golden/ncu_names.csv

The library beneath CUPTI and Nsight Compute evaluates metrics by chip name, without a GPU. Its structures and the
numbers of its units stand in nvperf_host.h and nvperf_cuda_host.h of the same wheel; units are read from there.
"""

import csv
import ctypes
import re
import sys
from pathlib import Path
from typing import Any

from kerncast.metrics import vocabulary

CHIPS = ("GV100", "TU102", "GA100", "GA102", "AD102", "GH100", "GB100", "GB202")
#: ncu derives these itself, so that the library does not know them.
DERIVED = ("launch__", "sm__maximum_")
Size, Pointer, Text = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
REQUEST_BYTES, UNIT_BYTES, MOST_UNITS = 12, 5, 8


class Unit(ctypes.Structure):
    """NVPW_DimUnitFactor."""

    _fields_ = (("unit", ctypes.c_uint32), ("exponent", ctypes.c_int8))


class Library:
    """Calls NVPW functions; each takes one structure that begins with its own size and a null pointer."""

    def __init__(self, path: Path) -> None:
        self.functions = ctypes.CDLL(str(path))
        header = (path.parents[1] / "include" / "nvperf_host.h").read_text()
        self.units = {int(number): name.lower() for name, number in re.findall(r"NVPW_DIM_UNIT_(\w+) = (\d+)", header)}
        self.call("NVPW_InitializeHost")

    def call(self, function: str, **fields: tuple[type[Any], Any]) -> Any:
        """Call a function; each field is given as (type, value)."""
        members = [("size", Size), ("private", Pointer), *((name, kind) for name, (kind, _) in fields.items())]
        parameters = type("Parameters", (ctypes.Structure,), {"_fields_": members})()
        last = getattr(type(parameters), members[-1][0])
        parameters.size = last.offset + last.size
        for name, (_, value) in fields.items():
            setattr(parameters, name, value)
        if status := getattr(self.functions, function)(ctypes.byref(parameters)):
            raise OSError(f"{function} ended with status {status}")
        return parameters

    def evaluator(self, chip: str) -> tuple[Any, Any]:
        """Return an evaluator of one chip's metrics, and the memory that it lives in."""
        name, nothing = (Text, chip.encode()), (Pointer, None)
        stem = "NVPW_CUDA_MetricsEvaluator"
        size = self.call(f"{stem}_CalculateScratchBufferSize", chip=name, image=nothing, bytes=(Size, 0)).bytes
        memory = ctypes.create_string_buffer(size)
        made = self.call(
            f"{stem}_Initialize", memory=(Pointer, ctypes.addressof(memory)), bytes=(Size, size), chip=name,
            image=nothing, data=nothing, data_bytes=(Size, 0), evaluator=nothing,
        )  # fmt: skip
        return made.evaluator, memory

    def unit(self, evaluator: Any, name: str) -> str:
        """Return the unit of a metric such as bytes/l2_sectors; raises OSError where the chip has no such metric."""
        stem, owner = "NVPW_MetricsEvaluator", (Pointer, evaluator)
        request = ctypes.create_string_buffer(REQUEST_BYTES + 4)
        asked = {"request": (Pointer, ctypes.addressof(request)), "request_bytes": (Size, REQUEST_BYTES)}
        text = (Text, name.encode())
        self.call(f"{stem}_ConvertMetricNameToMetricEvalRequest", evaluator=owner, name=text, **asked)
        units = (Unit * MOST_UNITS)()
        found = self.call(
            f"{stem}_GetMetricDimUnits", evaluator=owner, **asked, units=(Pointer, ctypes.addressof(units)),
            count=(Size, MOST_UNITS), unit_bytes=(Size, UNIT_BYTES),
        )  # fmt: skip
        factors = sorted(((each.exponent, self.units[each.unit]) for each in units[: found.count]), reverse=True)
        return "/".join(unit for _, unit in factors)


def main() -> None:
    """Print a row per name: unit, and the chips that lack it."""
    library = Library(Path(sys.argv[1]))
    evaluators = {chip: library.evaluator(chip) for chip in CHIPS}
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("name", "unit", "not_on"))
    for name in sorted(word.name for word in vocabulary() if word.source == "ncu"):
        if name.startswith(DERIVED):
            continue
        units: dict[str, str] = {}
        for chip, (evaluator, _) in evaluators.items():
            try:
                units[chip] = library.unit(evaluator, name)
            except OSError:
                continue
        writer.writerow((name, "; ".join(sorted(set(units.values()))), " ".join(c for c in CHIPS if c not in units)))


if __name__ == "__main__":
    main()
