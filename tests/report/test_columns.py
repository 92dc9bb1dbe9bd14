"""Categories in a report: one column for a reader, and no row that cannot be."""

import numpy as np
import pandas as pd
import pytest

from itergp import IterGPRegressor, Matern32
from itergp.report import numbers

PAIRS = np.array([["Gentoo", "Biscoe"], ["Adelie", "Dream"], ["Adelie", "Torgersen"]])


def table(n=160, seed=0):
    """Most are Adelie, and most live on Biscoe, where there is no Adelie."""
    rng = np.random.default_rng(seed)
    pairs = PAIRS[np.repeat([0, 1, 2], [72, 48, 40])][rng.permutation(n)]
    X = pd.DataFrame({"flipper": rng.normal(200, 10, n), "species": pairs[:, 0], "island": pairs[:, 1]})
    X["bill"] = rng.normal(40, 3, n)
    return X, 20.0 * X["flipper"] + 500.0 * (X["species"] == "Gentoo") + rng.normal(0, 30, n)


def encoded(X):
    return pd.get_dummies(X, columns=["species", "island"], prefix_sep="=").astype(float)


def test_lines_are_along_numbers_and_hold_a_combination_of_categories_that_exists():
    X, y = table()
    model = IterGPRegressor("matern32", noise=0.05, learn=False).fit(encoded(X), y)
    slices = numbers(model.fit_)["targets"][0]["slices"]
    assert {s["feature"] for s in slices} == {"flipper", "bill"}
    for line in slices:
        said = dict(part.split(" = ") for part in line["held_at"].rstrip(".").partition(": ")[2].split(", "))
        assert (said["species"], said["island"]) == ("Gentoo", "Biscoe")


def test_the_worst_points_name_their_categories():
    X, y = table()
    model = IterGPRegressor("matern32", noise=0.05, learn=False).fit(encoded(X), y)
    for row in numbers(model.fit_)["targets"][0]["worst"]:
        told = row["features"]
        assert set(told) == {"flipper", "bill", "species", "island"}
        assert (told["species"], told["island"]) == tuple(X.loc[row["row"], ["species", "island"]])
        np.testing.assert_allclose(told["bill"], X.loc[row["row"], "bill"], rtol=1e-4)


def test_columns_of_zeros_and_ones_that_are_no_category_stay_numbers():
    rng = np.random.default_rng(1)
    X = (rng.random((80, 3)) < 0.5).astype(float)
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    model = IterGPRegressor("matern32", noise=0.05, learn=False).fit(X, y)
    values = numbers(model.fit_)["targets"][0]
    assert {s["feature"] for s in values["slices"]} == {"x1", "x2", "x3"}
    assert {x for row in values["worst"] for x in row["features"].values()} == {0.0, 1.0}


def test_small_units_are_not_zeros():
    """Where a feature is held is told in its own units: picofarads in farads are not 0."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(4e-12, 6e-12, 81), rng.normal(size=81)])
    model = IterGPRegressor(1.0 * Matern32([1e-12, 1.0]), noise=0.05, learn=False).fit(X, X[:, 1])
    along = {line["feature"]: line["held_at"] for line in numbers(model.fit_)["targets"][0]["slices"]}
    told = float(along["x2"].partition("x1 = ")[2].rstrip("."))
    np.testing.assert_allclose(told, np.median(X[:, 0]), rtol=1e-2)


@pytest.mark.parametrize("features", [1, 3])
def test_slices_end_at_the_smallest_and_largest_training_value(features):
    """Hours are from 0 to 23, and sizes from 0 on. A few values far away do not stretch a line."""
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [np.arange(400) % 24, rng.exponential(1.0, 400), np.append(rng.normal(size=399), 1e4)]
    )
    X = X[:, :features].astype(float)
    model = IterGPRegressor("matern32", noise=0.05, learn=False).fit(X, np.sin(X[:, 0]))
    ends = {line["feature"]: line["x"] for line in numbers(model.fit_)["targets"][0]["slices"]}
    assert (ends["x1"][0], ends["x1"][-1]) == (0.0, 23.0)
    for j in range(features):
        assert min(ends[f"x{j + 1}"]) >= X[:, j].min() - 1e-3  # numbers are rounded
        assert max(ends[f"x{j + 1}"]) <= X[:, j].max() + 1e-3
    assert features == 1 or max(ends["x3"]) < 5.0


def test_a_feature_that_hardly_matters_is_no_warning():
    """Its lengthscale ends at the upper end of its range. The oracle: y does not depend on it, and
    predictions do not either."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 300))
    lot = np.arange(300) % 2.0
    X, y = np.column_stack([x, w, lot]), 2 * x + np.sin(2 * w) + 0.1 * rng.normal(size=300)
    model = IterGPRegressor("matern32", random_state=0).fit(X, y)
    assert model.kernel_.kernel.lengthscale[2] > 900.0
    moved = np.column_stack([x, w, 1 - lot])
    np.testing.assert_allclose(model.predict(moved), model.predict(X), atol=0.2)  # y has a spread of 2.2
    values = numbers(model.fit_, feature_names=["x", "w", "lot"])
    (row,) = (row for row in values["hyperparameters"] if "lot" in row["words"])
    assert row["words"] == (
        "the lengthscale of lot; at the upper end of its range: this feature hardly matters"
    )
    assert not row["at_bound"]
    assert not any("lot" in warning for warning in values["warnings"])


def test_one_row_is_one_row():
    with pytest.warns(UserWarning, match="there is one row"):
        model = IterGPRegressor().fit([[1.0, 2.0]], [3.0])
    values = numbers(model.fit_)
    said = " ".join([*values["verdict"], values["points"]["note"]])
    assert "The fit of 1 row and" in said
    assert "The only row was acted on" in said
    assert " 1 rows" not in said
