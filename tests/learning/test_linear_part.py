"""A kernel with a linear part contains the kernel without it, and learning finds at least its likelihood."""

import numpy as np
import pytest

from itergp import Compute, Linear, Matern32
from itergp.data.rows import Rows
from itergp.learning.exact import exact
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.training import learn

SHAPES = [(trend, d) for trend in (0.0, 0.3, 3.0) for d in (2, 10)]
WORSE = 1e-3  # nats per row


def data(trend, d, n, seed):
    rng = np.random.default_rng([seed, d, n])
    X = rng.standard_normal((n, d))
    plane = X @ rng.standard_normal(d) / np.sqrt(d)
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + trend * plane + 0.2 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def gain(X, y, method, likelihood):
    """Nats per row of the likelihood that the linear part brings."""
    d, one = X.shape[1], Compute(threads=1)
    alone = 1.0 * Matern32(np.full(d, d**0.5))
    found = [
        learn(X, y, kernel, 0.1, method=method, compute=one)
        for kernel in (alone, alone + 0.1 * Linear(np.full(d, d**0.5)))
    ]
    without, with_linear = (likelihood(end.kernel)(end.kernel, end.noise).value for end in found)
    return without - with_linear


@pytest.mark.parametrize(("trend", "d"), SHAPES)
def test_by_the_exact_likelihood(trend, d):
    X, y = data(trend, d, 200, 0)
    objective = exact(Rows.of(X, y))
    found = gain(X, y, "exact", lambda kernel: objective)
    assert found > -WORSE
    if trend == 3.0:
        assert found > 10 * WORSE


@pytest.mark.parametrize(("trend", "d"), SHAPES)
def test_by_the_likelihood_of_neighbours(trend, d):
    X, y = data(trend, d, 1500, 1)
    rows = Rows.of(X, y)
    assert gain(X, y, "neighbours", lambda kernel: NeighbourLikelihood.at(kernel, rows, 30)) > -WORSE
