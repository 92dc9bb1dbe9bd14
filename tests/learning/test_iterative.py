"""The likelihood by products only: unbiased, exact where the preconditioner is, warm from call to call,
and on time."""

import time

import numpy as np
import pytest
from oracles import assert_slopes, repeated

from helpers import KERNELS, make_data
from itergp import RBF, Compute, InputError, Matern32
from itergp.data.rows import Rows
from itergp.learning.exact import exact
from itergp.learning.iterative import OutOfTime, conjugate_gradients, iterative


def numbers(found):
    """The value and the whole gradient, as one vector."""
    return np.concatenate([[found.value, found.noise], *(np.ravel(slope) for slope in found.kernel.values())])


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_every_row_in_the_preconditioner_nothing_is_random(kernel):
    """Then P = K_hat but for the jitter, all variance is taken by the control variates, and value and
    gradient are exact."""
    data, k = repeated(), KERNELS[kernel]
    found = iterative(data.rows, probes=2, rank=1000, tolerance=1e-8)(k, 0.05)
    np.testing.assert_allclose(numbers(found), numbers(exact(data.rows)(k, 0.05)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "periodic"])
def test_it_is_unbiased_and_says_its_standard_error(kernel):
    """Over 40 seeds; a mean lies within 4 of its standard errors, each number for itself."""
    data, k = repeated(60), KERNELS[kernel]
    objectives = [iterative(data.rows, probes=4, rank=8, tolerance=1e-5, seed=seed) for seed in range(40)]
    found = np.array([numbers(objective(k, 0.05)) for objective in objectives])
    expected, spread = (
        numbers(exact(data.rows)(k, 0.05)),
        found.std(axis=0, ddof=1),
    )
    assert (spread > 0).all()
    assert (np.abs(found.mean(axis=0) - expected) < 4.0 * spread / np.sqrt(40)).all()
    claimed = np.sqrt(np.mean([objective.work.standard_error**2 for objective in objectives]))
    assert 0.7 < claimed / spread[0] < 1.4


def test_control_variates_take_variance_away():
    """The larger the preconditioner, the smaller the spread between seeds: by ten times here, in value and
    gradient."""
    data, k, spreads = repeated(60), 1.3 * RBF(1.0), []
    for rank in (1, 30):
        some = [iterative(data.rows, rank=rank, tolerance=1e-6, seed=seed)(k, 0.05) for seed in range(6)]
        spreads.append(np.array([numbers(found) for found in some]).std(axis=0))
    assert (spreads[1] < 0.1 * spreads[0]).all()


def test_its_gradient_is_near_that_of_its_own_value():
    """Both are estimates with the same probes, so differences of the value agree up to what the probes
    leave open."""
    data = repeated(60)
    assert_slopes(
        iterative(data.rows, rank=60, tolerance=1e-9),
        KERNELS["matern32"],
        rtol=1e-4,
    )


def test_single_precision_tiles_are_near_the_exact_value():
    data, k = make_data(400), KERNELS["matern32"]
    found = iterative(Rows.of(data.X, data.y), rank=100, probes=4, compute=Compute("float32"))
    expected = exact(Rows.of(data.X, data.y))(k, 0.05)
    value = found(k, 0.05).value
    assert abs(value - expected.value) < 5.0 * found.work.standard_error + 1e-3


def test_solutions_are_kept_for_the_next_call():
    """A second call nearby agrees with a fresh objective, from fewer products; the same point again takes
    the quadrature only."""
    data = make_data(400)
    first, second = 1.0 * Matern32(0.5), 1.02 * Matern32(0.49)
    warm, cold = (iterative(Rows.of(data.X, data.y), rank=20, tolerance=1e-6) for _ in range(2))
    warm(first, 0.01)
    found, expected = warm(second, 0.0101), cold(second, 0.0101)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-3)
    assert warm.work.passes < cold.work.passes
    warm(second, 0.0101)
    assert warm.work.passes <= 0.7 * cold.work.passes
    assert warm.work.residual <= 1e-6


def test_a_start_from_far_away_is_no_worse_than_none():
    data = make_data(200)
    objective, fresh = (iterative(Rows.of(data.X, data.y), rank=20, tolerance=1e-6) for _ in range(2))
    for kernel, noise in ((1e-3 * RBF(5.0), 1e-3), (1e8 * RBF(1e3), 1e-12), (RBF(1e-3), 0.0)):
        objective(kernel, noise)
    found, expected = objective(10.0 * Matern32(0.1), 0.1), fresh(10.0 * Matern32(0.1), 0.1)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-3)


def test_repeated_calls_repeat_with_their_seed():
    data = make_data(100)
    values = [
        numbers(iterative(Rows.of(data.X, data.y), rank=10, seed=seed)(RBF(0.5), 0.1)) for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_a_limit_on_iterations_is_kept_and_said():
    data = make_data(200)
    objective = iterative(Rows.of(data.X, data.y), rank=1, max_iterations=5)
    assert np.isfinite(objective(Matern32(0.3), 1e-4).value)
    assert objective.work.passes == 5
    assert objective.work.residual > 1e-2


def test_a_deadline_is_heard_and_leaves_the_objective_usable():
    data = make_data(200)
    objective = iterative(Rows.of(data.X, data.y), deadline=time.perf_counter() - 1.0)
    with pytest.raises(OutOfTime, match="deadline"):
        objective(RBF(0.5), 0.1)
    objective.deadline = None
    assert np.isfinite(objective(RBF(0.5), 0.1).value)


def test_a_deadline_is_heard_between_products():
    data, ticks = make_data(200), []

    class LateError(Exception):
        pass

    def tick():
        ticks.append(1)
        if len(ticks) == 4:
            raise LateError

    objective = iterative(Rows.of(data.X, data.y), rank=1, tick=tick)
    with pytest.raises(LateError):
        objective(Matern32(0.3), 1e-3)
    assert np.isfinite(objective(Matern32(0.3), 1e-3).value)


def test_conjugate_gradients_solve_and_their_coefficients_are_a_quadrature():
    """b^T P^{-1/2} f(P^{-1/2} A P^{-1/2}) P^{-1/2} b for f = log and f(x) = 1/x, where it is b^T A^{-1} b."""
    rng = np.random.default_rng(0)
    n, U, V = 30, rng.standard_normal((30, 5)), rng.standard_normal((30, 40))
    P = np.diag(rng.uniform(0.5, 1.0, n)) + U @ U.T
    A = P + 0.1 * V @ V.T
    B = rng.standard_normal((n, 3))
    start = np.zeros_like(B)
    start[:, 2] = 0.9 * np.linalg.solve(A, B[:, 2])
    solved = conjugate_gradients(
        lambda V: A @ V, lambda V: np.linalg.solve(P, V), B, start, np.full(3, 1e-12), 100
    )
    np.testing.assert_allclose(solved.X, np.linalg.solve(A, B), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solved.R, B - A @ solved.X, atol=1e-9)
    values, V = np.linalg.eigh(P)
    root = V / np.sqrt(values) @ V.T
    spectrum, W = np.linalg.eigh(root @ A @ root)
    for column in (0, 1):
        v = W.T @ root @ B[:, column]
        assert solved.quadrature(np.log, column) == pytest.approx(v**2 @ np.log(spectrum), rel=1e-9)
        inverse = solved.quadrature(lambda x: 1.0 / x, column)
        assert inverse == pytest.approx(B[:, column] @ solved.X[:, column], rel=1e-9)


def test_bad_arguments_are_named():
    data = make_data()
    for name, bad in (("probes", 0), ("rank", 0), ("tolerance", 0.0), ("max_iterations", 0)):
        with pytest.raises(InputError, match=name):
            iterative(Rows.of(data.X, data.y), **{name: bad})
