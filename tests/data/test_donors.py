"""What stands for missing values: values of similar rows, whose spread is how uncertain the value is."""

import numpy as np
import pytest

from itergp.data.donors import DONORS, Donors, filled
from itergp.data.holes import Hole, Holes

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
