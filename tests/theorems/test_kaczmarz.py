"""Random actions are randomised Kaczmarz steps: projections onto the hyperplane of the new observation, in
the K_hat norm."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, exact, given, make_data
from itergp import MaxActions, Prior, Problem, RandomAction, condition, iterate

n = 25


def project(v, K_hat, A, c):
    """argmin |u - v| in the K_hat norm with A^T u = c, from the optimality conditions [[K_hat, A], [A^T,
    0]]."""
    k = A.shape[1]
    system = np.block([[K_hat, A], [A.T, np.zeros((k, k))]])
    return np.linalg.solve(system, np.concatenate([K_hat @ v, c]))[:n]


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_step_is_the_projection_onto_the_hyperplane_of_the_new_observation(kernel):
    """Sketch and project with B = K_hat (Gower and Richtarik): {u : d^T K_hat u = d^T b} for the search
    direction d."""
    data, prior = make_data(n), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    S = np.random.default_rng(8).standard_normal((n, 10))
    v = np.zeros(n)
    for i, state in enumerate(iterate(Problem(prior, data.X, data.y, 0.1), given(S))):
        if i == 10:
            break
        d = state.search_directions()[:, -1:]
        new = state.representer_weights[:, 0]
        scale = np.abs(oracle.v).max()
        np.testing.assert_allclose(
            new, project(v, oracle.K_hat, oracle.K_hat @ d, d.T @ oracle.b), atol=1e-9 * scale
        )
        # the same point lies on all hyperplanes s_j^T K_hat u = s_j^T b so far, and is the nearest such point
        A = oracle.K_hat @ S[:, : i + 1]
        np.testing.assert_allclose(
            new, project(v, oracle.K_hat, A, S[:, : i + 1].T @ oracle.b), atol=1e-9 * scale
        )
        np.testing.assert_allclose(
            new, project(np.zeros(n), oracle.K_hat, A, S[:, : i + 1].T @ oracle.b), atol=1e-9 * scale
        )
        v = new.copy()
    assert np.abs(v).max() > 0


def test_the_first_step_is_the_kaczmarz_step_of_its_action():
    """v = s (s^T K_hat s)^{-1} s^T b; for a unit vector, coordinate descent."""
    data, prior = make_data(n), Prior(KERNELS["matern32"])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    for s in (np.random.default_rng(0).standard_normal(n), np.eye(n)[4]):
        v = condition(prior, data.X, data.y, 0.1, given(s[:, None]), MaxActions(1)).state.representer_weights[
            :, 0
        ]
        np.testing.assert_allclose(v, s * (s @ oracle.b) / (s @ oracle.K_hat @ s), atol=1e-12)


@pytest.mark.parametrize("policy", ["random", "unit-random"])
def test_it_is_at_least_as_close_as_kaczmarz_without_memory(policy):
    """The plain method projects onto one hyperplane at a time and forgets; ours stays on all of them."""
    data, prior = make_data(n), Prior(KERNELS["matern32"])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    posterior = condition(prior, data.X, data.y, 0.1, POLICIES[policy](), MaxActions(12))
    S = posterior.actions.toarray() if policy == "unit-random" else posterior.actions
    plain = np.zeros(n)
    for s in S.T:
        plain = plain + s * (s @ (oracle.b - oracle.K_hat @ plain)) / (s @ oracle.K_hat @ s)
    error = lambda v: (oracle.v - v) @ oracle.K_hat @ (oracle.v - v)  # noqa: E731
    assert error(posterior.state.representer_weights[:, 0]) < error(plain) < error(np.zeros(n))


def test_random_actions_are_standard_normal_and_differ_between_seeds():
    data, prior = make_data(n), Prior(KERNELS["matern32"])
    one, two, again = (
        condition(prior, data.X, data.y, 0.1, RandomAction(3), MaxActions(6), seed=s) for s in (0, 1, 0)
    )
    np.testing.assert_array_equal(one.mean(data.X_new), again.mean(data.X_new))
    assert np.abs(one.mean(data.X_new) - two.mean(data.X_new)).max() > 1e-3
