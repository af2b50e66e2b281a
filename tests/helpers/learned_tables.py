"""Tables of launches whose times follow a known equation."""

import numpy as np

from kerncast.measurements.feature_table import FeatureTable

GPUS = ("GTX-980", "Tesla-K20")
KERNELS = ("add", "mul", "sum")


def linear_table(rows: int = 60, *, noise: float = 0.0) -> FeatureTable:
    """Return launches of 3 kernels on 2 GPUs with time = 2 µs + 3 ns inst + 0.5 ns sectors; cycles go with the time."""
    chance = np.random.default_rng(1)
    inst, sectors = chance.integers(100, 10_000, rows), chance.integers(10, 5_000, rows)
    nanoseconds = (2000 + 3 * inst + 0.5 * sectors) * np.exp(noise * chance.standard_normal(rows))
    gpus = tuple(GPUS[row % 2] for row in range(rows))
    clock_ghz = np.where(np.arange(rows) % 2, 0.706, 1.216)
    return FeatureTable(
        names=("inst", "sectors", "elapsed_cycles_sm"),
        values=np.column_stack([inst, sectors, nanoseconds * clock_ghz]).astype(np.float64),
        seconds=nanoseconds * 1e-9,
        kernels=tuple(KERNELS[row % 3] for row in range(rows)),
        gpus=gpus,
        configurations=tuple(f"grid_x={row // 6}" for row in range(rows)),
        source="launches.csv",
        sha256="0" * 64,
    )


def as_csv(table: FeatureTable) -> str:
    """Return a table as a file that kerncast reads."""
    lines = ["gpu,kernel,grid_x,time_ns," + ",".join(table.names)]
    for row in range(len(table)):
        grid = table.configurations[row].removeprefix("grid_x=")
        cells = ",".join(repr(float(cell)) for cell in table.values[row])
        lines.append(f"{table.gpus[row]},{table.kernels[row]},{grid},{table.seconds[row] * 1e9!r},{cells}")
    return "\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n"
