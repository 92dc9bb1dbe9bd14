"""Algorithm 1 is a conjugate direction method (Prop. 1)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, exact, given, make_data, row_noise, run
from itergp import MaxActions, Prior, PseudoInput, condition

# Rounding of D^T K_hat D is about u cond(K_hat); cond is at most n max k / noise = 3e3 here, so 1e-10 leaves
# two digits.


def defect(posterior, K_hat):
    D = posterior.state.search_directions()
    return np.abs(D.T @ K_hat @ D - np.eye(posterior.rank)).max()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_search_directions_are_conjugate_and_of_unit_length(kernel, policy):
    r = run(kernel, policy, actions=12)
    assert r.posterior.rank >= 6
    assert defect(r.posterior, r.oracle.K_hat) < 1e-10


@pytest.mark.parametrize("policy", POLICIES)
def test_conjugate_with_one_noise_variance_per_row(policy):
    r = run("matern32", policy, actions=12, noise=row_noise(30))
    assert defect(r.posterior, r.oracle.K_hat) < 1e-10


def test_conjugate_to_the_last_action():
    for policy in POLICIES:
        r = run("matern52", policy, actions=30)
        assert defect(r.posterior, r.oracle.K_hat) < 1e-10, policy


def test_conjugate_where_the_printed_algorithm_loses_conjugacy():
    """Pseudo-inputs of a smooth kernel are nearly dependent: u cond(K_hat) still bounds the defect, here
    with cond 1e6."""
    data, prior = make_data(60), Prior(KERNELS["rbf"])
    K_hat = exact(prior, data.X, data.y, 1e-4, data.X_new).K_hat
    posterior = condition(prior, data.X, data.y, 1e-4, PseudoInput(data.X, block_size=1), MaxActions(60))
    assert defect(posterior, K_hat) < 1e-16 * 60 * np.linalg.cond(K_hat)
    C, worst = np.zeros_like(K_hat), 0.0  # Algorithm 1 as printed
    D = []
    for s in prior.kernel(data.X, data.X).T:
        d = s - C @ (K_hat @ s)
        d /= np.sqrt(abs(s @ K_hat @ d))
        C += np.outer(d, d)
        D.append(d)
        worst = max(worst, np.abs(np.array(D) @ K_hat @ np.array(D).T - np.eye(len(D))).max())
    assert worst > 1.0


def test_search_directions_span_the_actions_in_their_order():
    """The first j search directions span the first j actions as they were given, for every j."""
    data, prior = make_data(25), Prior(KERNELS["matern12"])
    S = np.random.default_rng(3).standard_normal((25, 10))
    D = condition(prior, data.X, data.y, 0.1, given(S, 3), MaxActions(10)).state.search_directions()
    for j in range(1, 11):
        coefficients, *_ = np.linalg.lstsq(S[:, :j], D[:, :j], rcond=None)
        np.testing.assert_allclose(S[:, :j] @ coefficients, D[:, :j], atol=1e-12)
