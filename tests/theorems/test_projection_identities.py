"""C K_hat is the K_hat-orthogonal projection onto the span of the actions (Lemma S1, Cor. S1)."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, POLICIES, given, make_data, row_noise, run
from itergp import MaxActions, Prior, condition

NOISES = {"scalar": 0.05, "per-row": row_noise(30)}


def close(A, B, scale=1.0):
    """Projections have entries of order one in the K_hat geometry; rounding grows with cond(K_hat) < 3e3."""
    np.testing.assert_allclose(A, B, atol=1e-10 * scale)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kernel", ["matern12", "rbf", "product"])
def test_precision_times_kernel_matrix_is_the_conjugate_projection(kernel, policy, noise):
    r = run(kernel, policy, noise=NOISES[noise])
    C, K_hat, size = r.posterior.state.precision(), r.oracle.K_hat, np.abs(r.oracle.K_hat).max()
    P = C @ K_hat
    close(P @ P, P)  # (C K_hat)^2 = C K_hat
    close(C @ K_hat @ C, C, np.abs(C).max())  # C K_hat C = C
    close(K_hat @ P, P.T @ K_hat, size)  # self-adjoint in the K_hat inner product
    close(P @ r.Q, r.Q)  # the identity on the actions
    H = np.eye(30) - P  # = Sigma K_hat
    close(H @ H, H)
    close(H.T @ K_hat @ H, H.T @ K_hat, size)
    close(H.T @ K_hat, K_hat @ H, size)
    close(H @ r.Q, np.zeros_like(r.Q))
    close(r.Q.T @ K_hat @ H, np.zeros_like(r.Q.T), size)  # onto the K_hat-orthogonal complement
    eigenvalues = np.sort(scipy.linalg.eigh(K_hat @ C @ K_hat, K_hat, eigvals_only=True))  # those of C K_hat
    close(eigenvalues, np.repeat([0.0, 1.0], [30 - r.posterior.rank, r.posterior.rank]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_span_of_the_search_directions_is_that_of_the_given_actions(kernel):
    data, prior = make_data(25), Prior(KERNELS[kernel])
    S = np.random.default_rng(2).standard_normal((25, 8))
    posterior = condition(prior, data.X, data.y, 0.1, given(S, 3), MaxActions(8))
    assert scipy.linalg.subspace_angles(posterior.state.search_directions(), S).max() < 1e-10
    assert scipy.linalg.subspace_angles(posterior.actions, S).max() < 1e-12
    np.testing.assert_allclose(posterior.actions.T @ posterior.actions, np.eye(8), atol=1e-14)
