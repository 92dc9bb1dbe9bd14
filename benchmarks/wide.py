"""Claim: tables with more features than rows can tell apart are fitted in seconds, within their budget,
and intervals hold.

Whole fit by defaults and prediction of 200 rows, beside one lengthscale for all features. Noise is 0.2
(0.1 for low rank) of targets with a standard deviation near 1: no RMSE can be below it. `processor` has
the seconds of all threads, which other jobs on the machine do not change. With --budget, fits by the
clock: seconds of `fit` alone are to be held against it.

    python benchmarks/wide.py [--cases sparse low-rank ...] [--budget 5s] [--seed 0]
"""

import argparse
import os
import time
import warnings

import numpy as np

from common import print_table
from itergp import IterGPRegressor, Matern32

NEW = 200


def sparse(rng, n, d, relevant):
    """A sine, a square and some lines, of the first features; the others are there."""
    X, slopes = rng.standard_normal((n, d)), rng.uniform(0.5, 1.5, relevant)
    f = (
        np.sin(slopes[0] * X[:, 0])
        + 0.5 * (X[:, 1] ** 2 - 1.0)
        + X[:, 2:relevant] @ slopes[2:] / np.sqrt(relevant)
    )
    return X, f / f.std() + 0.2 * rng.standard_normal(n)


def low_rank(rng, n, d):
    """Three hidden coordinates, seen in all features."""
    Z = rng.standard_normal((n, 3))
    X = Z @ rng.standard_normal((3, d)) + 0.01 * rng.standard_normal((n, d))
    return X, np.sin(Z[:, 0]) + np.cos(Z[:, 1]) + 0.5 * Z[:, 2] + 0.1 * rng.standard_normal(n)


def dense(rng, n, d):
    """Every feature matters, some more than others."""
    X, w = rng.standard_normal((n, d)), rng.uniform(0.2, 1.0, d) * rng.choice([-1.0, 1.0], d)
    w /= np.linalg.norm(w)
    return X, np.sin(X @ w) + 0.3 * (X**2 - 1.0) @ np.abs(w) / np.sqrt(2.0) + 0.2 * rng.standard_normal(n)


CASES = {
    "sparse-300x500": lambda rng: sparse(rng, 300 + NEW, 500, 5),
    "sparse-1000x500": lambda rng: sparse(rng, 1000 + NEW, 500, 5),
    "sparse-2000x2000": lambda rng: sparse(rng, 2000 + NEW, 2000, 10),
    "low-rank-100x10000": lambda rng: low_rank(rng, 100 + NEW, 10_000),
    "all-1000x200": lambda rng: dense(rng, 1000 + NEW, 200),
}


def measure(X, y, kernel, budget):
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = IterGPRegressor(kernel=kernel, budget=budget).fit(X[:-NEW], y[:-NEW])
    fitted = time.perf_counter() - wall
    mean, std = model.predict(X[-NEW:], return_std=True)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    error, apart = y[-NEW:] - mean, np.unique(model.kernel_.kernel.lengthscale).size - 1
    scores = [f"{np.sqrt((error**2).mean()):.3f}", f"{(np.abs(error) < 1.96 * std).mean():.3f}"]
    return [f"{fitted:.1f}", f"{wall:.1f}", f"{processor:.1f}", *scores, apart, model.learning_.ended.value]


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--budget", default=None)
    arguments.add_argument("--seed", type=int, default=0)
    asked, rows = arguments.parse_args(), []
    print("load of the machine:", *(f"{load:.1f}" for load in os.getloadavg()))
    for case in asked.cases:
        X, y = CASES[case](np.random.default_rng(asked.seed))
        d = X.shape[1]
        for label, kernel in {"default": "matern32", "one lengthscale": 1.0 * Matern32(d**0.5)}.items():
            rows.append([case, len(X) - NEW, d, label, *measure(X, y, kernel, asked.budget)])
            print(*rows[-1], flush=True)
    scores = ["RMSE", "95 % coverage", "features apart", "learning"]
    print_table(["case", "n", "d", "kernel", "fit", "with prediction", "processor", *scores], rows)


if __name__ == "__main__":
    main()
