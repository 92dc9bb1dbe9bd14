"""The exact log marginal likelihood, of data with merged rows and of a subset."""

import numpy as np
import pytest
from oracles import assert_slopes, negative_log_density, repeated

from helpers import KERNELS, make_data
from itergp import RBF, Compute, InputError, Linear, Matern32, MemoryLimitError
from itergp.data.rows import Rows
from itergp.learning.exact import exact, subset
from itergp.linalg import compute as computing


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_density_of_the_observations_before_merging(kernel):
    data, k = repeated(), KERNELS[kernel]
    value = exact(data.rows)(k, 0.05).value
    n = len(data.X_all)
    expected = negative_log_density(k(data.X_all, data.X_all) + 0.05 * np.eye(n), data.y_all)
    assert value == pytest.approx(expected / n, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_its_gradient_is_that_of_differences(kernel):
    data = repeated()
    for seed in range(2):
        assert_slopes(exact(data.rows), KERNELS[kernel], seed=seed)


def test_its_gradient_is_right_beyond_one_tile_and_far_from_the_origin():
    data = make_data(600)
    objective = exact(Rows.of(data.X + 1e4, data.y))
    assert_slopes(objective, 1.5 * Matern32(lengthscale=[0.5, 0.8]))
    near = exact(Rows.of(data.X, data.y))(RBF(0.5), 0.1)
    far = exact(Rows.of(data.X + 1024.0, data.y))(RBF(0.5), 0.1)
    assert far.value == pytest.approx(near.value, rel=1e-9)


def test_a_vector_of_targets_is_one_target():
    data = make_data()
    one, column = (
        exact(Rows.of(data.X, data.y))(RBF(0.5), 0.1),
        exact(Rows.of(data.X, data.y[:, None]))(RBF(0.5), 0.1),
    )
    assert one.value == column.value
    assert isinstance(one.value, float)
    assert isinstance(one.noise, float)


def test_jitter_serves_where_there_is_no_noise():
    """Ten copies of each row without noise: K is singular, and the value stays finite, with slopes."""
    X = np.repeat(np.linspace(0, 1, 5), 10)
    found = exact(Rows.of(X, np.repeat(np.sin(3 * np.linspace(0, 1, 5)), 10)))(RBF(0.3), 0.0)
    assert np.isfinite(found.value)
    assert abs(found.value) < 1e6
    assert np.isfinite(found.kernel["lengthscale"])


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_a_subset_is_the_likelihood_of_its_rows(noise):
    data, k = repeated(), KERNELS["matern32"]
    rows = np.array([3, 5, 8, 13, 21])
    found = subset(data.rows, rows)(k, noise)
    share = (data.counts[rows] - 1).sum() / (data.counts - 1).sum()
    expected = exact(Rows(data.X[rows], data.y[rows], data.counts[rows], share * data.scatter))(k, noise)
    assert found.value == expected.value
    assert found.noise == expected.noise


def test_a_random_subset_repeats_with_its_seed_and_is_all_rows_at_most():
    data, k = make_data(50), KERNELS["rbf"]
    values = [subset(Rows.of(data.X, data.y), 20, seed=seed)(k, 0.1).value for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    assert subset(Rows.of(data.X, data.y), 1000)(k, 0.1).value == exact(Rows.of(data.X, data.y))(k, 0.1).value


def test_other_engines_give_the_same():
    data, k = repeated(), KERNELS["matern32"]
    values = [exact(data.rows, compute=Compute(engine=name))(k, 0.05).value for name in ("numpy", "jax")]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_bad_arguments_are_named(monkeypatch):
    data = make_data()
    for bad, name in (
        ({"counts": np.zeros(40)}, "counts"),
        ({"counts": np.ones(7)}, "counts"),
        ({"scatter": -1.0}, "scatter"),
        ({"scatter": np.nan}, "scatter"),
    ):
        with pytest.raises(InputError, match=name):
            exact(Rows.of(data.X, data.y, **bad))
    for chosen in (0, [], [40], [-1], [0.5], "all"):
        with pytest.raises(InputError, match="chosen"):
            subset(Rows.of(data.X, data.y), chosen)
    monkeypatch.setattr(computing, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryLimitError, match="40 rows"):
        exact(Rows.of(data.X, data.y))


def test_a_kernel_that_does_not_fall_off_is_served():
    """A linear kernel has rank d, so everything rests on the noise."""
    data = make_data()
    k = Linear(lengthscale=[0.5, 2.0])
    value = exact(Rows.of(data.X, data.y))(k, 1e-4).value
    assert value == pytest.approx(
        negative_log_density(k(data.X, data.X) + 1e-4 * np.eye(40), data.y[:, None]) / 40, rel=1e-7
    )
