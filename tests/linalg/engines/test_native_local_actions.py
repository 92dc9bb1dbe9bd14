"""Local actions: mean and variance of each point after actions on its neighbours are those of the dense
formulas."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from itergp import RBF, Constant, Linear, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.linalg import local
from itergp.linalg.engines import get
from itergp.linalg.local import Neighbourhoods

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")

KERNELS = {
    "rbf": 2.0 * RBF(0.7),
    "matern12": Matern12([0.7, 1.1, 2.0]),
    "matern32": 1.7 * Matern32([0.5, 1.0, 2.0]),
    "matern52": Matern52(1.5),
    "rational-quadratic-and-constant": 3.0 * RationalQuadratic(1.0, alpha=0.7) + 2.0 * Constant(0.4),
    "periodic": Periodic(1.0, period=2.0),
    "linear": 0.6 * Linear([1.0, 2.0, 0.5]),
    "sum": Matern12(1.0) + 0.5 * Linear(1.3) + 0.2 * Constant(1.0) + RBF([1.0, 2.0, 3.0]),
    "on-columns": Matern32(0.7).on([0]) + 1.3 * Linear(1.0).on([1, 2]),
}


@pytest.fixture(params=native._tiles.instruction_sets())
def instruction_set(request):
    before = native._tiles.instruction_set()
    native._tiles.choose(request.param)
    yield request.param
    native._tiles.choose(before)


def in_cpp(kernel, given, residual, mean, variance, threads=1):
    native.ENGINE.local_actions(kernel, given, residual, mean, variance, threads)


def in_numpy(kernel, given, residual, mean, variance, threads=1):
    batch = partial(get("numpy").batch, kernel)
    local.act(batch, given, residual, mean, variance, threads)


WAYS = {"native": in_cpp, "numpy": in_numpy}


def problem(kernel, points=11, m=9, r=7, targets=1, rows=60, seed=0, jitter=1e-9, missing=()):
    """Shared actions on the first r rows: so that S is positive definite."""
    rng = np.random.default_rng([seed, points, m, r])
    X0, X1 = rng.standard_normal((points, 3)), rng.standard_normal((rows, 3))
    N, residual = rng.uniform(0.05, 0.3, rows), rng.standard_normal((rows, targets))
    K_hat = np.asarray(kernel(X1, X1)) + np.diag(N)
    L = np.linalg.cholesky(K_hat[:r, :r])
    H = np.linalg.solve(L, K_hat[:r]).T
    W = np.linalg.solve(L, np.asarray(kernel(X1[:r], X0))).T
    J = np.stack([rng.permutation(np.arange(r, rows))[:m] for _ in range(points)]).astype(np.int32)
    for point, place in missing:
        J[point, place] = -1
    return Neighbourhoods(X0, X1, N, J, W.copy(), H.copy(), jitter), residual


def oracle(kernel, given, residual, more=0.0):
    """Mean and what is taken off the variance, for each point by dense formulas."""
    means, falls = [], []
    for p, J in enumerate(given.J):
        J = J[J >= 0]
        S = np.asarray(kernel(given.X1[J], given.X1[J])) + np.diag(given.N[J]) - given.H[J] @ given.H[J].T
        S += (given.jitter + more) * np.eye(J.size)
        k = np.asarray(kernel(given.X1[J], given.X0[p : p + 1]))[:, 0] - given.H[J] @ given.W[p]
        means.append(k @ np.linalg.solve(S, residual[J]))
        falls.append(k @ np.linalg.solve(S, k))
    return np.array(means), np.array(falls)


def acted(way, kernel, given, residual, threads=1):
    mean, variance = np.zeros((len(given.X0), residual.shape[1])), np.full(len(given.X0), 5.0)
    WAYS[way](kernel, given, residual, mean, variance, threads)
    return mean, 5.0 - variance


def check(way, kernel, given, residual):
    mean, fall = acted(way, kernel, given, residual)
    expected = oracle(kernel, given, residual)
    np.testing.assert_allclose(mean, expected[0], atol=1e-10)
    np.testing.assert_allclose(fall, expected[1], atol=1e-10)
    return mean, fall


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_native_local_actions_are_those_of_dense_formulas(instruction_set, kernel):
    given, residual = problem(kernel)
    check("native", kernel, given, residual)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_without_the_native_code_they_are_the_same(kernel):
    given, residual = problem(kernel, targets=2, missing=[(0, 3), (5, 8)])
    check("numpy", kernel, given, residual)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("r", [0, 1, 5, 16, 21])
@pytest.mark.parametrize("m", [1, 4, 13])
@pytest.mark.parametrize("targets", [1, 3])
def test_any_number_of_actions_neighbours_and_targets(way, r, m, targets):
    kernel = KERNELS["matern32"]
    given, residual = problem(kernel, m=m, r=r, targets=targets)
    check(way, kernel, given, residual)


def test_neighbours_that_are_not_there_tell_nothing(instruction_set):
    """Also where all of a point are missing, and where the last ones are."""
    kernel = KERNELS["sum"]
    missing = [(0, a) for a in range(9)] + [(3, 8), (3, 7), (4, 0), (10, 4)]
    given, residual = problem(kernel, missing=missing, targets=2)
    mean, fall = check("native", kernel, given, residual)
    assert not mean[0].any()
    assert fall[0] == 0.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("below", "more"), [(5e-3, 1e-2), (5e-2, 1.1e-1)])
def test_a_matrix_that_rounding_made_indefinite_gets_a_larger_diagonal(way, below, more):
    """S of one point has the eigenvalue -below: ten times the jitter is added, then a hundred times more."""
    kernel, jitter = KERNELS["rbf"], 1e-3
    given, residual = problem(kernel, r=9, jitter=jitter)
    J = given.J[4]
    S = np.asarray(kernel(given.X1[J], given.X1[J])) + np.diag(given.N[J])
    values, vectors = np.linalg.eigh(S)
    values[0] += below
    H = np.zeros_like(given.H)
    H[J] = vectors[:, :1] * values[0] ** 0.5 @ np.eye(1, 9)
    given = Neighbourhoods(given.X0, given.X1, given.N, given.J, 0.0 * given.W, H, jitter)
    others = [p for p in range(11) if not np.isin(given.J[p], J).any()]
    mean, fall = acted(way, kernel, given, residual)
    raised = oracle(kernel, given, residual, more)
    np.testing.assert_allclose(mean[4], raised[0][4], atol=1e-9)
    np.testing.assert_allclose(fall[4], raised[1][4], atol=1e-9)
    assert others
    as_before = oracle(kernel, given, residual)
    np.testing.assert_allclose(mean[others], as_before[0][others], atol=1e-9)


def test_near_duplicates_with_little_noise_stay_below_the_prior_variance(instruction_set):
    kernel, rng = KERNELS["rbf"], np.random.default_rng(3)
    X1 = np.repeat(rng.standard_normal((4, 3)), 5, axis=0) + 1e-9 * rng.standard_normal((20, 3))
    J = np.stack([rng.permutation(20) for _ in range(9)]).astype(np.int32)
    none = np.zeros((9, 0)), np.zeros((20, 0))
    given = Neighbourhoods(rng.standard_normal((9, 3)), X1, np.full(20, 1e-15), J, *none, 1e-14)
    for way in WAYS:
        mean, fall = acted(way, kernel, given, np.ones((20, 1)))
        assert np.isfinite(mean).all()
        assert (fall > 0.0).all()
        assert (fall <= 2.0 * (1.0 + 1e-6)).all()


def test_no_bit_depends_on_threads_or_on_the_other_points(instruction_set):
    kernel = KERNELS["sum"]
    given, residual = problem(kernel, points=700, m=12, r=19, targets=2)
    mean, fall = acted("native", kernel, given, residual)
    again, parts = (np.zeros((700, 2)), np.full(700, 5.0)), native.leaves(kernel)
    (points, sizes), (F, _) = (native.neighbours.features(parts, X) for X in (given.X0, given.X1))
    data = points, F, given.N, given.W, given.H, residual, given.J
    groups = -(-700 // native._tiles.group_of_points())
    terms = native.neighbours.terms(parts, sizes)
    native._tiles.local_actions(*terms, *data, given.jitter, *again, 0, groups, 4)
    np.testing.assert_array_equal(again[0], mean)
    np.testing.assert_array_equal(5.0 - again[1], fall)
    some = np.array([3, 698, 41])
    few = Neighbourhoods(
        given.X0[some], given.X1, given.N, given.J[some], given.W[some], given.H, given.jitter
    )
    alone = acted("native", kernel, few, residual)
    np.testing.assert_array_equal(alone[0], mean[some])
    np.testing.assert_array_equal(alone[1], fall[some])


def test_many_neighbours_and_other_kernels_are_left_to_numpy():
    rbf, product = KERNELS["rbf"], KERNELS["rbf"] * KERNELS["linear"]
    assert not native.ENGINE.acts_locally(product, problem(rbf)[0])
    check("native", product, *problem(product))
    many, residual = problem(rbf, points=2, m=native.local.MANY + 1, rows=300)
    assert not native.ENGINE.acts_locally(rbf, many)
    check("native", rbf, many, residual)


def test_what_does_not_fit_together_is_refused():
    kernel = KERNELS["rbf"]
    given, residual = problem(kernel)
    with pytest.raises(ValueError, match="residual"):
        acted("native", kernel, given, residual[:-1])
    for wrong, message in ({"J": given.J + 60}, "out of range"), ({"W": given.W[:, :3]}, "number of actions"):
        with pytest.raises(ValueError, match=message):
            acted("native", kernel, replace(given, **wrong), residual)


def test_a_point_whose_matrix_is_not_finite_has_no_prediction_and_the_others_do(instruction_set):
    kernel = KERNELS["rbf"]
    given, residual = problem(kernel)
    row, H = given.J[4, 2], given.H.copy()
    H[row] = np.nan
    mean, fall = acted("native", kernel, replace(given, H=H), residual)
    touched = (row == given.J).any(axis=1)
    expected = oracle(kernel, given, residual)
    assert np.isnan(mean[touched]).all()
    assert np.isnan(fall[touched]).all()
    np.testing.assert_allclose(mean[~touched], expected[0][~touched], atol=1e-10)
    assert not touched.all()


@pytest.mark.parametrize("size", [1, 3, 4, 17, 130])
@pytest.mark.parametrize("rows", [1, 7, 25, 60])
def test_triangular_solves_are_those_of_linear_systems(instruction_set, size, rows):
    rng = np.random.default_rng([size, rows])
    whole = np.tril(rng.standard_normal((size + 3, size + 3))) + 4.0 * np.eye(size + 3)
    L, B = whole[:size, :size], rng.standard_normal((rows, size))
    X = native.ENGINE.solve_lower(L, B, 1)
    np.testing.assert_allclose(X @ L.T, B, atol=1e-10 * np.abs(X).max())
    one = native.ENGINE.solve_lower(L, B[rows // 2 : rows // 2 + 1], 1)
    np.testing.assert_array_equal(one[0], X[rows // 2])  # no row depends on the others
    threads = np.empty_like(X)
    native._tiles.solve_lower(L, B, threads, 3)
    np.testing.assert_array_equal(threads, X)
