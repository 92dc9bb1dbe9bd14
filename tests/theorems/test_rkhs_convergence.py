"""|mu_* - mu_i| <= rho(i) c |mu_* - mu| in the RKHS of k, with c = sqrt(1 + sigma^2 / lambda_min(K)) (Thm.
1)."""

import numpy as np
import pytest

from helpers import PAIRS, run
from itergp.posterior.uncertainty import rkhs_error


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_the_mean_converges_in_rkhs_norm_at_the_rate_of_the_weights(kernel, policy):
    n, noise = 14, 0.05
    r = run(kernel, policy, actions=5, n=n, noise=noise)
    K, K_hat, v_star, v = r.oracle.K, r.oracle.K_hat, r.oracle.v, r.posterior.state.representer_weights[:, 0]
    lowest = np.linalg.eigvalsh(K)[0]
    assert lowest > 1e-10  # so that c is known
    error, start = rkhs_error(r.posterior)
    assert error == pytest.approx(np.sqrt((v_star - v) @ K @ (v_star - v)), rel=1e-9)
    assert start == pytest.approx(np.sqrt(v_star @ K @ v_star), rel=1e-9)
    rho = np.sqrt((v_star - v) @ K_hat @ (v_star - v) / (v_star @ K_hat @ v_star))
    assert error <= rho * np.sqrt(1 + noise / lowest) * start * (1 + 1e-10)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "product"])
def test_the_error_vanishes_after_n_actions(kernel):
    error, start = rkhs_error(run(kernel, "cg", actions=30).posterior)
    assert error < 1e-9 * start


def test_the_norm_is_that_of_the_difference_of_the_two_means_as_functions():
    """|f|^2 = f(Z)^T k(Z, Z)^{-1} f(Z) for f in the span of k(., Z): evaluated at Z = X through the
    posterior's own mean."""
    r = run("matern12", "cg", actions=4, n=20)
    f = r.prior.mean(r.data.X) + r.oracle.K @ r.oracle.v - r.posterior.mean(r.data.X)
    assert rkhs_error(r.posterior)[0] == pytest.approx(np.sqrt(f @ np.linalg.solve(r.oracle.K, f)), rel=1e-9)


@pytest.mark.parametrize("kernel", ["matern12", "matern52"])
def test_the_full_run_minimises_the_regularised_empirical_risk(kernel):
    r = run(kernel, "cg", actions=20, n=20)
    K, b = r.oracle.K, r.oracle.b
    risk = lambda v: ((K @ v - b) ** 2).sum() + 0.05 * v @ K @ v  # noqa: E731  (times 1 / n)
    v, rng = r.posterior.state.representer_weights[:, 0], np.random.default_rng(0)
    gradient = 2 * K @ (K @ v - b) + 0.1 * K @ v
    assert np.abs(gradient).max() < 1e-9
    assert all(risk(v + 0.1 * rng.standard_normal(20)) > risk(v) for _ in range(20))
