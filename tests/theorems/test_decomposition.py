"""Combined = mathematical + computational uncertainty (Eq. 6), and the combined posterior is unique (Sec.
3.4)."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, PAIRS, POLICIES, exact, given, make_data, row_noise, run
from itergp import MaxActions, Prior, condition

NOISES = {"scalar": 0.05, "per-row": row_noise(30)}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_the_parts_are_those_of_equation_6(kernel, policy, noise):
    r = run(kernel, policy, noise=NOISES[noise])
    X, k = r.data.X_new, r.oracle.k_new
    parts = r.posterior.decompose(X)
    Sigma = np.linalg.inv(r.oracle.K_hat) - r.C
    assert parts.exact
    np.testing.assert_array_equal(parts.combined, r.posterior.var(X))
    np.testing.assert_allclose(parts.mathematical, r.oracle.var, atol=1e-10)
    np.testing.assert_allclose(parts.computational, np.einsum("ij,ik,kj->j", k, Sigma, k), atol=1e-10)
    np.testing.assert_allclose(parts.mathematical + parts.computational, parts.combined, rtol=1e-15)
    assert (parts.computational >= 0).all()
    assert (parts.mathematical >= 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_whole_covariance_splits(policy):
    r = run("matern52", policy)
    k = r.oracle.k_new
    computational = k.T @ (np.linalg.inv(r.oracle.K_hat) - r.C) @ k
    np.testing.assert_allclose(r.posterior.cov(r.data.X_new), r.oracle.cov + computational, atol=1e-10)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("unit-listed", "sparse-block")])
def test_computation_takes_away_the_computational_part_only(policy):
    r = run("matern32", policy, actions=30)
    start, end = (
        run("matern32", policy, actions=0).posterior.decompose(r.data.X_new),
        r.posterior.decompose(r.data.X_new),
    )
    assert r.posterior.rank == 30
    np.testing.assert_allclose(start.mathematical, end.mathematical, atol=1e-10)
    np.testing.assert_array_equal(end.computational, 0.0)
    assert start.computational.max() > 0.1


@pytest.mark.parametrize("kernel", KERNELS)
def test_far_from_the_data_there_is_nothing_to_compute(kernel):
    """Where k(x, X) = 0 the computational part is zero and the prior is exact; stationary kernels only."""
    r = run(kernel, "cg", actions=3)
    far = np.array([[60.0, 60.0]])
    k = np.asarray(r.prior.kernel(r.data.X, far))[:, 0]
    parts = r.posterior.decompose(far)
    bound = k @ k / 0.05  # k_comp <= |k_x|^2 / sigma^2
    assert parts.computational[0] <= bound + 1e-12 * parts.combined[0]


@pytest.mark.parametrize("kernel", ["matern12", "rbf", "product"])
@pytest.mark.parametrize("rank", [1, 5, 12])
def test_any_conjugate_projection_is_an_instance(kernel, rank):
    """Take any K_hat-orthogonal projection P. The precision P K_hat^{-1} is ours for actions that span its
    range."""
    data, prior = make_data(20), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    root = scipy.linalg.sqrtm(oracle.K_hat).real
    V = np.linalg.qr(np.random.default_rng(rank).standard_normal((20, rank)))[0]
    P = np.linalg.solve(root, V @ V.T @ root)
    np.testing.assert_allclose(P @ P, P, atol=1e-10)
    actions = np.linalg.svd(P)[0][:, :rank]  # its range, in a basis that knows nothing of K_hat
    posterior = condition(prior, data.X, data.y, 0.05, given(actions, 2), MaxActions(rank))
    precision = P @ np.linalg.inv(oracle.K_hat)
    np.testing.assert_allclose(posterior.state.precision(), precision, atol=1e-9 * np.abs(precision).max())
    np.testing.assert_allclose(posterior.mean(data.X_new), oracle.k_new.T @ precision @ oracle.b, atol=1e-9)
    expected = prior.var(data.X_new) - np.einsum("ij,ik,kj->j", oracle.k_new, precision, oracle.k_new)
    np.testing.assert_allclose(posterior.var(data.X_new), expected, atol=1e-9)


def test_the_basis_of_the_actions_does_not_matter():
    data, prior, rng = make_data(20), Prior(KERNELS["matern32"]), np.random.default_rng(0)
    S, mix = rng.standard_normal((20, 6)), rng.standard_normal((6, 6))
    one, two = (condition(prior, data.X, data.y, 0.05, given(A), MaxActions(6)) for A in (S, S @ mix))
    np.testing.assert_allclose(one.cov(data.X_new), two.cov(data.X_new), atol=1e-11)
    np.testing.assert_allclose(one.mean(data.X_new), two.mean(data.X_new), atol=1e-11)
    assert one.state.elbo == pytest.approx(two.state.elbo, rel=1e-11)
