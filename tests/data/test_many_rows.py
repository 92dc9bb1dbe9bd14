"""What a fit does with its rows before it learns takes memory for a feature at a time, no copies of X."""

import tracemalloc

import numpy as np
import pytest

from itergp.data import rows, spread
from itergp.data.rows import merge_rows, unmerged
from itergp.data.spread import centre_and_spread
from itergp.fitted.units import Scaling

N, D = 100_000, 20


def table(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1e-3, 1e3, d)
    X[:7, 3] = 1e9  # outliers
    X[:, 5] = 2.0
    return X, rng.standard_normal(n)


def peak_of(work):
    tracemalloc.start()
    kept = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, kept


@pytest.fixture
def many(monkeypatch):
    """Call it to have these rows count as many."""

    def begin():
        monkeypatch.setattr(spread, "AT_ONCE", 1000)
        monkeypatch.setattr(rows, "AT_ONCE", 1000)

    return begin


def test_one_feature_after_the_other_has_the_same_units(many):
    X, _ = table(5000)
    whole = centre_and_spread(X)
    many()
    for one, other in zip(centre_and_spread(X), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_the_spread_of_merged_rows_is_that_of_all_of_them(many):
    X, y = table(3000, 8)
    X = np.concatenate([X, X[:500], X[:500]])
    merged = merge_rows(X, np.concatenate([y, y[:500], -y[:500]]))
    assert merged.n == 3000
    expected = centre_and_spread(X)[1]
    np.testing.assert_allclose(merged.spread, expected, rtol=1e-12)
    many()
    np.testing.assert_allclose(merged.spread, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("step", "copies"),
    [
        ("scale", 0.5),
        ("scaled", 1.1),
        ("merge", 0.6),
        ("merge, many at one place", 0.8),
        ("spread", 0.5),
        ("spread of merged rows", 0.6),
    ],
)
def test_copies_of_all_inputs_are_few(step, copies, many):
    many()
    X, y = table()
    places = X[np.random.default_rng(1).integers(0, 50, N)]
    scaling, merged = Scaling.of(X, y), merge_rows(places, y)
    work = {
        "scale": lambda: Scaling.of(X, y),
        "scaled": lambda: scaling.inputs(X),
        "merge": lambda: merge_rows(X, y),
        "merge, many at one place": lambda: merge_rows(places, y),
        "spread": lambda: unmerged(X, y).spread,
        "spread of merged rows": lambda: merged.spread,
    }[step]
    assert merged.n == 50
    assert peak_of(work)[0] < copies * X.nbytes


def test_values_that_are_too_large_or_missing_are_still_refused():
    X, y = table(50)
    scaling = Scaling.of(X, y)
    for bad in (np.nan, 1e120, -1e120, np.inf):
        wrong = X.copy()
        wrong[7, 2] = bad
        with pytest.raises(ValueError, match="too large"):
            scaling.inputs(wrong)
