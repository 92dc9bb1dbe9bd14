"""Claim: where rows are few for many inputs, conformal intervals hold a little less than their level, since
hyper-parameters were learned from the rows that are scored; how much less is known.

Prices of diamonds (ggplot2's, from the cache of benchmarks/compare.py), as `itergp fit` encodes them: samples
of so many training rows, 5,000 new rows each, everything else by default.

    python benchmarks/compare.py fetch
    python benchmarks/conformal.py [--rows 400 1150 4000] [--samples 6 4 4]
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from common import print_table
from compare_packages import file
from itergp import IterGPRegressor
from itergp.tables import Layout, read_table, training

NEW, LEVELS = 5000, (0.9, 0.95)


def covered(rows):
    """The share of new rows inside intervals of each level; the last NEW rows are new."""
    with tempfile.TemporaryDirectory() as folder:
        known, new = Path(folder, "known.csv"), Path(folder, "new.csv")
        rows.iloc[:-NEW].to_csv(known, index=False)
        rows.iloc[-NEW:].to_csv(new, index=False)
        layout = Layout.of(read_table(known), "price", categorical=["cut", "color", "clarity"])
        data, test = (training(read_table(path), layout) for path in (known, new))
    model = IterGPRegressor(random_state=0).fit(data.X, data.y, table=layout)
    ends = [model.interval(test.X, level, method="conformal") for level in LEVELS]
    return [float(((low <= test.y) & (test.y <= high)).mean()) for low, high in ends]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[400, 1150, 4000])
    parser.add_argument("--samples", type=int, nargs="+", default=[6, 4, 4])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    diamonds, lines = pd.read_csv(file("diamonds"), index_col=0), []
    for n, samples in zip(options.rows, options.samples, strict=True):
        found = [covered(diamonds.sample(NEW + n, random_state=100 + seed)) for seed in range(samples)]
        line = {"rows": n, "samples": samples}
        for level, held in zip(LEVELS, 100 * np.transpose(found), strict=True):
            line[f"{100 * level:.0f} % held"] = f"{held.mean():.1f} ({held.min():.1f} to {held.max():.1f})"
        lines.append(line)
    print_table(list(lines[0]), [list(line.values()) for line in lines])


if __name__ == "__main__":
    main()
