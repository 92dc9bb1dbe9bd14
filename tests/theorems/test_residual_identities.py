"""The belief, its mean and the residual are tied together at every step (Lemmas S2 and S3)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, exact, make_data, row_noise
from itergp import LinearMean, MaxActions, Prior, Problem, condition, iterate


def check(state, oracle):
    K_hat, v_star, b = oracle.K_hat, oracle.v, oracle.b
    v, r, C = state.representer_weights[:, 0], state.residual[:, 0], state.precision()
    Sigma = np.linalg.inv(K_hat) - C
    approximation = K_hat @ C @ K_hat  # Q_i of Algorithm 1, line 12
    weights, size = 1e-10 * np.abs(v_star).max(), 1e-10 * np.abs(b).max()
    np.testing.assert_allclose(C @ b, v, atol=weights)  # Lemma S2
    np.testing.assert_allclose(Sigma @ b, v_star - v, atol=weights)
    np.testing.assert_allclose(r, b - K_hat @ v, atol=size)
    np.testing.assert_allclose(r, K_hat @ (v_star - v), atol=size)  # Lemma S3
    np.testing.assert_allclose(r, K_hat @ Sigma @ K_hat @ v_star, atol=10 * size)
    np.testing.assert_allclose(r, (K_hat - approximation) @ v_star, atol=10 * size)


@pytest.mark.parametrize("noise", [0.05, row_noise(24)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("policy", POLICIES)
def test_identities_hold_after_every_step(policy, noise):
    data, prior = make_data(24), Prior(KERNELS["matern32"], LinearMean([0.5, 0.1]))
    problem, oracle = Problem(prior, data.X, data.y, noise), exact(prior, data.X, data.y, noise, data.X_new)
    steps = 0
    for state in iterate(problem, POLICIES[policy]()):
        check(state, oracle)
        steps += 1
        if steps == 12:
            break
    assert steps >= 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_identities_hold_for_every_kernel(kernel):
    data, prior = make_data(24), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    for policy in ("cg", "pseudo-input", "unit-pivoted"):
        for actions in (1, 7, 24):
            check(
                condition(prior, data.X, data.y, 0.05, POLICIES[policy](), MaxActions(actions)).state, oracle
            )


@pytest.mark.parametrize("policy", POLICIES)
def test_the_residual_is_orthogonal_to_all_actions(policy):
    data, prior = make_data(24), Prior(KERNELS["matern52"])
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES[policy](), MaxActions(9))
    assert np.abs(posterior.actions.T @ posterior.state.residual).max() < 1e-12
