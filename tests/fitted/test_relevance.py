"""How much a feature matters is how much the function changes with it."""

import numpy as np
import pytest

from itergp import RBF, IterGPRegressor, Linear
from itergp.errors import LearningWarning
from itergp.fitted.relevance import relevances
from itergp.report import numbers


def fitted(kernel, X, y):
    return IterGPRegressor(kernel=kernel, noise=0.01, learn=False, normalize=False).fit(X, y).fit_


def test_with_a_linear_part_the_feature_that_moves_the_function_is_the_most_relevant():
    """A linear part has one lengthscale for all features; what the data say of each is its slope."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) * np.array([2.0, 1.0, 5.0])
    X -= X.mean(axis=0)  # a linear kernel has no constant
    y = 3.0 * X[:, 0] - 4.0 * X[:, 1]
    found = relevances(fitted(1e-6 * RBF([3.0, 1.0, 2.0]) + 2.0 * Linear(1.0), X, y))
    slopes = np.array([3.0, 4.0, 0.0]) * X.std(axis=0)
    assert [one.feature for one in found] == [0, 1, 2]
    np.testing.assert_allclose([one.value for one in found], slopes / slopes.max(), atol=0.01)
    assert all(one.lengthscale is None for one in found)


def test_a_linear_prior_mean_counts_too():
    """y is 10 b + sin(a): the kernel sees what the plane leaves, which is the wave of a."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (120, 2))
    y = np.sin(X[:, 0]) + 10 * X[:, 1]
    model = IterGPRegressor(1.0 * RBF([1.0, 100.0]), mean="linear", noise=0.01, learn=False).fit(X, y)
    found = relevances(model.fit_)
    assert [one.feature for one in found] == [1, 0]
    assert found[1].value < 0.1
    assert numbers(model.fit_)["fitted"]["mean"] == "linear; the kernel has what is left"
    assert "linear; the kernel has what is left" in model._repr_html_()
    constant = IterGPRegressor(1.0 * RBF([1.0, 100.0]), noise=0.01, learn=False).fit(X, y)
    assert numbers(constant.fit_)["fitted"]["mean"] is None


def test_it_is_how_far_predictions_move_over_one_standard_deviation():
    """The oracle predicts each row, and each with one feature moved; also where a kernel has two lengthscales
    for each feature, and there are two targets."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 0] + 0.3 * X[:, 1]])
    kernel = 1.0 * RBF([1.0, 2.0]) + 0.5 * RBF([2.0, 0.7])
    model = IterGPRegressor(kernel=kernel, noise=0.01, learn=False, normalize=False).fit(X, y)
    found = {one.feature: one.value for one in relevances(model.fit_)}
    moves = []
    for j in range(2):
        moved = X.copy()
        for x in moved:
            x[j] += X[:, j].std() if x[j] <= np.median(X[:, j]) else -X[:, j].std()
        moves.append(np.sqrt(np.mean((model.predict(moved) - model.predict(X)) ** 2)))
    np.testing.assert_allclose([found[0], found[1]], np.array(moves) / max(moves), rtol=1e-6)


def beside_constants(n=160):
    """y depends on two features; three say nothing, one of them but for rounding. The pair of columns is a
    category, beside which a constant column has a short lengthscale, as if it were a new level."""
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((2, n))
    level = rng.integers(0, 2, n).astype(float)
    constants = [np.full(n, 5.0), np.zeros(n), 0.1 + 2e-17 * rng.integers(0, 2, n)]
    X = np.column_stack([constants[0], x, level, 1 - level, *constants[1:], w])
    return X, 2 * x + np.sin(2 * w) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize(
    "kernel", ["matern32", "auto", 1.0 * RBF(np.ones(7)), RBF(1.0) + Linear(1.0)], ids=str
)
def test_a_column_that_is_constant_in_the_training_rows_has_no_relevance(kernel):
    """The oracle: a feature that no two rows differ in cannot say why their targets differ."""
    X, y = beside_constants()
    model = IterGPRegressor(kernel=kernel, budget="32 actions", random_state=0).fit(X, y)
    found = {one.feature: one for one in relevances(model.fit_)}
    constant = set(np.flatnonzero(np.ptp(X, axis=0) < 1e-12))
    assert constant == {0, 4, 5}
    assert {j for j, one in found.items() if one.value == 0.0} == constant
    assert {j for j, one in found.items() if not one.varies} == constant
    assert max(one.value for one in found.values()) == 1.0
    assert all(found[j].inverse in (0.0, None) for j in constant)


def test_a_report_shows_no_constant_column_among_points_and_slices():
    X, y = beside_constants()
    model = IterGPRegressor("matern32", noise=0.05, learn=False).fit(X, y)
    names = ["k", "x", "level=a", "level=b", "one", "tenth", "w"]
    values = numbers(model.fit_, feature_names=names)
    shown = values["targets"][0]
    assert {name for row in shown["worst"] for name in row["features"]} == {"x", "level", "w"}
    assert {line["feature"] for line in shown["slices"]} == {"x", "w"}
    assert not any(
        f"{name} =" in line["held_at"] for line in shown["slices"] for name in ("k", "one", "tenth")
    )
    assert {row["feature"] for row in values["relevance"][-3:]} == {"k", "one", "tenth"}


def test_a_fit_without_a_feature_that_varies_says_so_and_predicts_the_mean():
    y = np.random.default_rng(3).standard_normal(40)
    with pytest.warns(LearningWarning, match="Nothing can be learned from X"):
        model = IterGPRegressor(budget="8 actions").fit(np.full((40, 2), 5.0), y)
    np.testing.assert_allclose(model.predict([[5.0, 5.0]]), y.mean(), atol=1e-6)
    assert [one.value for one in relevances(model.fit_)] == [0.0, 0.0]
    assert numbers(model.fit_)["targets"][0]["slices"] == []
