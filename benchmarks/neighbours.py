"""Rows near a point: the nearest ones, or of more candidates those that say most.

    python benchmarks/neighbours.py                          # draws from known GPs, against the exact GP
    python benchmarks/neighbours.py modis:matern12 bike:matern32

Draws: random rows, 25 clusters, or 25 lines in d = 1, 2 and 5; half of the test points anywhere, half like
the rows. The divergence is from the exact GP's predictive distributions, in nats per point. Real data:
learned for 45 seconds, up to 5,000 random test rows of split 0, 256 random unit vectors as global actions;
errors are those of the standardised target.
"""

import argparse
import itertools
import time

import numpy as np
from scipy.linalg import solve_triangular

import itergp.posterior.local as local
from common import load_split
from itergp import Compute, Matern12, Matern32, MaxActions, Prior, UnitVector, condition
from itergp.data.rows import merge_rows
from itergp.learning import learn

KERNELS = {"matern12": Matern12, "matern32": Matern32}
NEIGHBOURS = 60


def design(kind, n, d, rng, places=25):
    if kind == "random" or (kind == "lines" and d == 1):
        return rng.uniform(size=(n, d))
    centres, which = np.random.default_rng(d).uniform(size=(places, d)), rng.integers(places, size=n)
    if kind == "clusters":
        return centres[which] + 0.02 * rng.standard_normal((n, d))
    return np.column_stack([rng.uniform(size=n), centres[which, 1:]])


def marginals(posterior, X, candidates):
    """Mean, variance, and milliseconds of processor time for each point."""
    local.CANDIDATES = candidates
    began = time.process_time()
    mean, variance = posterior.local(NEIGHBOURS).marginals(X)
    return np.ravel(mean), variance, 1e3 * (time.process_time() - began) / len(X)


def draws(candidates, n=4000, actions=64):
    print("| kernel | d | rows | noise |", *(f"{c}: divergence, ms |" for c in candidates))
    cases = itertools.product(KERNELS, (1, 2, 5), ("random", "clusters", "lines"), (1e-4, 0.1))
    for name, d, kind, noise in cases:
        rng = np.random.default_rng(0)
        X, X_new = design(kind, n, d, rng), np.vstack([rng.uniform(size=(300, d)), design(kind, 300, d, rng)])
        kernel, both = KERNELS[name](0.3 * d**0.5), np.vstack([X, X_new])
        K = kernel(both, both) + 1e-9 * np.eye(n + 600)
        y = np.linalg.cholesky(K) @ rng.standard_normal(n + 600) + noise**0.5 * rng.standard_normal(n + 600)
        L = np.linalg.cholesky(K[:n, :n] + noise * np.eye(n))
        W, z = (solve_triangular(L, b, lower=True) for b in (K[:n, n:], y[:n]))
        exact_mean, exact = W.T @ z, 1.0 - (W**2).sum(axis=0) + noise
        posterior = condition(
            Prior(kernel),
            X,
            y[:n],
            noise,
            UnitVector(order=rng.permutation(n)),
            MaxActions(actions),
            Compute(threads=1),
        )
        row = [f"| {name} | {d} | {kind} | {noise:g} |"]
        for c in candidates:
            mean, variance, ms = marginals(posterior, X_new, c)
            variance = variance + noise
            apart = np.log(variance / exact) + (exact + (mean - exact_mean) ** 2) / variance - 1.0
            row.append(f"{0.5 * apart.mean():.4f}, {ms:.2f} |")
        print(*row, flush=True)


def real(name, kernel, candidates):
    X, y, X_new, y_new = load_split(name)
    rng, rows = np.random.default_rng(0), merge_rows(X, y)
    some = rng.permutation(len(X_new))[:5000]
    found = learn(
        rows.X,
        rows.y,
        1.0 * KERNELS[kernel](np.ones(X.shape[1])),
        0.1,
        counts=rows.counts,
        scatter=rows.scatter,
        seconds=45,
    )
    posterior = condition(
        Prior(found.kernel),
        rows.X,
        rows.y,
        found.noise / rows.counts,
        UnitVector(order=rng.permutation(rows.n)),
        MaxActions(256),
    )
    for c in candidates:
        mean, variance, ms = marginals(posterior, X_new[some], c)
        error, variance = y_new[some] - mean, variance + found.noise
        nll = 0.5 * np.mean(error**2 / variance + np.log(2 * np.pi * variance))
        covered = np.mean(np.abs(error) < 1.96 * np.sqrt(variance))
        print(
            f"| {name}, {kernel} | {NEIGHBOURS} of {c} | {np.sqrt(np.mean(error**2)):.4f} | "
            f"{np.abs(error).mean():.4f} | {nll:.4f} | {covered:.3f} | {ms:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="*", help="NAME:KERNEL; none: draws from known GPs")
    parser.add_argument("--candidates", type=int, nargs="+", default=[60, 120, 240, 480])
    asked = parser.parse_args()
    for one in asked.sets:
        real(*one.split(":"), asked.candidates)
    if not asked.sets:
        draws(asked.candidates)
