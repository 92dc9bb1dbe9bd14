"""Samples have the moments of the posterior; as functions they are the same wherever and whenever
evaluated."""

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import (
    ConjugateGradient,
    Constant,
    ConstantMean,
    Kernel,
    KernelError,
    Linear,
    MaxActions,
    Prior,
    condition,
)
from itergp.posterior import sampling

DATA, NOISE, SIZE = make_data(40, new=5), 0.05, 4000
AT = DATA.X_new


def after(kernel, targets=None, number=8):
    data = make_data(40, targets=targets, new=5)
    mean = ConstantMean(0.5) if targets is None else ConstantMean(np.arange(targets) * 1.0)
    return condition(Prior(kernel, mean), data.X, data.y, NOISE, ConjugateGradient(), MaxActions(number))


def assert_moments(draws, posterior):
    cov, mean = posterior.cov(AT), posterior.mean(AT)
    error = np.sqrt(np.diag(cov) / len(draws))
    for t in range(1 if mean.ndim == 1 else mean.shape[1]):
        x, m = (draws, mean) if mean.ndim == 1 else (draws[:, :, t], mean[:, t])
        assert (np.abs(x.mean(axis=0) - m) <= 5 * error + 1e-9).all()
        spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / len(draws))
        assert (np.abs(np.cov(x.T) - cov) <= 6 * spread + 1e-9).all()


def functions(posterior):
    """Features differ between seeds: their own error would show in the draws of one."""
    return np.concatenate([posterior.sample_function(500, seed=seed, features=256)(AT) for seed in range(8)])


@pytest.mark.parametrize("kernel", KERNELS)
def test_joint_draws_have_the_moments_of_the_posterior(kernel):
    posterior = after(KERNELS[kernel])
    assert_moments(posterior.sample(AT, SIZE, seed=1), posterior)


@pytest.mark.parametrize("targets", [1, 3])
def test_several_targets_have_draws_of_their_own(targets):
    posterior = after(KERNELS["matern32"], targets)
    draws = posterior.sample(AT, SIZE, seed=1)
    assert draws.shape == (SIZE, 5, targets)
    assert_moments(draws, posterior)
    assert_moments(functions(posterior), posterior)
    if targets > 1:
        assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]) < 0.1


@pytest.mark.parametrize(
    "kernel", ["rbf", "matern32", "periodic", "linear-plus-constant", "product", "on-columns"]
)
def test_function_draws_have_the_moments_of_the_posterior(kernel):
    posterior = after(KERNELS[kernel])
    assert_moments(functions(posterior), posterior)


def test_functions_of_finite_dimension_are_exact_and_say_so():
    exact = after(2.0 * Linear() + Constant(0.3)).sample_function(2)
    assert exact.exact
    assert exact.rests_on == "exact features"
    assert not after(KERNELS["rbf"]).sample_function(2, features=64).exact


def test_a_function_is_the_same_wherever_and_whenever_it_is_evaluated():
    draw = after(KERNELS["rbf"]).sample_function(3, seed=4)
    np.testing.assert_allclose(draw(AT[2:4]), draw(AT)[:, 2:4], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(draw(AT), after(KERNELS["rbf"]).sample_function(3, seed=4)(AT))
    assert not np.array_equal(draw(AT), after(KERNELS["rbf"]).sample_function(3, seed=5)(AT))


def test_many_points_are_drawn_as_functions(monkeypatch):
    posterior = after(KERNELS["rbf"])
    monkeypatch.setattr(sampling, "JOINT_POINTS", 3)
    np.testing.assert_array_equal(posterior.sample(AT, 2, seed=1), posterior.sample_function(2, seed=1)(AT))


def test_a_kernel_without_random_features_still_has_joint_draws():
    class Brownian(Kernel):
        def __call__(self, X0, X1):
            return np.minimum(X0[:, :1], X1[:, :1].T) + 3.0

    posterior = after(Brownian())
    assert_moments(posterior.sample(AT, SIZE, seed=1), posterior)
    with pytest.raises(KernelError, match=r"posterior\.sample"):
        posterior.sample_function(1)
