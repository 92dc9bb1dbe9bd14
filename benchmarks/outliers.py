"""Claim: a few gross outliers set the noise of all rows; with `noise="robust"` they do not.

A smooth function of three features with normal noise, 1,000 rows, of which a share is off by twenty standard
deviations of the noise (either way). "clean" is a fit to the other rows alone: the best that can be reached.
Coverage of 95 % intervals is at 4,000 new rows without outliers, and for conformal ones with as many.

    python benchmarks/outliers.py [--rows 1000] [--seeds 2] [--shares 0 0.01 0.02 0.05]
"""

import argparse

import numpy as np

from common import print_table
from itergp import IterGPRegressor
from itergp.fitted import predictions
from itergp.metrics import rmse

SIZE, NOISE, NEW = 20.0, 0.3, 4000


def function(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2]


def observed(X, share, rng):
    off = rng.random(len(X)) < share
    e = rng.standard_normal(len(X)) + SIZE * off * rng.choice([-1.0, 1.0], len(X))
    return function(X) + NOISE * e, off


def measured(model, share, rng):
    X = rng.uniform(-1, 1, (NEW, 3))
    (y, _), (clean, _) = observed(X, share, rng), observed(X, 0.0, rng)
    mean, std = predictions.mean_and_std(model.fit_, X)
    ends = model.interval(X, 0.95, method="conformal")
    noise = float(np.sqrt(model.noise_) * model.scaling_.y_scale)
    gaussian = np.mean(np.abs(clean - mean) <= 1.96 * std)
    conformal = np.mean((ends[0] <= y) & (y <= ends[1]))
    return noise / NOISE, rmse(function(X), mean), gaussian, conformal, float((ends[1] - ends[0]).mean())


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, default=1000)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.01, 0.02, 0.05])
    options = arguments.parse_args()
    rows = []
    for share in options.shares:
        found = {"default": [], "robust": [], "clean": []}
        for seed in range(options.seeds):
            rng = np.random.default_rng([seed, 17])
            X = rng.uniform(-1, 1, (options.rows, 3))
            y, off = observed(X, share, rng)
            models = {
                "default": IterGPRegressor().fit(X, y),
                "robust": IterGPRegressor(noise="robust").fit(X, y),
                "clean": IterGPRegressor().fit(X[~off], y[~off]),
            }
            for name, model in models.items():
                found[name].append(measured(model, share, np.random.default_rng([seed, 18])))
        for name, values in found.items():
            if values:
                rows.append([f"{share:.0%}", name, *(f"{v:.3g}" for v in np.mean(values, axis=0))])
    head = [
        "noise, learned / true",
        "RMSE of f",
        "Gaussian 95 %, clean rows",
        "conformal 95 %, all",
        "its width",
    ]
    print_table(["outliers", "fit", *head], rows)


if __name__ == "__main__":
    main()
