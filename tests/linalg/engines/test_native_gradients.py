"""Gradients in C++: those of autodiff and of differences, for every shape, every instruction set, any
number of threads."""

from dataclasses import dataclass

import numpy as np
import pytest

from helpers import KERNELS
from itergp import (
    RBF,
    Constant,
    InputError,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)
from itergp.linalg import engines
from itergp.linalg.engines import differences
from itergp.prior.parameters import parameters, with_parameters

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")
gradients = pytest.importorskip("itergp.linalg.engines.native.gradients")
tiles = native._tiles

STATIONARY = {
    "rbf": 1.3 * RBF(0.8),
    "matern12": Matern12(0.7),
    "matern32": 2.0 * (3.0 * Matern32(0.6)),
    "matern52": Matern52(0.9),
    "rational-quadratic": RationalQuadratic(0.5, alpha=1.5),
    "sum": 0.7 * (Matern32(0.5) + 0.5 * RBF(1.5) + 2.0 * Constant(0.3)),
    "constant": 2.0 * Constant(0.3),
}
# n0, n1, d, r
SHAPES = [(1, 1, 1, 1), (1, 130, 2, 3), (65, 1, 3, 40), (64, 64, 20, 2), (63, 129, 7, 17), (200, 31, 1, 1)]


def with_columns(d):
    """One kernel with everything that is served: scales above sums, columns, lengthscales of both sorts."""
    inner = (
        RationalQuadratic(0.8, alpha=0.7).on([d - 1])
        + 0.4 * Matern52(np.linspace(0.5, 1.5, d))
        + Matern12(1.1)
        + 0.5 * Linear(np.linspace(2.0, 0.8, d))
    )
    backwards = range(d - 1, d // 2 - 1, -1)
    some = Matern32([0.9] * (d - d // 2)) + Linear(1.4)
    return 1.7 * (0.6 * inner) + Constant(0.2) + some.on(backwards)


def problem(n0, n1, d, r, seed=0):
    rng = np.random.default_rng([seed, n0, n1, d, r])
    X0, X1 = rng.standard_normal((n0, d)) / np.sqrt(d), rng.standard_normal((n1, d)) / np.sqrt(d)
    return X0, X1, rng.standard_normal((n0, r)), rng.standard_normal((n1, r))


def by_differences(kernel, X0, X1, A, B):
    slopes, in_inputs = differences.gradient(kernel, X0, X1, A @ B.T)
    return with_parameters(kernel, slopes, check=False), in_inputs


def assert_close(found, expected, tolerance, scale):
    """The same tree, and gradients that err by no more than the tolerance times the sum of all weights."""
    assert type(found[0]) is type(expected[0])
    assert found[1].shape == expected[1].shape
    slopes, wanted = parameters(found[0]), parameters(expected[0])
    assert list(slopes) == list(wanted)
    for path, value in wanted.items():
        assert np.shape(slopes[path]) == np.shape(value), path
        np.testing.assert_allclose(slopes[path], value, rtol=tolerance, atol=tolerance * scale, err_msg=path)
    np.testing.assert_allclose(found[1], expected[1], rtol=tolerance, atol=tolerance * scale)


def assert_same_bits(found, expected):
    slopes, wanted = parameters(found[0]), parameters(expected[0])
    assert all(np.array_equal(slopes[path], value) for path, value in wanted.items())
    assert np.array_equal(found[1], expected[1])


@pytest.fixture(params=tiles.instruction_sets())
def instruction_set(request):
    before = tiles.instruction_set()
    tiles.choose(request.param)
    yield request.param
    tiles.choose(before)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_autodiff_and_of_differences(instruction_set, name):
    X0, X1, A, B = problem(133, 97, 2, 3)
    scale = float((np.abs(A) @ np.abs(B).T).sum())
    found = native.ENGINE.gradient(KERNELS[name], X0, X1, A, B)
    assert_close(found, engines.get("jax").gradient(KERNELS[name], X0, X1, A, B), 1e-13, scale)
    assert_close(found, by_differences(KERNELS[name], X0, X1, A, B), 1e-8, scale)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_for_every_shape(instruction_set, shape):
    X0, X1, A, B = problem(*shape)
    scale = float((np.abs(A) @ np.abs(B).T).sum())
    for kernel in [*STATIONARY.values(), with_columns(shape[2])]:
        expected = by_differences(kernel, X0, X1, A, B)
        assert_close(native.ENGINE.gradient(kernel, X0, X1, A, B), expected, 1e-8, scale)


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_the_tree_is_that_of_autodiff(shape):
    X0, X1, A, B = problem(*shape)
    scale, kernel = float((np.abs(A) @ np.abs(B).T).sum()), with_columns(shape[2])
    found, expected = (
        engine.gradient(kernel, X0, X1, A, B) for engine in (native.ENGINE, engines.get("jax"))
    )
    assert_close(found, expected, 1e-13, scale)
    types = [[type(value) for value in parameters(tree).values()] for tree, _ in (found, expected)]
    assert types[0] == types[1]


@pytest.mark.parametrize("kernel", STATIONARY.values(), ids=STATIONARY)
def test_points_that_coincide_have_the_derivative_of_autodiff(instruction_set, kernel):
    X0, _, A, _ = problem(20, 1, 2, 2)
    X0 = np.repeat(X0[:5], 4, axis=0)
    found, expected = (
        engine.gradient(kernel, X0, X0, A, A) for engine in (native.ENGINE, engines.get("jax"))
    )
    assert_close(found, expected, 1e-13, float((np.abs(A) @ np.abs(A).T).sum()))
    assert not native.ENGINE.gradient(kernel, X0[:4], X0[:4], A[:4], A[:4])[1].any()


def test_coinciding_points_add_nothing_with_one_lengthscale_per_feature(instruction_set):
    X, _, A, _ = problem(30, 1, 3, 1)
    slopes, slope = native.ENGINE.gradient(Matern12([0.7, 0.4, 0.9]), X[:1], X[:1], A[:1], A[:1])
    assert not slopes.lengthscale.any()
    assert not slope.any()


@pytest.mark.parametrize("lengthscale", [1e-160, 1e-3, 1e3, 1e160])
@pytest.mark.parametrize("kernel", [RBF, Matern12, Matern32, Matern52, RationalQuadratic])
def test_gradients_are_finite_for_any_lengthscale(instruction_set, kernel, lengthscale):
    X0, X1, A, B = problem(70, 30, 2, 2)
    slopes, slope = native.ENGINE.gradient(kernel(lengthscale), X0, X1, A, B)
    assert np.isfinite(slope).all()
    assert all(np.isfinite(value) for value in parameters(slopes).values())


def test_any_number_of_threads_and_any_length_of_calls_gives_the_same_bits(monkeypatch):
    task = with_columns(4), *problem(700, 517, 4, 5)
    expected = native.ENGINE.with_threads(1).gradient(*task)
    for threads in (1, 2, 3, 2):
        assert_same_bits(native.ENGINE.with_threads(threads).gradient(*task), expected)
    monkeypatch.setattr(gradients, "SECONDS", 1e-9)
    assert_same_bits(native.ENGINE.with_threads(2).gradient(*task), expected)


def test_a_gradient_stops_between_calls(monkeypatch):
    calls, call = [], tiles.gradient

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return call(*arguments)

    monkeypatch.setattr(tiles, "gradient", interrupted)
    monkeypatch.setattr(gradients, "SECONDS", 1e-4)
    with pytest.raises(KeyboardInterrupt):
        native.ENGINE.gradient(RBF(1.0), *problem(1000, 1000, 2, 1))


def test_rows_without_weight_cost_nothing_and_change_nothing():
    X0, X1, A, B = problem(300, 200, 3, 2)
    A[::3], B[:150] = 0.0, 0.0
    kernel, rows = with_columns(3), np.arange(300) % 3 > 0
    found = native.ENGINE.gradient(kernel, X0, X1, A, B)
    slopes, slope = native.ENGINE.gradient(kernel, X0[rows], X1[150:], A[rows], B[150:])
    assert_same_bits((found[0], found[1][rows]), (slopes, slope))
    assert not found[1][~rows].any()


@pytest.mark.parametrize("shape", [(0, 5, 2, 3), (5, 0, 2, 3), (5, 5, 2, 0)])
def test_empty_sums_have_no_slope(shape):
    slopes, slope = native.ENGINE.gradient(with_columns(shape[2]), *problem(*shape))
    assert slope.shape == (shape[0], shape[2])
    assert not slope.any()
    assert not any(np.any(value) for value in parameters(slopes).values())


class Squared(RBF):
    def profile(self, s):
        return super().profile(s) ** 2


@dataclass(frozen=True, eq=False)
class Wiggly(RBF):
    amount: float = 0.1

    def profile(self, s):
        return super().profile(s) * (1.0 + self.amount * s)


@pytest.mark.parametrize(
    "kernel", [Periodic(0.9), RBF(0.5) * RBF(2.0), Squared(0.7), Wiggly(0.7), RBF() + 2.0 * Periodic(0.9)]
)
def test_other_kernels_are_left_to_autodiff(kernel):
    task = kernel, *problem(10, 12, 2, 2)
    assert gradients.gradient(*task, threads=1) is None
    assert_same_bits(native.ENGINE.gradient(*task), engines.get("jax").gradient(*task))


def broken(array):
    array = array.copy()
    array[-1, -1] = np.nan
    return array


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda k, X0, X1, A, B: (k, X0, X1, A[:-1], B), "shapes"),
        (lambda k, X0, X1, A, B: (k, X0, X1, A, B[:-1]), "shapes"),
        (lambda k, X0, X1, A, B: (k, X0, X1, A[:, :1], B), "shapes"),
        (lambda k, X0, X1, A, B: (k, X0, X1[:, :1], A, B), "shapes"),
        (lambda k, X0, X1, A, B: (k, X0, X1, A[:, 0], B[:, 0]), "shapes"),
        (lambda k, X0, X1, A, B: (k, broken(X0), X1, A, B), "X0 has 1 entries that are not finite"),
        (lambda k, X0, X1, A, B: (k, X0, broken(X1), A, B), "X1 has 1 entries that are not finite"),
        (lambda k, X0, X1, A, B: (k, X0, X1, broken(A), B), "A has 1 entries that are not finite"),
        (lambda k, X0, X1, A, B: (k, X0, X1, A, broken(B)), "B has 1 entries that are not finite"),
        (lambda k, X0, X1, A, B: (k, X0, X1, A.astype(complex), B), "complex"),
        (lambda k, X0, X1, A, B: (RBF([1.0, 2.0, 3.0]), X0, X1, A, B), "3 values"),
        (lambda k, X0, X1, A, B: (k.on([2]), X0, X1, A, B), "column 2"),
    ],
)
def test_bad_input_is_refused(spoil, message):
    with pytest.raises(InputError, match=message):
        native.ENGINE.gradient(*spoil(RBF(1.0), *problem(6, 9, 2, 3)))


@pytest.mark.parametrize(
    "changes",
    [
        {"left": np.zeros((2, 3, 64), np.float32)},
        {"left": np.zeros((2, 2, 64))},
        {"right": np.zeros((3, 3, 32))},
        {"A": np.zeros((1, 5, 64))},
        {"B": np.zeros((3, 4, 64))},
        {"A": np.zeros((2, 0, 64)), "B": np.zeros((3, 0, 64))},
        {"features": [3, 1]},
        {"features": [-1]},
        {"kinds": [5]},
        {"kinds": [0, 0]},
        {"slopes": np.zeros((2, 3, 32))},
        {"sums": np.zeros((2, 3))},
        {"last": 3},
        {"first": -1},
        {"last_right": 4},
        {"first_right": 4},
        {"threads": 0},
    ],
    ids=str,
)
def test_wrong_arrays_are_refused_at_the_binding(changes):
    task = {
        "left": np.zeros((2, 3, 64)),
        "right": np.zeros((3, 3, 64)),
        "A": np.ones((2, 5, 64)),
        "B": np.ones((3, 5, 64)),
        "features": [3],
        "kinds": [0],
        "alphas": [0.0],
        "per_feature": True,
        "slopes": np.zeros((2, 3, 64)),
        "sums": np.zeros((2, 6)),
        "first": 0,
        "last": 2,
        "first_right": 0,
        "last_right": 3,
        "threads": 2,
    }
    tiles.gradient(**task)
    assert task["sums"][:, 0].sum() == 5 * 128 * 192
    with pytest.raises((TypeError, ValueError)):
        tiles.gradient(**{**task, **changes})


@pytest.mark.parametrize("n", [1, 63, 65, 200])
@pytest.mark.parametrize("name", ["matern12", "matern32", "matern52", "rbf", "rational-quadratic", "sum"])
def test_gradients_of_symmetric_weights_read_the_lower_half_only(name, n):
    """Against central differences of the dense sum, in each parameter."""
    from itergp.learning.candidates import start_of
    from itergp.linalg.engines import differences, registry
    from itergp.prior.linear import Linear
    from itergp.prior.stationary import RBF, Constant

    rng = np.random.default_rng(n)
    X, A = rng.standard_normal((n, 3)), rng.standard_normal((n, n))
    kernel = start_of("rbf" if name == "sum" else name, 3)
    if name == "sum":
        kernel = kernel + 0.4 * Linear(np.array([1.0, 2.0, 0.5])) + Constant(0.3) + 0.7 * RBF(0.8)
    W = A + A.T
    expected = differences.in_parameters(kernel, lambda k: float((W * k(X, X)).sum()))
    lower = np.tril(W) + np.triu(np.full((n, n), 1e9), 1)
    found = registry.get("native").weighted_symmetric(kernel, X, np.asfortranarray(lower))
    assert list(found) == list(expected)
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-5, atol=1e-5 * n)
