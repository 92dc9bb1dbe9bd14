"""The nearest earlier rows of many rows, found by trees."""

import numpy as np
import pytest

from itergp import Matern32
from itergp.linalg import gram, neighbours
from itergp.linalg.gram import Gram


@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_trees_find_the_nearest_earlier_rows(d, clustered, few, monkeypatch):
    """Against all distances, by NumPy; clusters come one after the other, so most near rows are later."""
    monkeypatch.setattr(gram, "TREES", (0, 0))
    monkeypatch.setattr(neighbours, "FIRST_ROWS", 60)
    rng = np.random.default_rng([d, clustered])
    n, count = 1500, 12
    X = rng.standard_normal((n, d))
    if clustered:
        X = 0.01 * X + np.sort(rng.integers(20, size=n))[:, None]
    chosen = np.sort(rng.choice(n, 200, replace=False)) if few else np.arange(n)
    found = Gram(1.0 * Matern32(np.linspace(1.0, 2.0, d)), X).earlier(np.arange(n), count, chosen)
    F = X / np.linspace(1.0, 2.0, d)
    for i, J in zip(chosen, found.J, strict=True):
        distances = np.sqrt(((F[:i] - F[i]) ** 2).sum(axis=1))
        J = J[J >= 0]
        assert J.size == min(i, count) == np.unique(J).size
        assert J.max(initial=-1) < i
        np.testing.assert_allclose(np.sort(distances[J]), np.sort(distances)[: J.size], rtol=1e-5, atol=1e-6)


def test_a_tick_stops_the_search(monkeypatch):
    monkeypatch.setattr(gram, "TREES", (0, 0))

    def stop():
        raise TimeoutError

    X = np.random.default_rng(0).standard_normal((3000, 2))
    with pytest.raises(TimeoutError):
        Gram(1.0 * Matern32(1.0), X).earlier(np.arange(3000), 5, np.arange(3000), stop)
