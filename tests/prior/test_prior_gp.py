"""The prior is a Gaussian process: mean, variance, covariance and joint draws."""

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import ConstantMean, GaussianProcess, InputError, LinearMean, Prior
from itergp.prior.gp import gaussian_draws

X = make_data(9).X


def test_mean_var_and_cov_are_the_kernels():
    prior = Prior(KERNELS["matern32"], LinearMean([1.0, 2.0]))
    assert isinstance(prior, GaussianProcess)
    np.testing.assert_allclose(prior.mean(X), X @ [1.0, 2.0])
    np.testing.assert_allclose(prior.var(X), np.full(9, 2.0))
    np.testing.assert_array_equal(prior.cov(X), prior.cov(X, X))
    assert prior.cov(X, X[:4]).shape == (9, 4)


@pytest.mark.parametrize(
    ("mean", "shape"), [(None, (9,)), (ConstantMean(1.0), (9,)), (ConstantMean([1.0, -2.0]), (9, 2))]
)
def test_draws_have_the_shape_and_the_moments_of_the_prior(mean, shape):
    prior = Prior(KERNELS["rbf"], mean)
    draws = prior.sample(X, 6000, seed=1)
    assert draws.shape == (6000, *shape)
    np.testing.assert_allclose(draws.mean(axis=0), prior.mean(X), atol=5 * np.sqrt(1.3 / 6000))
    for target in np.atleast_2d(np.moveaxis(draws, -1, 0)) if len(shape) == 2 else [draws]:
        np.testing.assert_allclose(np.cov(target.T), prior.cov(X), atol=0.15)


def test_draws_of_several_targets_are_independent():
    draws = Prior(KERNELS["rbf"], ConstantMean([0.0, 0.0])).sample(X, 6000, seed=2)
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]) < 0.08


def test_the_same_seed_gives_the_same_draws():
    prior = Prior(KERNELS["sum"])
    np.testing.assert_array_equal(prior.sample(X, 3, seed=5), prior.sample(X, 3, seed=5))
    assert not np.array_equal(prior.sample(X, 3, seed=5), prior.sample(X, 3, seed=6))


def test_draws_need_no_jitter_for_a_singular_covariance():
    covariance = np.ones((4, 4))
    draws = gaussian_draws(covariance, 100, np.random.default_rng(0))
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws, np.tile(draws[:1], (4, 1)), atol=1e-6)


def test_size_must_be_a_number_of_draws():
    with pytest.raises(InputError, match="size"):
        Prior(KERNELS["rbf"]).sample(X, 0)
