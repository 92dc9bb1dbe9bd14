"""Data far from zero: years, Unix times, pressures. What differs in the last digits is told to these
digits."""

import json
import re

import numpy as np
import pytest

from itergp import IterGPRegressor, Matern32
from itergp.fitted.formats import column
from itergp.report import numbers
from itergp.report.measure.rounding import rounded
from itergp.report.page.page import render

RNG = np.random.default_rng(3)
X = 1e9 + RNG.uniform(0, 3, (80, 2))
Y = 101325 + 50 * np.sin(3 * (X[:, 0] - 1e9)) + RNG.standard_normal(80)


@pytest.fixture(scope="module")
def model():
    return IterGPRegressor(kernel=Matern32([0.5, 2.0]), noise=0.01, learn=False, budget="16 actions").fit(
        X[:60], Y[:60]
    )


@pytest.fixture(scope="module")
def values(model):
    return numbers(model.fit_, X[60:], Y[60:])


def test_slices_are_no_steps(model, values):
    line = values["targets"][0]["slices"][0]
    steps = np.diff(line["x"])
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-3)
    grid = np.column_stack([line["x"], np.full(len(line["x"]), np.median(X[:60, 1]))])
    np.testing.assert_allclose(line["mean"][-1], model.predict(grid), rtol=0, atol=1e-3 * np.ptp(Y))
    assert np.abs(np.array(line["near"]["y"])[:, None] - Y[:60]).min(axis=1).max() < 1e-3


def test_the_worst_points_are_those_of_the_data(model, values):
    worst = values["targets"][0]["worst"]
    rows = [60 + point["row"] for point in worst]
    np.testing.assert_allclose([point["y"] for point in worst], Y[rows], rtol=0, atol=1e-3 * np.ptp(Y))
    np.testing.assert_allclose(
        [point["mean"] for point in worst], model.predict(X[rows]), rtol=0, atol=1e-3 * np.ptp(Y)
    )
    np.testing.assert_allclose([point["features"]["x1"] for point in worst], X[rows, 0], rtol=0, atol=1e-3)


def test_the_page_shows_these_digits(values):
    page = render(values)
    shown = json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.S)[1])["targets"][0]
    steps = np.diff(shown["residuals"]["x_edges"])
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-2)
    assert f"{values['targets'][0]['worst'][0]['features']['x1']:,.2f}" in page
    assert f"x2 = {np.median(X[:60, 1]):.4f}" in values["targets"][0]["slices"][0]["held_at"]


def test_one_outlier_takes_no_digits_from_the_others():
    assert rounded([101325.25, 101326.5, 101327.75, 1e9])[:3] == [101325.25, 101326.5, 101327.75]


def test_small_numbers_beside_large_ones_keep_five_digits():
    assert rounded(np.array([[1.0, 1.2345678e-9], [np.nan, 100.0]])) == [[1.0, 1.2346e-9], [None, 100.0]]


def test_columns_of_numbers_that_are_close_have_more_digits():
    assert column([1999.0, 2001.5]) == ["1,999.00", "2,001.50"]
    assert column([0.5, 2.0, None]) == ["0.5000", "2.000", "not known"]
