"""The exact GP against the formula with an inverse, and SciPy's density."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from helpers import KERNELS, make_data, row_noise
from itergp import RBF, Compute, InputError, LinearMean, Matern32, Prior, baselines
from itergp.testing import check_gp

MEAN = LinearMean([0.3, -0.2], 0.1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["one noise", "a noise per row"])
def test_it_is_the_formula_with_an_inverse(kernel, noise):
    data, k = make_data(30), KERNELS[kernel]
    gp = baselines.exact(Prior(k, MEAN), data.X, data.y, noise)
    inverse = np.linalg.inv(k(data.X, data.X) + np.diag(np.broadcast_to(noise, 30)))
    K_x = k(data.X, data.X_new)
    np.testing.assert_allclose(
        gp.mean(data.X_new), MEAN(data.X_new) + K_x.T @ inverse @ (data.y - MEAN(data.X)), rtol=1e-9
    )
    cov = k(data.X_new, data.X_new) - K_x.T @ inverse @ K_x
    np.testing.assert_allclose(gp.cov(data.X_new), cov, atol=1e-10)
    np.testing.assert_allclose(gp.var(data.X_new), np.diag(cov), atol=1e-10)
    assert gp.jitter == 0.0


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "product"])
def test_its_likelihood_is_the_density_of_the_data(kernel):
    data, k, noise = make_data(30), KERNELS[kernel], row_noise(30)
    gp = baselines.exact(Prior(k, MEAN), data.X, data.y, noise)
    expected = multivariate_normal(MEAN(data.X), k(data.X, data.X) + np.diag(noise)).logpdf(data.y)
    assert gp.log_marginal_likelihood == pytest.approx(expected, rel=1e-10)


def test_several_targets_are_several_problems_with_one_variance():
    data, prior = make_data(25, targets=3), Prior(KERNELS["matern32"], MEAN)
    gp = baselines.exact(prior, data.X, data.y, 0.05)
    each = [baselines.exact(prior, data.X, y, 0.05) for y in data.y.T]
    np.testing.assert_allclose(
        gp.mean(data.X_new), np.stack([one.mean(data.X_new) for one in each], axis=1), rtol=1e-10
    )
    np.testing.assert_allclose(gp.var(data.X_new), each[0].var(data.X_new), rtol=1e-12)
    assert gp.log_marginal_likelihood == pytest.approx(
        sum(one.log_marginal_likelihood for one in each), rel=1e-12
    )


def test_it_is_a_gaussian_process():
    data = make_data(40)
    check_gp(baselines.exact(Prior(KERNELS["matern52"]), data.X, data.y, 0.01))


def test_many_points_are_predicted_in_batches_to_the_same_numbers(monkeypatch):
    data = make_data(40, new=200)
    gp = baselines.exact(Prior(KERNELS["rbf"]), data.X, data.y, 0.01)
    whole = gp.var(data.X_new)
    monkeypatch.setattr("itergp.baselines.predictions.ENTRIES", 40 * 7)
    np.testing.assert_allclose(gp.var(data.X_new), whole, rtol=1e-10)


def test_repeated_rows_without_noise_take_a_jitter_and_say_so():
    data = make_data(20)
    X, y = np.concatenate([data.X, data.X]), np.concatenate([data.y, data.y])
    gp = baselines.exact(Prior(Matern32(lengthscale=0.5)), X, y, 0.0)
    assert 0 < gp.jitter <= 1e-9
    np.testing.assert_allclose(gp.mean(data.X), data.y, atol=1e-6)


def test_bad_input_is_named():
    data, prior = make_data(20), Prior(RBF(lengthscale=0.5))
    with pytest.raises(InputError, match="noise is negative"):
        baselines.exact(prior, data.X, data.y, -1.0)
    with pytest.raises(InputError, match="compute is 'fast'"):
        baselines.exact(prior, data.X, data.y, 0.1, compute="fast")
    gp = baselines.exact(prior, data.X, data.y, 0.1, compute=Compute(threads=1))
    for method in (gp.mean, gp.var, gp.cov):
        with pytest.raises(InputError, match="has 3 features; expected 2"):
            method(np.zeros((4, 3)))
