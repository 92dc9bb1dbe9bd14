"""The computation-aware ELBO is a lower bound on the log marginal likelihood, with equality at rank n."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data, row_noise, run
from itergp import Matern12, MaxActions, Prior, UnitVector, condition

NOISES = {"scalar": 0.05, "per-row": row_noise(30)}


def elbo(oracle, C, N):
    """E_q log N(y; f, N) - KL(q || p) with q = N(K C b, K - K C K) and p = N(0, K), for f - mu at the
    training inputs."""
    K, b, n = oracle.K, oracle.b, len(oracle.b)
    m, S = K @ C @ b, K - K @ C @ K
    expected = -0.5 * np.sum(np.log(2 * np.pi * N) + ((b - m) ** 2 + np.diag(S)) / N)
    logdet = lambda A: np.linalg.slogdet(A)[1]  # noqa: E731
    factor = scipy.linalg.cho_factor(K)
    solve = lambda B: scipy.linalg.cho_solve(factor, B)  # noqa: E731
    divergence = 0.5 * (np.trace(solve(S)) - n + m @ solve(m) + logdet(K) - logdet(S))
    return expected - divergence


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", ["matern12", "matern32", "product"])
@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_expected_log_likelihood_minus_divergence(kernel, policy, noise):
    """From the definition; the oracle needs K^{-1}, so kernels with cond(K) < 1e6, hence 1e-9."""
    r = run(kernel, policy, noise=NOISES[noise])
    assert np.linalg.cond(r.oracle.K) < 1e6
    expected = elbo(r.oracle, r.C, np.broadcast_to(NOISES[noise], 30))
    assert r.posterior.state.elbo == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_it_never_exceeds_the_log_marginal_likelihood_and_equals_it_at_the_end(kernel, policy, noise):
    r = run(kernel, policy, actions=30, noise=NOISES[noise])
    likelihood = r.oracle.log_likelihood
    values = np.array([step.elbo for step in r.posterior.trace])
    assert (values <= likelihood + 1e-8 * abs(likelihood)).all()
    if r.posterior.rank == 30:
        assert values[-1] == pytest.approx(likelihood, rel=1e-8)
    elif policy in ("unit-listed", "sparse-block"):  # few actions: far from the end
        assert values[-1] < likelihood - 1.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_rises_with_every_eigenvector(kernel):
    """With scalar noise the eigenvectors of K_hat separate the bound: each action removes one term >= 0 of
    the gap."""
    data, prior = make_data(30), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["eigenvector"](), MaxActions(30))
    values = np.array([step.elbo for step in posterior.trace])
    assert (np.diff(values) >= -1e-9 * np.abs(values[0])).all()
    eigenvalues, U = np.linalg.eigh(oracle.K_hat)
    eigenvalues, a = eigenvalues[::-1], (U.T @ oracle.b)[::-1] ** 2
    ratio = (eigenvalues - 0.05).clip(0) / 0.05
    # KL of prior from posterior along each eigenvector
    gap = 0.5 * (ratio - np.log1p(ratio) + ratio * a / eigenvalues)
    ranks = [step.actions for step in posterior.trace]
    np.testing.assert_allclose(
        oracle.log_likelihood - values, [gap[i:].sum() for i in ranks], atol=1e-9 * gap.sum()
    )


@pytest.mark.parametrize("policy", ["cg", "block-krylov", "pseudo-input"])
def test_its_gap_closes_along_the_trace(policy):
    r = run("matern32", policy, actions=30)
    gaps = r.oracle.log_likelihood - np.array([step.elbo for step in r.posterior.trace])
    energies = np.array([step.energy for step in r.posterior.trace])
    assert (np.diff(energies) >= 0).all()  # this one always rises
    assert gaps[-1] < 1e-6 < 1e-2 * gaps[0]


def test_it_may_fall_where_an_action_sees_an_outlier_alone():
    """Not every action raises the bound: a datum that contradicts the others moves the belief away first."""
    X, y = np.linspace(0, 1, 12)[:, None], np.zeros(12)
    y[5] = 30.0
    prior = Prior(Matern12(lengthscale=2.0))
    policy = UnitVector(order=[5, *range(5), *range(6, 12)])
    values = [condition(prior, X, y, 0.05, policy, MaxActions(i)).state.elbo for i in range(13)]
    assert values[1] < values[0]
    assert values[12] == pytest.approx(exact(prior, X, y, 0.05, X).log_likelihood, rel=1e-10)
    assert max(values) <= values[12] + 1e-9
