"""Intervals of fits of few rows, everything by default: what 95 % hold of new rows.

    python benchmarks/few_rows.py [--samples 16] [--rows 6 10 20 40 100]

Three functions: a plane with noise, pure noise, and a wave with little noise; 1,500 new rows each.
"""

import argparse
import warnings

import numpy as np

from common import print_table
from itergp import IterGPRegressor

NEW = 1500
HEADER = ("data", "rows", "95 % held", "standard error", "samples below 85 %", "NLL")


def plane(rng, n):
    X = rng.uniform(-1, 1, (n, 3))
    return X, X[:, 0] + 2 * X[:, 1] - X[:, 2] + 0.5 * rng.standard_normal(n)


def noise(rng, n):
    return rng.uniform(-1, 1, (n, 2)), rng.standard_normal(n)


def wave(rng, n):
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def row(data, n, samples):
    inside, nll = [], []
    for seed in range(samples):
        X, y = data(np.random.default_rng([seed, n]), n + NEW)
        mean, std = IterGPRegressor().fit(X[:n], y[:n]).predict(X[n:], return_std=True)
        z = (y[n:] - mean) / std
        inside.append((np.abs(z) < 1.959964).mean())
        nll.append(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)))
    inside = np.array(inside)
    error = inside.std() / samples**0.5
    return (
        data.__name__,
        n,
        f"{inside.mean():.3f}",
        f"{error:.3f}",
        f"{(inside < 0.85).mean():.0%}",
        f"{np.mean(nll):.3f}",
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--rows", type=int, nargs="+", default=[6, 10, 20, 40, 100])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print_table(
        HEADER, [row(data, n, options.samples) for data in (plane, noise, wave) for n in options.rows]
    )


if __name__ == "__main__":
    main()
