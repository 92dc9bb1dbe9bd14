"""Claim: where rows are few for what is learned from them, conformal intervals hold a little less than their
level, since hyper-parameters were learned from the rows that are scored; how much less is known.

Prices of diamonds (ggplot2's, from the cache of benchmarks/compare.py), as `itergp fit` encodes them: many
inputs; and two inputs with noise of standard deviation 0.3 exp(1.5 x) that is learned as such
(noise="heteroscedastic") or not. Samples of so many training rows, 5,000 new rows each, everything else by
default.

    python benchmarks/compare.py fetch
    python benchmarks/conformal.py diamonds [--rows 400 1150 4000] [--samples 6 4 4]
    python benchmarks/conformal.py varying [--rows 50 100 400] [--samples 80 80 80]
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


def diamonds(n, seed):
    """The share of new rows inside intervals of each level."""
    rows = pd.read_csv(file("diamonds"), index_col=0).sample(NEW + n, random_state=100 + seed)
    with tempfile.TemporaryDirectory() as folder:
        known, new = Path(folder, "known.csv"), Path(folder, "new.csv")
        rows.iloc[:-NEW].to_csv(known, index=False)
        rows.iloc[-NEW:].to_csv(new, index=False)
        layout = Layout.of(read_table(known), "price", categorical=["cut", "color", "clarity"])
        data, test = (training(read_table(path), layout) for path in (known, new))
    model = IterGPRegressor(random_state=0).fit(data.X, data.y, table=layout)
    return {"": covered(model, test.X, test.y)}


def varying(n, seed):
    """The same for both kinds of noise."""
    rng = np.random.default_rng([11, n, seed])
    X = rng.uniform(-1, 1, (n + NEW, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * np.exp(1.5 * X[:, 1]) * rng.standard_normal(n + NEW)
    found = {}
    for noise in ("heteroscedastic", "learn"):
        model = IterGPRegressor(noise=noise, random_state=0).fit(X[:n], y[:n])
        found[noise] = covered(model, X[n:], y[n:])
    return found


def covered(model, X, y):
    ends = [model.interval(X, level, method="conformal") for level in LEVELS]
    return [float(((low <= y) & (y <= high)).mean()) for low, high in ends]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for function, rows, samples in (
        (diamonds, [400, 1150, 4000], [6, 4, 4]),
        (varying, [50, 100, 400], [80] * 3),
    ):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("--rows", type=int, nargs="+", default=rows)
        command.add_argument("--samples", type=int, nargs="+", default=samples)
    options, lines = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for n, samples in zip(options.rows, options.samples, strict=True):
        found = [options.function(n, seed) for seed in range(samples)]
        for noise in found[0]:
            line = {"rows": n, "samples": samples, "noise": noise}
            for level, held in zip(LEVELS, 100 * np.transpose([one[noise] for one in found]), strict=True):
                text = f"{held.mean():.1f} ± {held.std() / np.sqrt(samples):.1f}"
                line[f"{100 * level:.0f} % held"] = f"{text} ({held.min():.1f} to {held.max():.1f})"
            lines.append(line)
    print_table(list(lines[0]), [list(line.values()) for line in lines])


if __name__ == "__main__":
    main()
