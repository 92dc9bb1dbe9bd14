"""Hourly values with a daily cycle, of which 70 % are known: the error of the others, by the number of days.

    python benchmarks/cycles.py [--days 30 45 60 180] [--samples 3] [--kernel auto]

The cycle has a standard deviation of 0.71, the noise 0.1. A fit that takes the cycle for noise has an error
of 0.7. With `--more`, the table has two more features that say nothing.
"""

import argparse
import time

import numpy as np

from common import print_table
from itergp import IterGPRegressor

HEADER = ("days", "rows", "errors of the function", "95 % held", "seconds")


def hours(days, seed, more):
    rng = np.random.default_rng(seed)
    t = np.arange(24.0 * days)
    f = np.sin(2 * np.pi * t / 24)
    y, known = f + 0.1 * rng.standard_normal(t.size), rng.random(t.size) < 0.7
    X = np.column_stack([t, *rng.standard_normal((2 * more, t.size))])
    return X, f, y, known


def row(days, samples, kernel, more):
    errors, inside, seconds = [], [], []
    for seed in range(samples):
        X, f, y, known = hours(days, seed, more)
        began = time.perf_counter()
        model = IterGPRegressor(kernel).fit(X[known], y[known])
        seconds.append(time.perf_counter() - began)
        mean, std = model.predict(X[~known], return_std=True)
        errors.append(np.sqrt(np.mean((mean - f[~known]) ** 2)))
        inside.append((np.abs(mean - y[~known]) < 1.96 * std).mean())
    shown = ", ".join(f"{error:.3f}" for error in errors)
    return days, int(known.sum()), shown, f"{np.mean(inside):.3f}", f"{np.mean(seconds):.1f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, nargs="+", default=[30, 45, 60, 180])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--more", action="store_true")
    options = parser.parse_args()
    rows = [row(days, options.samples, options.kernel, options.more) for days in options.days]
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
