"""Write how runs of one launch differ, from ten runs each of launches on a Tesla K40: a sample of the measured ones.

python tools/sample_repeats.py ../shared/data/gpuperfpredict/rodinia_k40_repeats.parquet
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import pandas as pd

from kerncast.studies.repeats import REPEATS_FILE

_ROWS, _SEED = 400, 7


def main() -> None:
    """Draw rows, each as likely, and write the least and the longest run over the median."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("table", type=Path, help="rodinia_k40_repeats.parquet of gpuperfpredict (CC BY 4.0)")
    table = pd.read_parquet(parser.parse_args().table)
    table = table[table["n_runs"] >= 10]
    chosen = table.iloc[np.sort(np.random.default_rng(_SEED).choice(len(table), _ROWS, replace=False))]
    with REPEATS_FILE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("kernel", "least", "longest"))
        for each in chosen.itertuples():
            least, longest = each.time_us_min / each.time_us_median, each.time_us_max / each.time_us_median
            rows.writerow((each.kernel, f"{least:.5f}", f"{longest:.5f}"))


if __name__ == "__main__":
    main()
