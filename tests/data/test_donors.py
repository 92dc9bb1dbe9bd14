"""What stands for missing values: values of similar rows, whose spread is how uncertain the value is."""

import numpy as np
import pytest

from itergp.data import donors as module
from itergp.data.donors import DONORS, MOST, Donors, filled, filled_alike, looked_at
from itergp.data.holes import Hole, Holes
from itergp.data.matching import FOLDS, Regression

TWO = Holes((Hole((0,), 2), Hole((1,))))  # inputs a, b, "a is missing", c, d, ...


def rows(n, d, seed):
    """a, b = a and a little more, a flag, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1], X[:, 2] = X[:, 0] + 0.1 * X[:, 1], 0.0
    return X


def certain(X):
    return np.zeros(len(X))


def lacking(X, *inputs):
    X = X.copy()
    X[:, list(inputs)] = np.nan
    X[:, 2] = 0 in inputs
    return X


def test_the_extra_variance_is_that_of_the_function_over_the_donors():
    """By its definition, row by row."""
    X = rows(200, 5, seed=1)
    donors, new = Donors.among(TWO, X), lacking(rows(7, 5, seed=2), 0)
    out, extra = filled(new, donors, (lambda X: X[:, 0] ** 2 + X[:, 3], lambda X: np.abs(X[:, 0])))
    for x, filled_in, found in zip(new, out, extra, strict=True):
        a = donors.values(np.array([True, False]), x[None])[0, :, 0]
        assert set(a) <= set(X[:, 0])
        values = a**2 + x[3]
        off = values.mean() - (a.mean() ** 2 + x[3])
        variance = np.var(values, ddof=1) * (1 + 1 / a.size) * (a.size - 1) / (a.size - 3)
        unknown = max(np.abs(a[::6]).mean() - abs(a.mean()), 0.0)
        np.testing.assert_allclose(found, variance + off**2 + unknown, rtol=1e-10)
        np.testing.assert_allclose(filled_in, [a.mean(), x[1], 1.0, *x[3:]], rtol=1e-12)


def test_a_value_that_others_tell_is_known_and_one_that_they_do_not_is_not():
    X, new = rows(1000, 5, seed=3), rows(100, 5, seed=4)
    donors, f = Donors.among(TWO, X), (lambda X: X[:, 0], certain)
    out, extra = filled(lacking(new, 0), donors, f)
    assert np.sqrt(np.mean((out[:, 0] - new[:, 0]) ** 2)) < 0.15
    assert extra.mean() < 0.1
    # b tells a, but is missing too
    assert filled(lacking(new, 0, 1), donors, f)[1].mean() == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("size", [30.0, 1e5])
@pytest.mark.parametrize("column", [0, 1, 4], ids=["what is missing", "what tells it", "what says nothing"])
def test_one_gross_outlier_changes_nothing_of_what_stands_for_values(size, column):
    """Not who is alike, nor what they have: as where this row is not there."""
    X, new, f = rows(800, 5, seed=18), rows(300, 5, seed=19), (lambda X: X[:, 0], certain)
    without, far = filled(lacking(new, 0), Donors.among(TWO, X), f), X.copy()
    far[5, column] = size
    out, extra = filled(lacking(new, 0), Donors.among(TWO, far), f)
    assert np.sqrt(np.mean((out[:, 0] - new[:, 0]) ** 2)) < 0.15
    np.testing.assert_allclose(out[:, 0], without[0][:, 0], atol=0.2)
    assert extra.mean() == pytest.approx(without[1].mean(), rel=0.1)


def test_a_gross_outlier_does_not_stand_for_values_that_nothing_else_tells():
    """Where all other inputs are missing too, or say nothing: any row may be a donor."""
    rng = np.random.default_rng(20)
    X, new = rng.standard_normal((400, 4)), np.full((1, 4), np.nan)
    X[5] = 1e6
    donors = Donors.among(Holes(tuple(Hole((j,)) for j in range(4))), X)
    out, extra = filled(new, donors, (lambda X: X.sum(axis=1), certain))
    assert np.abs(out).max() < 1.0
    assert extra[0] == pytest.approx(4.0, rel=0.6)  # of four standard normal values
    assert np.abs(donors.centre).max() < 0.3


def test_inputs_that_say_nothing_do_not_make_donors_agree():
    """As many inputs as rows, all noise: a regression reproduces every value, and knows none."""
    rng = np.random.default_rng(5)
    X, new = rng.standard_normal((80, 70)), rng.standard_normal((200, 70))
    holes = Holes((Hole((0,)),))
    new[:, 0] = np.nan
    _, extra = filled(new, Donors.among(holes, X), (lambda X: X[:, 0], certain))
    assert extra.mean() > 0.8 * X[:, 0].var()


def test_without_rows_that_have_both_each_value_comes_from_rows_of_its_own():
    X = rows(100, 4, seed=6)
    X[:50, 0], X[:50, 2], X[50:, 1] = np.nan, 1.0, np.nan
    values = Donors.among(TWO, X).values(np.array([True, True]), lacking(rows(3, 4, seed=7), 0, 1))
    assert values.shape == (3, DONORS, 2)
    assert np.isin(values[..., 0], X[50:, 0]).all()
    assert np.isin(values[..., 1], X[:50, 1]).all()


def test_a_category_is_one_of_those_that_donors_have_or_one_of_its_own():
    rng = np.random.default_rng(8)
    kind = rng.integers(0, 3, 300)
    X = np.column_stack([np.eye(3)[kind], np.zeros(300), kind + 0.01 * rng.standard_normal(300)])
    new = np.array([[np.nan, np.nan, np.nan, 1.0, 2.0]])
    own, extra = filled(
        new, Donors.among(Holes((Hole((0, 1, 2), 3, category=True),)), X), (lambda X: X[:, 2], certain)
    )
    np.testing.assert_array_equal(own, [[0, 0, 0, 1, 2]])
    assert extra == 0  # all donors are of the third
    new[0, 3] = 0.0
    none, _ = filled(
        new, Donors.among(Holes((Hole((0, 1, 2), category=True),)), X), (lambda X: X[:, 2], certain)
    )
    np.testing.assert_array_equal(none, [[0, 0, 1, 0, 2]])


def test_rows_that_lack_nothing_stay_to_the_bit_and_blocks_do_not_matter():
    X, new = rows(300, 5, seed=9), rows(40, 5, seed=10)
    new[::2] = lacking(new[::2], 0)
    donors, f = Donors.among(TWO, X), (lambda X: np.sin(X[:, 0] + X[:, 3]), certain)
    out, extra = filled(new, donors, f)
    np.testing.assert_array_equal(out[1::2], new[1::2])
    assert (extra[1::2] == 0).all()
    for i, row in enumerate(new):
        alone = filled(row[None], donors, f)
        np.testing.assert_allclose(out[i], alone[0][0], rtol=1e-10)
        np.testing.assert_allclose(extra[i], alone[1][0], rtol=1e-10)


def test_a_factor_is_of_the_whole_variance():
    """extra = factor (v + spread) - v: also where the function does not depend on what is missing."""
    X, new = rows(200, 5, seed=11), lacking(rows(7, 5, seed=12), 0)
    donors = Donors.among(TWO, X)
    f = (lambda X: X[:, 0] + X[:, 3], lambda X: 1.0 + X[:, 3] ** 2)
    spread, v = filled(new, donors, f)[1], f[1](new)
    wider = Donors(donors.holes.widened(np.array([3.0, 7.0])), donors.X)
    np.testing.assert_allclose(filled(new, wider, f)[1], 3.0 * (v + spread) - v, rtol=1e-12)
    useless = (lambda X: X[:, 3], lambda X: np.ones(len(X)))
    np.testing.assert_allclose(filled(new, donors, useless)[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(filled(new, wider, useless)[1], 2.0, rtol=1e-12)


@pytest.mark.parametrize(("before", "more"), [(60, 100), (900, 300), (4000, 1000)])
def test_rows_that_are_added_are_donors_as_often_as_those_before(before, more):
    X = rows(before + more, 4, seed=13)
    donors = Donors.among(TWO, X[:before]).joined(X[before:], before)
    assert len(donors.X) == min(MOST, before + more)
    found = np.isin(X[:, 3], donors.X[:, 3])
    assert found.sum() == len(donors.X)  # none twice
    share = len(donors.X) / (before + more)
    off = 4.0 * np.sqrt(share * (1.0 - share) / more)
    assert found[before:].mean() == pytest.approx(share, abs=off + 1e-12)
    # in random order, of which folds are made
    place = np.flatnonzero(np.isin(donors.X[:, 3], X[before:, 3])) / len(donors.X)
    assert place.mean() == pytest.approx(0.5, abs=4.0 * np.sqrt(1 / 12 / place.size))


def test_a_value_that_is_rare_has_donors_among_rows_that_are_added():
    X, more = rows(2000, 4, seed=14), rows(500, 4, seed=15)
    X[:, 1] = np.nan
    donors = Donors.among(TWO, X)
    assert np.isnan(donors.X[:, 1]).all()
    assert (~np.isnan(donors.joined(more, 2000).X[:, 1])).sum() >= DONORS


def test_rows_beyond_those_looked_at_are_filled_like_them(monkeypatch):
    monkeypatch.setattr(module, "LOOKED", 200)
    X = rows(3000, 5, seed=16)
    truth, which = X[:, 0].copy(), np.arange(3000) % 3 > 0
    X[which] = lacking(X[which], 0)
    donors = Donors.among(TWO, X)
    some = looked_at(TWO.missing(X))
    assert some.size == 200
    assert which[some].all()
    alone, extra = filled(X[some], donors, (lambda X: X[:, 0] ** 2, certain))
    out, variance = filled_alike(X, some, extra, donors)
    np.testing.assert_array_equal(out[some], alone)
    np.testing.assert_array_equal(variance[some], extra)
    np.testing.assert_array_equal(out[~which], X[~which])
    every, expected = filled(X[which], donors, (lambda X: X[:, 0] ** 2, certain))
    assert np.sqrt(np.mean((out[which, 0] - truth[which]) ** 2)) < 0.15
    np.testing.assert_array_equal(out[which, 1:], every[:, 1:])
    assert variance[which].mean() == pytest.approx(expected.mean(), rel=0.3)
    assert np.corrcoef(variance[which], expected)[0, 1] > 0.5


def test_with_many_columns_the_regressions_are_counted(monkeypatch):
    """Each row lacks others, and by columns, values are told by the others too; blocks do not matter."""
    count, of = [], Regression.of
    monkeypatch.setattr(module, "PATTERNS", 10)
    monkeypatch.setattr(Regression, "of", staticmethod(lambda A, C: count.append(len(C)) or of(A, C)))
    rng, d = np.random.default_rng(17), 20
    holes = Holes(tuple(Hole((j,)) for j in range(d)))
    whole = rng.standard_normal((900, 3)) @ rng.standard_normal((3, d))
    X = np.where(rng.random(whole.shape) < 0.15, np.nan, whole)
    donors, new = Donors.among(holes, X[:500]), X[500:]
    f = (lambda X: X.sum(axis=1), certain)
    out, extra = filled(new, donors, f)
    assert len(np.unique(np.isnan(new), axis=0)) > 300
    assert len(count) <= FOLDS * (module.PATTERNS + 2 * d)
    error = (out - whole[500:])[np.isnan(new)]
    assert error.std() < 0.5 * whole.std()
    for i in range(0, 400, 50):
        alone = filled(new[i : i + 1], donors, f)
        np.testing.assert_allclose(out[i], alone[0][0], rtol=1e-10)
        np.testing.assert_allclose(extra[i], alone[1][0], rtol=1e-9)
