"""What the objectives are compared with: dense densities of the data before merging, and central
differences."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal

from helpers import make_data
from itergp.data.rows import Rows
from itergp.prior.parameters import parameters, with_parameters


@dataclass(frozen=True)
class Repeated:
    """Data with repeated inputs, as they came and merged into one row per input."""

    X_all: np.ndarray
    y_all: np.ndarray
    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    scatter: float

    @property
    def merged(self):
        return {"counts": self.counts, "scatter": self.scatter}

    @property
    def rows(self):
        return Rows(self.X, self.y, self.counts, self.scatter)


def repeated(n=24, targets=2, seed=0, most=3):
    """n distinct inputs, each observed one to `most` times."""
    rng = np.random.default_rng([seed, n, 7])
    data = make_data(n, seed=seed, targets=targets)
    counts = rng.integers(1, most + 1, n)
    groups = [f + 0.2 * rng.standard_normal((c, targets)) for f, c in zip(data.y, counts, strict=True)]
    y = np.array([group.mean(axis=0) for group in groups])
    scatter = sum(float(((group - group.mean(axis=0)) ** 2).sum()) for group in groups)
    return Repeated(
        np.repeat(data.X, counts, axis=0), np.concatenate(groups), data.X, y, counts.astype(float), scatter
    )


def negative_log_density(covariance, y):
    """- sum over targets of log N(y; 0, covariance), by SciPy."""
    return -float(
        sum(
            multivariate_normal(np.zeros(len(y)), covariance, allow_singular=False).logpdf(column)
            for column in y.T
        )
    )


def assert_slopes(objective, kernel, noise=0.05, rtol=1e-6, step=1e-5, seed=0):
    """The gradient, along a random direction of all log parameters and the noise, is the central
    difference of the value.

    The direction has components of all sizes between 1/2 and 1: a wrong component shows.
    """
    rng = np.random.default_rng(seed)
    values = parameters(kernel)
    directions = {
        path: rng.uniform(0.5, 1.0, np.shape(v)) * rng.choice([-1.0, 1.0], np.shape(v))
        for path, v in values.items()
    }
    found = objective(kernel, noise)
    assert found.kernel.keys() == values.keys()
    assert all(np.shape(found.kernel[path]) == np.shape(v) for path, v in values.items())
    terms = [float(np.sum(found.kernel[path] * directions[path] * v)) for path, v in values.items()] + [
        found.noise * noise
    ]
    ends = []
    for h in (step, -step):
        moved = {path: v * np.exp(h * directions[path]) for path, v in values.items()}
        moved = {path: v if np.ndim(v) else float(v) for path, v in moved.items()}
        ends.append(objective(with_parameters(kernel, moved), noise * np.exp(h)).value)
    difference = (ends[0] - ends[1]) / (2.0 * step)
    size = sum(abs(term) for term in terms)
    assert abs(sum(terms) - difference) <= rtol * size + 1e-9, (terms, difference)
