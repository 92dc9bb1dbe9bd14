"""A kernel is its formula: against scikit-learn where it has the same one, else against the formula
written out."""

import numpy as np
import pytest
import sklearn.gaussian_process.kernels as sk

from helpers import KERNELS
from itergp import (
    RBF,
    Compute,
    Constant,
    InputError,
    Kernel,
    KernelError,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Prior,
    RationalQuadratic,
    Stationary,
    condition,
)
from itergp.linalg import engines
from itergp.prior.distances import UNROLLED, distance, squared_distance
from itergp.prior.kernel import OnColumns, Product, Scaled, Sum
from itergp.prior.parameters import parameters, with_parameters

rng = np.random.default_rng(0)
X, Z = rng.uniform(-2, 2, (17, 2)), rng.uniform(-2, 2, (9, 2))
X[3] = X[5]
ELL = np.array([0.7, 1.3])

SKLEARN = {
    "rbf": (RBF(lengthscale=ELL), sk.RBF(ELL)),
    "matern12": (Matern12(lengthscale=ELL), sk.Matern(ELL, nu=0.5)),
    "matern32": (Matern32(lengthscale=ELL), sk.Matern(ELL, nu=1.5)),
    "matern52": (Matern52(lengthscale=ELL), sk.Matern(ELL, nu=2.5)),
    "rational-quadratic": (
        RationalQuadratic(lengthscale=0.8, alpha=1.7),
        sk.RationalQuadratic(0.8, alpha=1.7),
    ),
    "linear": (Linear(), sk.DotProduct(sigma_0=0.0)),
    "constant": (Constant(2.5), sk.ConstantKernel(2.5)),
    "scaled": (3.0 * RBF(lengthscale=0.5), sk.ConstantKernel(3.0) * sk.RBF(0.5)),
    "sum": (
        Matern32(lengthscale=0.5) + 2.0 * RBF(lengthscale=2.0),
        sk.Matern(0.5, nu=1.5) + 2.0 * sk.RBF(2.0),
    ),
    "product": (Matern52(lengthscale=0.5) * Linear(), sk.Matern(0.5, nu=2.5) * sk.DotProduct(sigma_0=0.0)),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_formula_agrees_with_scikit_learn(name):
    ours, theirs = SKLEARN[name]
    np.testing.assert_allclose(ours(X, Z), theirs(X, Z), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ours.diagonal(X), theirs.diag(X), rtol=1e-12)


def test_periodic_in_one_feature_agrees_with_scikit_learn_and_repeats():
    ours, theirs = Periodic(lengthscale=0.9, period=1.7), sk.ExpSineSquared(0.9, 1.7)
    np.testing.assert_allclose(ours(X[:, :1], Z[:, :1]), theirs(X[:, :1], Z[:, :1]), rtol=1e-12)
    np.testing.assert_allclose(ours(X, Z), ours(X + 1.7, Z), rtol=1e-11)


def test_periodic_in_several_features_is_its_formula():
    difference = X[:, None, :] - Z[None, :, :]
    formula = np.exp(-2 * (np.sin(np.pi * difference / [1.7, 0.6]) ** 2 / ELL**2).sum(axis=2))
    np.testing.assert_allclose(Periodic(lengthscale=ELL, period=[1.7, 0.6])(X, Z), formula, rtol=1e-12)


def test_linear_with_lengthscales_is_its_formula():
    np.testing.assert_allclose(Linear(lengthscale=ELL)(X, Z), (X / ELL**2) @ Z.T, rtol=1e-12)


def test_composition_builds_trees_and_means_arithmetic():
    a, b = RBF(lengthscale=0.5), Matern12(lengthscale=0.8)
    assert isinstance(a + b, Sum)
    assert isinstance(a * b, Product)
    assert isinstance(a * 2.0, Scaled)
    assert isinstance(np.float64(2.0) * a, Scaled)
    K = (2.0 * a * b + b * 0.5)(X, Z)
    np.testing.assert_allclose(K, 2.0 * a(X, Z) * b(X, Z) + 0.5 * b(X, Z), rtol=1e-13)
    with pytest.raises(TypeError):
        a + 1.0


def test_on_takes_columns_of_the_input():
    k = RBF(lengthscale=[0.5, 0.7]).on([2, 0])
    wide = rng.standard_normal((6, 3))
    np.testing.assert_array_equal(
        k(wide, wide), RBF(lengthscale=[0.5, 0.7])(wide[:, [2, 0]], wide[:, [2, 0]])
    )
    np.testing.assert_array_equal(k.diagonal(wide), np.ones(6))
    assert isinstance(RBF().on(1), OnColumns)
    with pytest.raises(InputError, match="column 2"):
        k.check_features(2)


@pytest.mark.parametrize("name", KERNELS)
def test_diagonal_and_stationarity_are_what_the_matrix_says(name):
    kernel = KERNELS[name]
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X, X)), rtol=1e-12)
    same = np.allclose(kernel(X + 0.7, Z + 0.7), kernel(X, Z), rtol=1e-10)
    assert same == kernel.stationary


def test_a_kernel_of_the_users_own_has_a_diagonal_and_an_amplification():
    class Brownian(Kernel):
        def __call__(self, X0, X1):
            return np.minimum(X0[:, :1], X1[:, :1].T) + 3.0

    np.testing.assert_allclose(Brownian().diagonal(X), X[:, 0] + 3.0)
    assert 4.0 <= Brownian().amplification(X) < 100.0
    assert Brownian().embedding(X) is None
    with pytest.raises(ValueError, match="random_features"):
        Brownian().random_features(rng, 4, 2)


@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].embedding(X) is not None])
def test_where_there_is_an_embedding_k_falls_with_distance_in_it(name):
    kernel = KERNELS[name]
    s = squared_distance(kernel.embedding(X[:1]), kernel.embedding(X)).ravel()
    k = kernel(X[:1], X).ravel()
    assert (np.diff(k[np.argsort(s)]) <= 1e-12).all()


@pytest.mark.parametrize(
    ("kernel", "shared"),
    [
        (0.6 * Matern32(0.5) + 0.4 * RBF(0.3), True),
        (Constant(2.0) + 0.5 * RationalQuadratic([1.0, 2.0]), True),
        (RBF([1.0, 3.0]) * Matern12([2.0, 6.0]) + Matern52([0.1, 0.3]), True),
        ((RBF(1.0) + Matern12(2.0)).on([1]), True),
        (RBF([1.0, 3.0]) + Matern12([2.0, 7.0]), False),
        (RBF(1.0).on([0]) + Matern12(2.0), False),
        (RBF([1.0, 2.0]) + Matern12([2.0]).on([0]), False),
        (RBF(1.0) + Periodic(1.0), False),
        (Constant(1.0) + Constant(2.0), False),
    ],
)
def test_sums_and_products_have_the_metric_that_their_parts_share(kernel, shared):
    """Lengthscales that differ by a factor order rows alike, and a constant does not order them."""
    embedded = kernel.embedding(X)
    assert (embedded is not None) == shared
    if shared:
        s = squared_distance(embedded[:1], embedded).ravel()
        assert (np.diff(kernel(X[:1], X).ravel()[np.argsort(s)]) <= 1e-12).all()


@pytest.mark.parametrize("name", KERNELS)
def test_parameters_are_read_and_replaced_by_path(name):
    kernel = KERNELS[name]
    values = {
        path: 1.1 * np.asarray(value) if np.ndim(value) else 1.1 * value
        for path, value in parameters(kernel).items()
    }
    moved = with_parameters(kernel, values)
    assert parameters(moved).keys() == parameters(kernel).keys()
    for path, value in parameters(moved).items():
        np.testing.assert_array_equal(value, values[path])
    assert not np.allclose(moved(X, Z), kernel(X, Z))


def test_parameters_of_columns_are_not_parameters():
    assert list(parameters(2.0 * RBF(lengthscale=0.3).on([0]))) == ["kernel.kernel.lengthscale", "scale"]


def test_with_parameters_checks_unless_told_otherwise():
    with pytest.raises(InputError, match=r"RBF\.lengthscale"):
        with_parameters(RBF(), {"lengthscale": -1.0})
    assert with_parameters(RBF(), {"lengthscale": -1.0}, check=False).lengthscale == -1.0


def test_distances_are_exact_for_equal_points_far_from_the_origin():
    far = X + 1e6
    assert (np.diag(squared_distance(far, far)) == 0).all()
    assert (np.diag(squared_distance(far.astype(np.float32), far.astype(np.float32))) == 0).all()
    np.testing.assert_allclose(distance(np.array([0.0, 4.0])), [0.0, 2.0], rtol=0, atol=1e-18)
    assert (np.diag(KERNELS["matern32"](far, far)) == np.diag(KERNELS["matern32"](X, X))).all()


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite_and_right_where_points_coincide(name):
    kernel, points = KERNELS[name], np.repeat(X[:4], 2, axis=0)
    ones = np.ones((8, 1))
    slopes, slope = engines.get("jax").gradient(kernel, points, points, ones, ones)
    expected = engines.get("numpy").gradient(kernel, points, points, ones, ones)[0]
    assert np.isfinite(slope).all()
    for path, value in parameters(expected).items():
        np.testing.assert_allclose(parameters(slopes)[path], value, rtol=1e-5, atol=1e-5)


class Triangular(Stationary):
    """A profile and nothing else; positive definite on the line."""

    def profile(self, s):
        return s.__array_namespace__().maximum(1.0 - distance(s), 0.0)


def test_a_stationary_kernel_needs_a_profile_and_nothing_more():
    X = np.random.default_rng(3).uniform(-2, 2, (30, 1))
    K = Triangular(0.7)(X, X)
    np.testing.assert_allclose(K, np.maximum(1.0 - np.abs(X - X.T) / 0.7, 0.0), atol=1e-12)
    posterior = condition(Prior(Triangular(0.7)), X, np.sin(X[:, 0]), 0.1, compute=Compute(dtype="float64"))
    np.testing.assert_allclose(
        posterior.mean(X), K @ np.linalg.solve(K + 0.1 * np.eye(30), np.sin(X[:, 0])), atol=1e-8
    )
    with pytest.raises(
        KernelError,
        match=r"Triangular has no frequencies.*give the kernel a `frequencies` "
        r"method",
    ):
        posterior.sample_function()


PRODUCT_OF_SUMS = (RBF(lengthscale=0.5) + Constant(0.5)) * (
    Matern32(lengthscale=0.8) + Linear(lengthscale=1.5)
)


@pytest.mark.parametrize("name", [*KERNELS, "product-of-sums"])
def test_random_features_are_unbiased(name):
    kernel, points = {**KERNELS, "product-of-sums": PRODUCT_OF_SUMS}[name], X[:6]
    products = []
    for seed in range(400):
        Phi = kernel.random_features(np.random.default_rng(seed), 32, 2)(points)
        assert Phi.shape == (6, 32)
        products.append((Phi @ Phi.conj().T).real)
    mean, error = np.mean(products, axis=0), np.std(products, axis=0) / np.sqrt(400)
    assert (np.abs(mean - kernel(points, points)) <= 5 * error + 1e-12).all()


def test_a_kernel_of_many_features_compiles_as_few_operations_as_one_of_fewer():
    import jax

    def operations(d):
        X = np.ones((3, d), dtype=np.float32)
        return str(jax.make_jaxpr(lambda F0, F1: squared_distance(F0, F1))(X, X)).count("=")

    assert operations(100) == operations(3000) < operations(UNROLLED)


@pytest.mark.parametrize("d", [UNROLLED, UNROLLED + 1, 500])
def test_distances_are_those_of_direct_differences_for_any_number_of_features(d):
    """Of points that differ by rounding only, too: |f|^2 + |f'|^2 - 2 f.f' would be negative there."""
    import jax

    rng = np.random.default_rng(d)
    F0 = 100.0 + rng.standard_normal((20, d)).astype(np.float32)
    F1 = np.concatenate([F0 + 1e-5, rng.standard_normal((5, d))]).astype(np.float32)
    expected = ((F0[:, None].astype(np.float64) - F1[None].astype(np.float64)) ** 2).sum(axis=-1)
    for found in (squared_distance(F0, F1), jax.jit(squared_distance)(F0, F1)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)
    np.testing.assert_allclose(
        squared_distance(F0.astype(np.float64), F1.astype(np.float64)), expected, rtol=1e-12
    )


def test_distances_of_few_features_keep_their_bits():
    rng = np.random.default_rng(0)
    F0, F1 = (rng.standard_normal((9, UNROLLED)).astype(np.float32) for _ in range(2))
    s = np.zeros((9, 9), dtype=np.float32)
    for f in range(UNROLLED):
        s = s + (F0[:, f, None] - F1[None, :, f]) ** 2
    np.testing.assert_array_equal(squared_distance(F0, F1), s)
