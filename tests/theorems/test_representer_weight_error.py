"""The relative error of the representer weights is rho(i)^2 = vbar^T K_hat (I - C_i K_hat) vbar (Prop. 2,
corrected)."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data, row_noise, run
from itergp import MaxActions, Prior, condition


def norm(u, K_hat):
    return np.sqrt(u @ K_hat @ u)


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_rho_is_the_relative_error_of_the_weights(kernel, policy):
    r = run(kernel, policy, actions=7, noise=row_noise(30))
    K_hat, v_star, v = r.oracle.K_hat, r.oracle.v, r.posterior.state.representer_weights[:, 0]
    vbar, P = v_star / norm(v_star, K_hat), r.C @ K_hat
    rho2 = vbar @ K_hat @ (np.eye(30) - P) @ vbar
    error = norm(v_star - v, K_hat) / norm(v_star, K_hat)
    assert error**2 == pytest.approx(rho2, abs=1e-11)
    assert 1.0 - r.posterior.state.energy / (r.oracle.b @ v_star) == pytest.approx(rho2, abs=1e-11)
    root = np.linalg.cholesky(K_hat)  # I - C K_hat has the eigenvalues of I - L^T C L
    largest = np.linalg.eigvalsh(np.eye(30) - root.T @ r.C @ root).max()
    assert error <= np.sqrt(largest) + 1e-12
    assert largest <= 1.0 + 1e-12


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("unit-listed", "sparse-block")])
def test_the_error_falls_with_every_action_and_vanishes_at_the_last(policy):
    r = run("matern32", policy, actions=30)
    assert r.posterior.rank == 30
    K_hat, v_star, D, z = (
        r.oracle.K_hat,
        r.oracle.v,
        r.posterior.state.search_directions(),
        r.posterior.state.z[:30, 0],
    )
    errors = [norm(v_star - D[:, :i] @ z[:i], K_hat) / norm(v_star, K_hat) for i in range(31)]
    assert errors[0] == 1.0
    assert (np.diff(errors) <= 1e-12).all()
    assert errors[30] < 1e-10  # rho(n) = 0
    last = norm(v_star - r.posterior.state.representer_weights[:, 0], K_hat)
    assert last < 1e-10 * norm(v_star, K_hat)


def test_the_printed_formula_is_not_the_error():
    """Without the factor K_hat it exceeds one, although no relative error of a projection does."""
    data, prior = make_data(30), Prior(KERNELS["matern32"])
    oracle = exact(prior, data.X, data.y, 0.01, data.X_new)
    posterior = condition(prior, data.X, data.y, 0.01, POLICIES["cg"](), MaxActions(3))
    vbar = oracle.v / norm(oracle.v, oracle.K_hat)
    printed = vbar @ (np.eye(30) - posterior.state.precision() @ oracle.K_hat) @ vbar
    true = (
        norm(oracle.v - posterior.state.representer_weights[:, 0], oracle.K_hat) ** 2
        / norm(oracle.v, oracle.K_hat) ** 2
    )
    assert true < 1.0 < printed
