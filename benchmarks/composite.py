"""Composite kernels on few rows: the log likelihood that learning reaches, beside scikit-learn's.

    python benchmarks/composite.py [--cases co2 co2-200 ...] [--restarts 0 5]

Both start from the same kernel on the same rows, y centred. The monthly means of carbon dioxide on Mauna Loa
are those of scikit-learn's example "Forecasting of CO2 level on Mona Loa dataset"; they come with statsmodels
(`pip install statsmodels`). The other series are drawn here.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel as Constant,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel as White,
)

from itergp import IterGPRegressor


def co2(n=None):
    from statsmodels.datasets.co2 import load

    monthly = load().data.resample("MS").mean().dropna()[:n]
    x = (monthly.index.year + monthly.index.month / 12.0).to_numpy(dtype=float)
    return x[:, None], monthly["co2"].to_numpy() - float(monthly["co2"].mean())


def seasonal(seed, n=200):
    """A season of two harmonics with a random period from 0.7 to 3, a parabola and a slow wave, at random
    points."""
    rng = np.random.default_rng(seed)
    x, period = np.sort(rng.uniform(0.0, 20.0, n)), rng.uniform(0.7, 3.0)
    season = np.sin(2.0 * np.pi * x / period) + 0.4 * np.cos(4.0 * np.pi * x / period)
    y = (
        season
        + 0.05 * (x - 10.0) ** 2
        + 0.5 * np.sin(x * rng.uniform(0.3, 1.0))
        + 0.2 * rng.standard_normal(n)
    )
    return x[:, None], y - y.mean()


def example(**periodicity):
    return (
        50.0**2 * RBF(50.0)
        + 2.0**2 * RBF(100.0) * ExpSineSquared(1.0, 1.0, **periodicity)
        + 0.5**2 * RationalQuadratic(1.0, 1.0)
        + 0.1**2 * RBF(0.1)
        + White(0.1**2)
    )


def all_ones():
    return (
        Constant() * RBF()
        + Constant() * RBF() * ExpSineSquared()
        + Constant() * RationalQuadratic()
        + Constant() * RBF()
        + White()
    )


CASES = {
    "co2": (co2, example(periodicity_bounds="fixed")),
    "co2, period learned": (co2, example()),
    "co2-200": (lambda: co2(200), example()),
    "co2-300, from ones": (lambda: co2(300), all_ones()),
    "co2-300, trend + season": (
        lambda: co2(300),
        100.0 * RBF(10.0) + 4.0 * ExpSineSquared(1.0, 1.0) + White(0.1),
    ),
    "co2-300, Matern products": (
        lambda: co2(300),
        10.0 * Matern(10.0, nu=1.5) + 4.0 * Matern(10.0, nu=2.5) * ExpSineSquared(1.0, 1.0) + White(0.1),
    ),
} | {
    f"unknown period {seed}": (
        lambda seed=seed: seasonal(seed),
        Constant() * RBF() + Constant() * ExpSineSquared() + White(),
    )
    for seed in range(4)
}


def log_likelihood(X, y, kernel, noise):
    L = np.linalg.cholesky(kernel(X, X) + noise * np.eye(len(X)))
    z = np.linalg.solve(L, y)
    return -0.5 * z @ z - np.log(np.diag(L)).sum() - 0.5 * len(y) * np.log(2.0 * np.pi)


def fitted(model, X, y):
    """The fitted model, and the seconds that it took."""
    wall, processor = time.perf_counter(), time.process_time()
    return model.fit(X, y), f"{time.perf_counter() - wall:.1f} | {time.process_time() - processor:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--restarts", nargs="*", type=int, default=[0, 5])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, about its bounds
    print(
        "| case | rows | method | log likelihood | seconds | processor seconds |\n|---|---|---|---|---|---|"
    )
    for name in asked.cases:
        (X, y), kernel = CASES[name][0](), CASES[name][1]
        model, taken = fitted(IterGPRegressor(kernel, normalize=False), X, y)
        found = log_likelihood(X, y, model.kernel_, model.noise_)
        print(f"| {name} | {len(y)} | itergp | {found:.2f} | {taken} |", flush=True)
        for restarts in asked.restarts:
            peer = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=restarts, random_state=0)
            peer, taken = fitted(peer, X, y)
            found = peer.log_marginal_likelihood_value_
            print(f"| | | scikit-learn, {restarts} restarts | {found:.2f} | {taken} |", flush=True)


if __name__ == "__main__":
    main()
