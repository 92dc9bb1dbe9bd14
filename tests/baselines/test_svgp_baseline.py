"""SVGP against Titsias's formulas with dense inverses; the stochastic one against the collapsed one."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from helpers import KERNELS, make_data, row_noise
from itergp import InputError, LinearMean, Matern32, Prior, baselines
from itergp.testing import check_gp

MEAN = LinearMean([0.3, -0.2], 0.1)
Z = np.random.default_rng(5).uniform(-1, 1, (9, 2))
JITTER = 1e-10  # of the mean of k(z, z)


def titsias(kernel, data, noise):
    """Mean, covariance and bound by Titsias (2009), Eqs. 6, 9 and 10, with inverses."""
    X, X_new, b = data.X, data.X_new, data.y - MEAN(data.X)
    N = np.diag(np.broadcast_to(noise, len(X)))
    K_ZZ = kernel(Z, Z) + JITTER * np.mean(np.diag(kernel(Z, Z))) * np.eye(len(Z))
    K_ZX, K_Zx = kernel(Z, X), kernel(Z, X_new)
    S = np.linalg.inv(K_ZZ + K_ZX @ np.linalg.inv(N) @ K_ZX.T)
    mean = MEAN(X_new) + K_Zx.T @ S @ K_ZX @ np.linalg.inv(N) @ b
    cov = kernel(X_new, X_new) - K_Zx.T @ np.linalg.inv(K_ZZ) @ K_Zx + K_Zx.T @ S @ K_Zx
    Q = K_ZX.T @ np.linalg.inv(K_ZZ) @ K_ZX
    missing = np.trace(np.linalg.inv(N) @ (kernel(X, X) - Q))
    return mean, cov, multivariate_normal(np.zeros(len(X)), Q + N).logpdf(b) - 0.5 * missing


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise", [0.05, row_noise(40)], ids=["one noise", "a noise per row"])
def test_the_collapsed_posterior_is_titsiass(kernel, noise):
    data = make_data(40)
    gp = baselines.svgp(Prior(KERNELS[kernel], MEAN), data.X, data.y, noise, Z)
    mean, cov, elbo = titsias(KERNELS[kernel], data, noise)
    np.testing.assert_allclose(gp.mean(data.X_new), mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gp.cov(data.X_new), cov, atol=1e-7)
    np.testing.assert_allclose(gp.var(data.X_new), np.diag(cov), atol=1e-7)
    assert gp.elbo == pytest.approx(elbo, rel=1e-7, abs=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "sum"])
def test_its_bound_rises_with_points_to_the_likelihood(kernel):
    data, prior = make_data(40), Prior(KERNELS[kernel], MEAN)
    whole = baselines.exact(prior, data.X, data.y, 0.05)
    bounds = [baselines.svgp(prior, data.X, data.y, 0.05, points).elbo for points in (Z[:2], Z[:6], Z)]
    assert bounds[0] < bounds[1] < bounds[2] < whole.log_marginal_likelihood
    every = baselines.svgp(prior, data.X, data.y, 0.05, data.X)
    assert every.elbo == pytest.approx(whole.log_marginal_likelihood, abs=1e-5)
    np.testing.assert_allclose(every.mean(data.X_new), whole.mean(data.X_new), atol=1e-6)
    np.testing.assert_allclose(every.var(data.X_new), whole.var(data.X_new), atol=1e-6)


def test_rows_in_batches_give_the_same_sums(monkeypatch):
    data, prior = make_data(40), Prior(KERNELS["matern32"], MEAN)
    whole = baselines.svgp(prior, data.X, data.y, 0.05, Z)
    monkeypatch.setattr("itergp.baselines.predictions.ENTRIES", 9 * 7)
    parts = baselines.svgp(prior, data.X, data.y, 0.05, Z)
    assert parts.elbo == pytest.approx(whole.elbo, rel=1e-10)
    np.testing.assert_allclose(parts.mean(data.X_new), whole.mean(data.X_new), rtol=1e-9)
    np.testing.assert_allclose(parts.var(data.X_new), whole.var(data.X_new), rtol=1e-9)


def test_several_targets_are_several_problems_with_one_variance():
    data, prior = make_data(40, targets=2), Prior(KERNELS["matern32"], MEAN)
    gp = baselines.svgp(prior, data.X, data.y, 0.05, Z)
    each = [baselines.svgp(prior, data.X, y, 0.05, Z) for y in data.y.T]
    np.testing.assert_allclose(
        gp.mean(data.X_new), np.stack([one.mean(data.X_new) for one in each], axis=1), rtol=1e-10
    )
    assert gp.elbo == pytest.approx(sum(one.elbo for one in each), rel=1e-10)


def test_repeated_inducing_points_do_no_harm():
    data, prior = make_data(40), Prior(KERNELS["matern32"])
    once, twice = (
        baselines.svgp(prior, data.X, data.y, 0.05, points) for points in (Z, np.concatenate([Z, Z]))
    )
    assert twice.elbo == pytest.approx(once.elbo, abs=1e-5)
    np.testing.assert_allclose(twice.var(data.X_new), once.var(data.X_new), atol=1e-6)


@pytest.mark.slow
def test_with_all_rows_in_a_batch_one_step_is_the_collapsed_posterior():
    data, prior = make_data(40, targets=2), Prior(KERNELS["matern32"], MEAN)
    collapsed = baselines.svgp(prior, data.X, data.y, 0.05, Z)
    gp = baselines.stochastic_svgp(prior, data.X, data.y, 0.05, Z, steps=1, batch=40)
    assert gp.elbo == pytest.approx(collapsed.elbo, rel=1e-10)
    np.testing.assert_allclose(gp.mean(data.X_new), collapsed.mean(data.X_new), rtol=1e-8)
    np.testing.assert_allclose(gp.var(data.X_new), collapsed.var(data.X_new), rtol=1e-8)


@pytest.mark.slow
def test_batches_lead_to_the_collapsed_posterior_and_their_bound_stays_below():
    data, prior = make_data(300), Prior(KERNELS["matern32"], MEAN)
    collapsed = baselines.svgp(prior, data.X, data.y, 0.05, Z)
    runs = [
        baselines.stochastic_svgp(prior, data.X, data.y, 0.05, Z, steps=steps, batch=40, seed=1)
        for steps in (1, 20, 400)
    ]
    gaps = [collapsed.elbo - run.elbo for run in runs]
    errors = [np.abs(run.mean(data.X_new) - collapsed.mean(data.X_new)).max() for run in runs]
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2] > 0
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.02


def test_a_run_by_batches_belongs_to_its_seed():
    data, prior = make_data(60), Prior(KERNELS["matern32"])
    first, again, other = (
        baselines.stochastic_svgp(prior, data.X, data.y, 0.05, Z, steps=3, batch=40, seed=seed).elbo
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_both_are_gaussian_processes():
    data, prior = make_data(60), Prior(KERNELS["matern32"], MEAN)
    check_gp(baselines.svgp(prior, data.X, data.y, 0.05, Z))
    check_gp(baselines.stochastic_svgp(prior, data.X, data.y, 0.05, Z, steps=5, batch=40))


def test_bad_input_is_named():
    data, prior = make_data(20), Prior(Matern32(lengthscale=0.5))
    for make in (baselines.svgp, baselines.stochastic_svgp):
        with pytest.raises(InputError, match="Z has 3 features; expected 2"):
            make(prior, data.X, data.y, 0.1, np.zeros((4, 3)))
        with pytest.raises(InputError, match=r"noise is 0\.0; expected a variance above 0"):
            make(prior, data.X, data.y, 0.0, Z)
    with pytest.raises(InputError, match="noise is one value per row"):
        baselines.stochastic_svgp(prior, data.X, data.y, np.full(20, 0.1), Z)
    with pytest.raises(InputError, match="steps is 0"):
        baselines.stochastic_svgp(prior, data.X, data.y, 0.1, Z, steps=0)
    with pytest.raises(InputError, match="batch is 0"):
        baselines.stochastic_svgp(prior, data.X, data.y, 0.1, Z, batch=0)
