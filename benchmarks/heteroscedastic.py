"""Noise that varies with the inputs: `noise="heteroscedastic"` beside constant noise and the true noise.

    python benchmarks/heteroscedastic.py                 # all sets, three seeds each
    python benchmarks/heteroscedastic.py --kernel matern52 --sets ramp --n 500

The standard deviation of the noise grows by a factor of 10 along the last feature: evenly ("ramp"), or as a
wave ("wave"); inputs are uniform, or in clusters ("clusters"). In "constant" it does not vary. "truth" is the
same library with the true noise of each row as sample_weight, and at new points: as good as it can be.
Coverage of 95 % intervals is in each tenth of the new points by their true noise: the least of them, and the
largest, over all seeds together.
"""

import argparse
import itertools
import time
import warnings

import numpy as np

from common import print_table
from itergp import IterGPRegressor

LEAST, FACTOR, NEW = 0.05, 10.0, 4000
HEADER = ("data", "n", "d", "noise", "NLL", "RMSE of the mean", "least coverage", "largest", "s")
SETS = {"ramp": (1, 5), "wave": (2,), "clusters": (5,), "constant": (1, 5)}


def data(kind, n, d, seed):
    """X, y, and the standard deviations of the noise, of n rows and of new ones; and the function there."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-2, 2, (n + NEW, d))
    if kind == "clusters":
        centres = rng.normal(0, 1.2, (8, d))
        X = centres[rng.integers(0, 8, n + NEW)] + 0.35 * rng.standard_normal((n + NEW, d))
    f = np.sin(2 * X[:, 0]) + (
        0.5 * np.cos(1.5 * X[:, 1:]).sum(axis=1) / max(1, d - 1) ** 0.5 if d > 1 else 0.0
    )
    along = np.clip((X[:, -1] + 2) / 4, 0, 1)
    grown = {"wave": 0.5 + 0.5 * np.sin(2 * X[:, -1]), "constant": np.full(n + NEW, 0.6)}.get(kind, along)
    noise = LEAST * FACTOR**grown
    return X, f + noise * rng.standard_normal(n + NEW), noise, f


def predicted(kind, X, y, noise, n, kernel):
    """Mean and standard deviation at the new rows, and the seconds of the fit."""
    began, weights = time.perf_counter(), None
    if kind == "truth":
        weights = 1 / noise[:n] ** 2
    model = IterGPRegressor(kernel, noise="heteroscedastic" if kind == "heteroscedastic" else "learn")
    model.fit(X[:n], y[:n], sample_weight=weights)
    seconds = time.perf_counter() - began
    mean, std = model.predict(X[n:], return_std=True, include_noise=kind != "truth")
    return mean, np.sqrt(std**2 + noise[n:] ** 2) if kind == "truth" else std, seconds


def row(kind, n, d, noise_kind, seeds, kernel):
    nll, rmse, seconds, inside = [], [], [], []
    for seed in range(seeds):
        X, y, noise, f = data(kind, n, d, seed)
        mean, std, took = predicted(noise_kind, X, y, noise, n, kernel)
        error = y[n:] - mean
        nll.append(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2))
        rmse.append(np.sqrt(np.mean((f[n:] - mean) ** 2)))
        seconds.append(took)
        order = np.argsort(noise[n:], kind="stable")
        inside.append([part.mean() for part in np.array_split((np.abs(error) < 1.959964 * std)[order], 10)])
    tenths = np.mean(inside, axis=0)
    numbers = (np.mean(nll), np.mean(rmse), tenths.min(), tenths.max())
    return (kind, n, d, noise_kind, *(f"{v:.3f}" for v in numbers), f"{np.mean(seconds):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--n", nargs="+", type=int, default=[500, 2000, 5000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernel", default="auto")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for kind in asked.sets:
        for n, d in itertools.product(asked.n, SETS[kind]):
            for noise in ("constant", "heteroscedastic", "truth"):
                rows.append(row(kind, n, d, noise, asked.seeds, asked.kernel))
                print(*rows[-1], flush=True)
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
