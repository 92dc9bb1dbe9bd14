"""Bounds by inducing points: the collapsed one against its dense formula, the stochastic one against the
collapsed one."""

import numpy as np
import pytest
from oracles import assert_slopes, negative_log_density, repeated

from helpers import KERNELS, make_data
from itergp import InputError, Matern32
from itergp.data.rows import Rows
from itergp.learning.exact import exact
from itergp.learning.inducing import sgpr, svgp
from itergp.linalg.cholesky import SMALL_JITTERS

Z = np.random.default_rng(5).uniform(-1, 1, (7, 2))


def dense_bound(kernel, data, Z, noise):
    """Titsias (2009), Eq. 9, for the observations before merging."""
    X, n = data.X_all, len(data.X_all)
    K_ZZ = kernel(Z, Z)
    K_ZZ = K_ZZ + SMALL_JITTERS[0] * np.mean(np.diag(K_ZZ)) * np.eye(len(Z))
    Q = kernel(X, Z) @ np.linalg.solve(K_ZZ, kernel(Z, X))
    missing = data.y_all.shape[1] * np.trace(kernel(X, X) - Q) / (2.0 * noise)
    return (negative_log_density(Q + noise * np.eye(n), data.y_all) + missing) / n


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_collapsed_bound_is_its_dense_formula_before_merging(kernel):
    data = repeated()
    value = sgpr(data.rows, Z)(KERNELS[kernel], 0.05).value
    assert value == pytest.approx(dense_bound(KERNELS[kernel], data, Z, 0.05), rel=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_gradient_of_the_collapsed_bound_is_that_of_differences(kernel):
    data = repeated()
    assert_slopes(sgpr(data.rows, Z), KERNELS[kernel])


@pytest.mark.parametrize("kernel", ["matern12", "matern52", "product"])
def test_its_gradient_in_the_inducing_points_is_that_of_differences(kernel):
    data, k, direction = repeated(), KERNELS[kernel], np.random.default_rng(0).standard_normal(Z.shape)
    bound = sgpr(data.rows, Z)
    slope = float((bound.evaluate(k, 0.05, Z)[1] * direction).sum())
    ends = [bound.evaluate(k, 0.05, Z + h * direction)[0].value for h in (1e-5, -1e-5)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_bounds_the_exact_objective_and_meets_it_with_all_rows(kernel):
    data, k = repeated(), KERNELS[kernel]
    target = exact(data.rows)(k, 0.05).value
    values = [sgpr(data.rows, Z[:m])(k, 0.05).value for m in (1, 4, 7)]
    assert values[0] >= values[1] >= values[2] >= target
    all_rows = sgpr(data.rows, 1000)(k, 0.05)
    assert all_rows.value == pytest.approx(target, abs=1e-6)


def test_repeated_inducing_points_do_no_harm():
    data, k = repeated(), KERNELS["rbf"]
    once, twice = (sgpr(data.rows, points)(k, 0.05) for points in (Z, np.concatenate([Z, Z])))
    assert twice.value == pytest.approx(once.value, rel=1e-6)


def test_random_inducing_points_repeat_with_their_seed():
    data = make_data(60)
    points = [sgpr(Rows.of(data.X, data.y), 10, seed=seed).Z for seed in (0, 0, 1)]
    np.testing.assert_array_equal(points[0], points[1])
    assert not np.array_equal(points[0], points[2])
    assert all((z == data.X).all(axis=1).any() for z in points[0])


@pytest.mark.parametrize("kernel", ["matern12", "product"])
def test_the_stochastic_bound_of_all_rows_with_the_best_q_is_the_collapsed_one(kernel):
    """Value and gradient: at the optimum the bound does not change with q, so moving q does not count."""
    data, k = repeated(), KERNELS[kernel]
    stochastic = svgp(data.rows, Z, step=1.0)
    collapsed = sgpr(data.rows, Z)
    for noise in (0.05, 0.2):
        found, expected = stochastic(k, noise), collapsed(k, noise)
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert found.noise == pytest.approx(expected.noise, rel=1e-7)
        for path, slope in expected.kernel.items():
            np.testing.assert_allclose(found.kernel[path], slope, rtol=1e-6, atol=1e-9)


def test_with_batches_it_is_an_estimate_of_a_bound_that_q_makes_tight():
    """After some steps the mean over batches lies just above the collapsed bound, and no step may bring it
    below."""
    data, k = make_data(300), 1.0 * Matern32(lengthscale=0.6)
    collapsed = sgpr(Rows.of(data.X, data.y), 20)(k, 0.1).value
    stochastic = svgp(Rows.of(data.X, data.y), 20, batch=60, step=0.05)
    values = np.array([stochastic(k, 0.1).value for _ in range(260)])
    late = values[60:]
    error = 4.0 * late.std() / np.sqrt(late.size / 10)  # neighbouring calls share q: a tenth of them count
    assert collapsed - error < late.mean() < collapsed + error + 0.1
    assert values[:3].mean() > late.mean()


def test_batches_repeat_with_their_seed():
    data, runs = make_data(300), []
    for seed in (0, 0, 1):
        objective = svgp(Rows.of(data.X, data.y), 20, batch=60, seed=seed)
        runs.append([objective(1.0 * Matern32(lengthscale=0.6), 0.1).value for _ in range(3)])
    assert runs[0] == runs[1] != runs[2]


def test_bad_arguments_are_named():
    data = make_data()
    for bad, name in (({"step": 1.5}, "step"), ({"step": 0.0}, "step"), ({"batch": 0}, "batch")):
        with pytest.raises(InputError, match=name):
            svgp(Rows.of(data.X, data.y), Z, **bad)
    for points in (0, np.ones((3, 5)), np.full((3, 2), np.nan)):
        with pytest.raises(InputError, match="inducing_points"):
            sgpr(Rows.of(data.X, data.y), points)
