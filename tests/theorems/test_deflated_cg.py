"""Some actions, then residuals, are the deflated conjugate gradient method (Cor. S3, corrected)."""

from types import SimpleNamespace

import numpy as np
import pytest

from helpers import KERNELS, exact, given, make_data, run, textbook_cg
from itergp import ConjugateGradient, MaxActions, Prior, Schedule, condition

n, FIRST, STEPS = 50, 6, 12
DIAGONAL = np.linspace(0.5, 2.0, n)
PRECONDITIONERS = {"none": None, "diagonal": SimpleNamespace(solve=lambda V: (V.T / DIAGONAL).T)}


@pytest.mark.parametrize("first", ["unit-pivoted", "pseudo-input", "random", "eigenvector", "sparse-block"])
@pytest.mark.parametrize("preconditioner", PRECONDITIONERS)
@pytest.mark.parametrize("kernel", ["matern12", "rbf", "product"])
def test_mixed_actions_are_deflated_cg(kernel, preconditioner, first):
    """Against Saad's algorithm in 50 digits, in the K_hat norm relative to v*: 1e-9 for u cond(K_hat)."""
    noise, P = 0.1, PRECONDITIONERS[preconditioner]
    W = run(kernel, first, actions=FIRST, n=n, noise=noise).Q
    data, prior = make_data(n), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, noise, data.X_new)
    M_inv = np.eye(n) if P is None else P.solve(np.eye(n))
    iterates, directions = textbook_cg(oracle.K_hat, oracle.b, M_inv, W, STEPS)
    policy = Schedule((given(W, 3), FIRST), (ConjugateGradient(P), None))
    posterior = condition(prior, data.X, data.y, noise, policy, MaxActions(FIRST + STEPS))
    assert posterior.rank == FIRST + STEPS
    D, z = posterior.state.search_directions(), posterior.state.z[:, 0]
    norm = lambda u: np.sqrt(u @ oracle.K_hat @ u)  # noqa: E731
    for i in range(STEPS + 1):
        stop = FIRST + i
        assert norm(iterates[i] - D[:, :stop] @ z[:stop]) < 1e-9 * norm(oracle.v)
    np.testing.assert_allclose(D[:, FIRST : FIRST + 5].T, directions[:5], atol=1e-8)
    # the residual is deflated
    np.testing.assert_allclose(W.T @ (oracle.b - oracle.K_hat @ iterates[0]), 0.0, atol=1e-12)


def test_search_directions_take_the_sum_of_both_precisions():
    """d_i = (I - (C_first + C_later) K_hat) s_i: with the printed minus, directions are not conjugate."""
    data, prior = make_data(n), Prior(KERNELS["matern12"])
    K_hat = exact(prior, data.X, data.y, 0.1, data.X_new).K_hat
    W = np.random.default_rng(0).standard_normal((n, FIRST))
    policy = Schedule((given(W), FIRST), (ConjugateGradient(), None))
    before, after = (condition(prior, data.X, data.y, 0.1, policy, MaxActions(FIRST + i)) for i in (4, 5))
    D = before.state.search_directions()
    C_first, C_later = D[:, :FIRST] @ D[:, :FIRST].T, D[:, FIRST:] @ D[:, FIRST:].T
    s, d = before.state.residual[:, 0], after.state.search_directions()[:, -1]
    right, printed = s - (C_first + C_later) @ K_hat @ s, s - (C_later - C_first) @ K_hat @ s
    np.testing.assert_allclose(d, right / np.sqrt(right @ K_hat @ right), atol=1e-10)
    assert np.abs(D.T @ K_hat @ printed).max() > 1e-2 * np.linalg.norm(printed)
