"""Claim: with local actions, joint predictions are as good as point by point, and far better than those of
the global actions alone.

    python benchmarks/joint.py [--n 20000] [--rows 100 500] [--actions 0 512]

The negative log-likelihood of the held-out rows of a batch together, per row, by the covariance of each way;
their mean latent variance; and processor seconds of the covariance, which other work on the machine disturbs
less than the clock. Data, kernel and noise are those of `serving.py`.
"""

import argparse
import time

import numpy as np
import scipy.linalg

from common import print_table
from itergp import Matern32, MaxActions, Prior, UnitVector, condition
from serving import LENGTHSCALE, NOISE, D, data

WAYS = {
    "global actions alone": lambda posterior, X: posterior,
    "shared, at most 2,000 rows": lambda posterior, X: posterior.around(X),
    "shared, at most 6,000 rows": lambda posterior, X: posterior.around(X, limit=6000),
    "local": lambda posterior, X: posterior.local(60),
    "local, as if independent": lambda posterior, X: posterior.local(60),
}


def likelihood(y, mean, covariance):
    """-log N(y; mean, covariance + noise) per row."""
    L = scipy.linalg.cholesky(covariance + NOISE * np.eye(len(y)), lower=True)
    z = scipy.linalg.solve_triangular(L, y - mean, lower=True)
    return 0.5 * (z @ z + len(y) * np.log(2 * np.pi)) / len(y) + np.log(np.diag(L)).sum() / len(y)


def main(asked):
    X, y, _ = data(asked.n + max(asked.rows))
    X, y, X_new, y_new = X[: asked.n], y[: asked.n], X[asked.n :], y[asked.n :]
    found = []
    for actions in asked.actions:
        prior, policy = Prior(1.0 * Matern32(np.full(D, LENGTHSCALE))), UnitVector("random", block_size=256)
        posterior = condition(prior, X, y, NOISE, policy, MaxActions(actions))
        for rows in asked.rows:
            at, y_at = X_new[:rows], y_new[:rows]
            for name, way in WAYS.items():
                used = time.process_time()
                process = way(posterior, at)
                covariance = process.cov(at)
                used = time.process_time() - used
                if "independent" in name:
                    covariance = np.diag(np.diag(covariance))
                nll, variance = likelihood(y_at, process.mean(at), covariance), np.diag(covariance).mean()
                left = getattr(process, "left_out", 0)
                found.append([actions, rows, name, left, f"{nll:.3f}", f"{variance:.4f}", f"{used:.2f}"])
    print_table(("actions", "rows", "covariance", "left out", "NLL", "variance", "CPU s"), found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--actions", type=int, nargs="+", default=[0, 512])
    main(parser.parse_args())
