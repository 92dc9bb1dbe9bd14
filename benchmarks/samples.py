"""Claim: draws that are functions vary as much as the posterior does.

For each kernel, over dimensions 1 to 12, noises 1e-8 to 1 and several seeds, n = 1,500 rows: the variance
of the draws given their features, over the variance of the exact GP by dense NumPy; at rows of the data,
between them, beyond their edge and far away. Exact for each set of features, so there is no error of
drawing. Beside it the same number of frequencies drawn from the spectral density itself, with equal
weights. Prints a table.

    python benchmarks/samples.py [--rows 1500] [--seeds 3] [--features 4096]
"""

import argparse

import numpy as np
import scipy.linalg

from common import print_table
from itergp import (
    RBF,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    MaxActions,
    Periodic,
    Prior,
    RationalQuadratic,
    condition,
)
from itergp.prior import spectra

LENGTHSCALE = {1: 0.3, 2: 0.3, 5: 1.0, 12: 2.0}
NOISES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
KERNELS = {
    "RBF": lambda scale, d: RBF(scale),
    "Matern12": lambda scale, d: Matern12(scale),
    "Matern32": lambda scale, d: Matern32(scale),
    "Matern52": lambda scale, d: Matern52(scale),
    "RationalQuadratic, alpha 0.3": lambda scale, d: RationalQuadratic(scale, alpha=0.3),
    "RationalQuadratic, alpha 10": lambda scale, d: RationalQuadratic(scale, alpha=10.0),
    "Periodic": lambda scale, d: Periodic(1.5 * scale, period=1.3),
    "Matern32, one column relevant": lambda scale, d: Matern32(np.r_[scale, np.full(d - 1, 50.0)]),
    "RBF + Matern12": lambda scale, d: RBF(2 * scale) + 0.1 * Matern12(scale),
    "Matern32 * Matern52": lambda scale, d: Matern32(scale) * Matern52(2 * scale),
    "Matern32.on([0]) * RBF.on([d - 1])": lambda scale, d: Matern32(scale).on([0]) * RBF(scale).on([d - 1]),
    "(RBF + Constant) * (Matern32 + Linear)": lambda scale, d: (
        (RBF(scale) + Constant(0.5)) * (Matern32(scale) + Linear(2.0))
    ),
}


def plain(rng, size):
    """Tail probabilities as plain draws from the density have them."""
    return 1.0 - rng.random(size), np.full(size, 1.0 / size)


def ratios(kernel, d, rows, seeds, features):
    rng = np.random.default_rng([7, d])
    X = rng.uniform(0, 1, (rows, d))
    T = np.concatenate(
        [X[:30], rng.uniform(0.05, 0.95, (30, d)), rng.uniform(1.0, 1.4, (15, d)), rng.uniform(5, 9, (5, d))]
    )
    K, k, k0 = kernel(X, X), kernel(X, T), kernel.diagonal(T)
    weights = [scipy.linalg.solve(K + noise * np.eye(rows), k, assume_a="pos") for noise in NOISES]
    posterior, found = condition(Prior(kernel), X, np.zeros(rows), 1.0, stop=MaxActions(1)), []
    for seed in range(seeds):
        Phi = posterior.sample_function(1, seed=seed, features=features).features
        at, data = Phi(T), Phi(X)
        for noise, a in zip(NOISES, weights, strict=True):
            left = (np.abs(at - a.T @ data) ** 2).sum(axis=1) + noise * (a**2).sum(axis=0)
            found.append(left / (k0 - (k * a).sum(axis=0)))
    return np.concatenate(found)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=1500)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--features", type=int, default=4096)
    options = arguments.parse_args()
    table, weighted = [], spectra.tail_probabilities
    for name, make in KERNELS.items():
        row = [name]
        for probabilities in (weighted, plain):
            spectra.tail_probabilities = probabilities
            found = [
                ratios(make(scale, d), d, options.rows, options.seeds, options.features)
                for d, scale in LENGTHSCALE.items()
                if d > 1 or "column" not in name
            ]
            low, fifth, last, high = np.quantile(np.concatenate(found), [0.0, 0.05, 0.95, 1.0])
            row += [f"{fifth:.2f} to {last:.2f}", f"{low:.2f} to {high:.2f}"]
        table.append(row)
    print_table(["kernel", "90 % of all points", "all points", "without weights: 90 %", "all"], table)


if __name__ == "__main__":
    main()
