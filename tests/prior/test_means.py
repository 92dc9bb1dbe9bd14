"""Prior means: one per point, or one per point and target."""

import numpy as np
import pytest

from itergp import RBF, ConstantMean, InputError, LinearMean, Prior, Zero

X = np.random.default_rng(0).standard_normal((7, 3))


def test_zero_is_zero():
    np.testing.assert_array_equal(Zero()(X), np.zeros(7))


def test_constant_is_constant_for_one_and_for_several_targets():
    np.testing.assert_array_equal(ConstantMean(2.5)(X), np.full(7, 2.5))
    np.testing.assert_array_equal(ConstantMean([1.0, -1.0])(X), np.tile([1.0, -1.0], (7, 1)))


def test_linear_is_linear_for_one_and_for_several_targets():
    w, W = np.array([1.0, 2.0, -0.5]), np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(LinearMean(w, 0.3)(X), X @ w + 0.3)
    np.testing.assert_allclose(LinearMean(W, [0.1, 0.2])(X), X @ W + [0.1, 0.2])


def test_any_function_is_a_mean():
    prior = Prior(RBF(), mean=lambda X: X[:, 0] ** 2)
    np.testing.assert_allclose(prior.mean(X), X[:, 0] ** 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConstantMean([[1.0]]), "ConstantMean.value"),
        (lambda: ConstantMean(np.nan), "ConstantMean.value"),
        (lambda: LinearMean(1.0), "LinearMean.weights"),
        (lambda: LinearMean([np.inf]), "LinearMean.weights"),
        (lambda: LinearMean([1.0], np.nan), "LinearMean.intercept"),
        (lambda: LinearMean([1.0, 2.0])(X), "LinearMean.weights"),
        (lambda: Prior(RBF(), mean=3.0), "mean is 3.0"),
    ],
)
def test_a_bad_mean_is_refused_by_name(make, words):
    with pytest.raises(InputError, match=words):
        make()
