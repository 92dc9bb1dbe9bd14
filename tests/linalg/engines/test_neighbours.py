"""Nearest rows, and the likelihood of rows given their nearest ones, against loops over dense float64
matrices."""

import numpy as np
import pytest

from itergp import RBF, Constant, Linear, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.linalg.engines import Conditionals, get, jax_neighbours, no_tick
from itergp.linalg.neighbours import coordinates, nearest_by_tree
from itergp.prior.parameters import parameters, with_parameters

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")

nearest = native.ENGINE.nearest

KERNELS = {
    "ard": 1.7 * Matern32([0.5, 1.0, 2.0]),
    "rbf": 2.0 * RBF(0.7),
    "sum": Matern12(1.0) + 0.5 * Matern52([1.0, 2.0, 3.0]),
    "rational-quadratic-and-constant": 3.0 * RationalQuadratic(1.0, alpha=0.7) + 2.0 * Constant(0.4),
    "on-columns": Matern32(0.7).on([0]) + 1.3 * RBF(1.0).on([1, 2]),
    "linear": 1.7 * Matern32([0.5, 1.0, 2.0]) + 0.3 * Linear([0.7, 2.0, 5.0]),
    "linear-between": Linear(1.3).on([2, 0]) + RBF(1.0) + 0.5 * Linear(2.0) + Constant(0.2),
    "linear-alone": 0.5 * Linear(1.5),
}
OTHERS = {
    "product": Matern32(1.0) * RBF(2.0),
    "linear-and-periodic": Linear(1.0) + Periodic(1.0, period=2.0),
    "periodic": Periodic(1.0, period=2.0),
}


@pytest.fixture(params=native._tiles.instruction_sets())
def instruction_set(request):
    before = native._tiles.instruction_set()
    native._tiles.choose(request.param)
    yield request.param
    native._tiles.choose(before)


def nearest_by_sorting(F0, F1, count, among):
    D = ((F0[:, None] - F1[None]) ** 2).sum(axis=2)
    if among == "others":
        np.fill_diagonal(D, np.inf)
    if among == "earlier":
        D[np.triu_indices(len(D))] = np.inf
    order = np.argsort(D, axis=1, kind="stable")[:, :count]
    found = np.full((len(F0), count), -1)
    found[:, : order.shape[1]] = np.where(np.isfinite(np.take_along_axis(D, order, axis=1)), order, -1)
    return found


@pytest.mark.parametrize("among", ["all", "others", "earlier"])
@pytest.mark.parametrize(("n", "d", "count"), [(1, 1, 3), (5, 2, 9), (257, 3, 4), (700, 11, 30)])
def test_the_search_finds_what_sorting_all_distances_finds(instruction_set, among, n, d, count):
    F = np.random.default_rng(n).standard_normal((n, d)) + 100.0
    assert np.array_equal(nearest(F, F, count, among), nearest_by_sorting(F, F, count, among))


@pytest.mark.parametrize("among", ["all", "others"])
def test_without_the_native_code_a_tree_finds_the_same(among):
    F = np.random.default_rng(0).standard_normal((300, 4))
    assert np.array_equal(nearest_by_tree(F, F, 7, among), nearest(F, F, 7, among))


def test_without_the_native_code_earlier_rows_stay_earlier():
    found = nearest_by_tree(*2 * [np.random.default_rng(0).standard_normal((300, 4))], 7, "earlier")
    assert (found < np.arange(300)[:, None]).all()
    assert (found[7:] >= 0).all()


def problem(n=203, d=3, targets=2, m=7):
    rng = np.random.default_rng(1)
    X, y, share = rng.standard_normal((n, d)), rng.standard_normal((n, targets)), 1.0 / rng.integers(1, 4, n)
    return X, y, share, nearest(X, X, m, "earlier")


def by_hand(kernel, noise, X, y, share, rows, J):
    values = []
    for i, j in zip(rows, J, strict=True):
        j = j[j >= 0]
        C, c = kernel(X[j], X[j]) + np.diag(noise * share[j]), kernel(X[j], X[i : i + 1])[:, 0]
        variance = kernel.diagonal(X[i : i + 1])[0] + noise * share[i] - c @ np.linalg.solve(C, c)
        error = y[i] - c @ np.linalg.solve(C, y[j])
        values.append((0.5 * np.log(2 * np.pi * variance) + 0.5 * error**2 / variance).sum())
    return np.array(values)


def differences(kernel, noise, *rest):
    """Central differences of the sum by hand, in every parameter and in the noise."""

    def slope(change, size):
        return (by_hand(*change(size), *rest).sum() - by_hand(*change(-size), *rest).sum()) / (2 * size)

    def moved(path, value, q):
        def change(size):
            new = np.array(value, dtype=float)
            new[(q,) * new.ndim] += size
            return with_parameters(kernel, {path: new if new.ndim else float(new)}), noise

        return change

    found = {
        path: np.array([slope(moved(path, v, q), 1e-5) for q in range(np.size(v))])
        for path, v in parameters(kernel).items()
    }
    return found, slope(lambda size: (kernel, noise + size), 1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_likelihoods_and_gradients_are_those_of_the_dense_formula(instruction_set, kernel):
    X, y, share, J = problem()
    rows, noise = np.arange(1, 203, 2, dtype=np.int32), 0.1
    given = Conditionals(X, y, share, rows, J[rows])
    values, slopes, in_noise = native.ENGINE.likelihood(kernel, noise, given, 2)
    assert np.allclose(values, by_hand(kernel, noise, X, y, share, rows, J[rows]), rtol=0, atol=1e-10)
    expected, expected_noise = differences(kernel, noise, X, y, share, rows, J[rows])
    for path, slope in expected.items():
        assert np.allclose(
            slopes[path], slope if np.ndim(slopes[path]) else slope[0], rtol=1e-6, atol=1e-5
        ), path
    assert np.isclose(in_noise, expected_noise, rtol=1e-6)


@pytest.mark.parametrize("kernel", (KERNELS | OTHERS).values(), ids=KERNELS | OTHERS)
def test_jax_serves_any_kernel(kernel):
    X, y, share, J = problem()
    rows, noise = np.arange(0, 203, 3, dtype=np.int32), 0.1
    given = Conditionals(X, y, share, rows, J[rows])
    values, slopes, in_noise = jax_neighbours.likelihood(kernel, noise, given, no_tick)
    assert np.allclose(values, by_hand(kernel, noise, X, y, share, rows, J[rows]), rtol=0, atol=1e-9)
    expected, expected_noise = differences(kernel, noise, X, y, share, rows, J[rows])
    for path, slope in expected.items():
        assert np.allclose(np.atleast_1d(slopes[path]), slope, rtol=1e-5, atol=1e-4), path
    assert np.isclose(in_noise, expected_noise, rtol=1e-5)


@pytest.mark.parametrize("engine", ["numpy", "jax", "native"])
def test_every_engine_takes_the_native_code_where_it_knows_the_kernel_and_jax_elsewhere(engine):
    X, y, share, J = problem()
    rows = np.arange(203, dtype=np.int32)
    given = Conditionals(X, y, share, rows, J)
    found = {
        name: get(engine).likelihood(kernel, 0.1, given)[0] for name, kernel in (KERNELS | OTHERS).items()
    }
    for name, kernel in KERNELS.items():
        assert np.array_equal(found[name], native.ENGINE.likelihood(kernel, 0.1, given)[0]), name
    for name, kernel in OTHERS.items():
        assert np.allclose(found[name], by_hand(kernel, 0.1, X, y, share, rows, J), atol=1e-9), name
    assert np.array_equal(get(engine).nearest(X, X, 7, "earlier"), J)
    assert np.array_equal(get(engine).nearest(X, X, 7, "earlier", rows[3:9]), J[3:9])


def test_the_same_bits_for_any_number_of_threads():
    X, y, share, J = problem(n=1000)
    rows = np.arange(1000, dtype=np.int32)
    answers = [
        native.ENGINE.likelihood(KERNELS["ard"], 0.1, Conditionals(X, y, share, rows, J), threads, no_tick)
        for threads in (1, 2, 3)
    ]
    for values, slopes, in_noise in answers[1:]:
        assert np.array_equal(values, answers[0][0])
        assert all(np.array_equal(slopes[path], answers[0][1][path]) for path in slopes)
        assert in_noise == answers[0][2]


def test_coordinates_of_a_sum_are_those_of_its_parts():
    X = np.random.default_rng(0).standard_normal((5, 3))
    kernel = Matern32(2.0) + RBF(0.5).on([1])
    assert np.allclose(coordinates(kernel, X), np.concatenate([X / 2.0, X[:, [1]] / 0.5], axis=1))


@pytest.mark.parametrize("bad", [-2, 203])
def test_neighbours_out_of_range_are_refused_at_the_binding(bad):
    X, y, share, J = problem()
    J[3, 2] = bad
    with pytest.raises(ValueError, match="neighbours out of range"):
        native.ENGINE.likelihood(
            KERNELS["ard"], 1.0, Conditionals(X, y, share, np.arange(203, dtype=np.int32), J), 1
        )
