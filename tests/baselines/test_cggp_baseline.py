"""CGGP against SciPy's conjugate gradients and a Krylov space built by QR; and what it shares with
IterGP-CG."""

import numpy as np
import pytest
import scipy.sparse.linalg

from helpers import KERNELS, exact, make_data, row_noise
from itergp import Compute, ConjugateGradient, InputError, LinearMean, MaxActions, Prior, baselines, condition
from itergp.baselines.cggp import tridiagonal_cholesky
from itergp.testing import check_gp

MEAN = LinearMean([0.3, -0.2], 0.1)
N_ROWS = 60
# iterations in which textbook CG loses a few digits only, here; beyond, each run has its own rounding
WHILE_ORTHOGONAL = 6


def dense_problem(kernel, noise=0.05):
    data = make_data(N_ROWS)
    prior = Prior(KERNELS[kernel], MEAN)
    return data, prior, exact(prior, data.X, data.y, noise, data.X_new)


def scipy_iterates(K_hat, b, iterations):
    found = []
    scipy.sparse.linalg.cg(
        K_hat, b, rtol=0.0, atol=0.0, maxiter=iterations, callback=lambda x: found.append(x.copy())
    )
    return found


def krylov_basis(K_hat, start, size):
    """An orthonormal basis of span{start, K_hat start, ...}, by a Householder QR of the basis so far and
    one product more."""
    Q = start[:, None] / np.linalg.norm(start)
    while Q.shape[1] < size:
        Q = np.linalg.qr(np.column_stack([Q, K_hat @ Q[:, -1]]))[0]
    return Q


def love(oracle, prior, start, size, X_new):
    """k - k_x^T Q (Q^T K_hat Q)^{-1} Q^T k_x."""
    Q = krylov_basis(oracle.K_hat, start, size)
    return prior.kernel(X_new, X_new) - oracle.k_new.T @ Q @ np.linalg.solve(
        Q.T @ oracle.K_hat @ Q, Q.T @ oracle.k_new
    )


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "sum", "linear-plus-constant"])
@pytest.mark.parametrize("noise", [0.05, row_noise(N_ROWS)], ids=["one noise", "a noise per row"])
def test_the_means_are_those_of_scipys_iterates(kernel, noise):
    data, prior, oracle = dense_problem(kernel, noise)
    path = baselines.cggp(prior, data.X, data.y, noise, WHILE_ORTHOGONAL).path(data.X_new)
    iterates = scipy_iterates(oracle.K_hat, oracle.b, WHILE_ORTHOGONAL)
    np.testing.assert_array_equal(path.mean[0], MEAN(data.X_new))
    for i in range(1, WHILE_ORTHOGONAL + 1):
        np.testing.assert_allclose(
            path.mean[i], MEAN(data.X_new) + oracle.k_new.T @ iterates[i - 1], rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "sum", "linear-plus-constant"])
def test_the_covariance_is_that_of_the_probes_krylov_space(kernel):
    data, prior, oracle = dense_problem(kernel)
    probe = np.random.default_rng(4).standard_normal(N_ROWS)
    gp = baselines.cggp(prior, data.X, data.y, 0.05, 10, probe=probe)
    cov = love(oracle, prior, probe, 10, data.X_new)
    np.testing.assert_allclose(gp.cov(data.X_new), cov, atol=1e-9)
    np.testing.assert_allclose(gp.var(data.X_new), np.diag(cov), atol=1e-9)
    np.testing.assert_allclose(gp.Q.T @ gp.Q, np.eye(10), atol=1e-12)
    T = gp.Q.T @ oracle.K_hat @ gp.Q
    L = np.diag(gp.diagonal) + np.diag(gp.below, -1)
    np.testing.assert_allclose(L @ L.T, T, atol=1e-10 * np.abs(T).max())


def test_its_residuals_are_orthogonal_for_a_while_and_then_no_longer_as_scipys():
    data, prior, oracle = dense_problem("matern32")
    gp = baselines.cggp(prior, data.X, data.y, 0.05, 30)
    for iterates in (np.cumsum(gp.steps[:, :, 0], axis=0), scipy_iterates(oracle.K_hat, oracle.b, 30)):
        residuals = [oracle.b - oracle.K_hat @ v for v in iterates]
        cosines = [abs(oracle.b @ r) / np.linalg.norm(r) / np.linalg.norm(oracle.b) for r in residuals]
        assert max(cosines[:WHILE_ORTHOGONAL]) < 1e-12
        assert max(cosines) > 1e-4


def test_a_path_is_what_shorter_runs_give():
    data, prior, _ = dense_problem("matern32")
    path = baselines.cggp(prior, data.X, data.y, 0.05, 15, seed=3).path(data.X_new, [7, 15, 0, 1])
    np.testing.assert_array_equal(path.ranks, [7, 15, 0, 1])
    for i, mean, var in zip(path.ranks, path.mean, path.var, strict=True):
        if i:
            shorter = baselines.cggp(prior, data.X, data.y, 0.05, int(i), seed=3)
            np.testing.assert_allclose(mean, shorter.mean(data.X_new), rtol=1e-10)
            np.testing.assert_allclose(var, shorter.var(data.X_new), rtol=1e-10)
    np.testing.assert_array_equal(path.var[2], prior.var(data.X_new))


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32"])
def test_from_the_targets_it_is_itergp_cg_at_twice_the_passes(kernel):
    data, prior, oracle = dense_problem(kernel)
    gp = baselines.cggp(prior, data.X, data.y, 0.05, WHILE_ORTHOGONAL, probe=oracle.b)
    posterior = condition(prior, data.X, data.y, 0.05, ConjugateGradient(), MaxActions(WHILE_ORTHOGONAL))
    np.testing.assert_allclose(gp.mean(data.X_new), posterior.mean(data.X_new), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(gp.var(data.X_new), posterior.var(data.X_new), rtol=1e-8, atol=1e-9)
    assert gp.passes == 2 * WHILE_ORTHOGONAL
    assert posterior.problem.gram.passes == WHILE_ORTHOGONAL


def test_from_a_random_probe_it_has_the_mean_of_itergp_cg_and_another_variance():
    data, prior, oracle = dense_problem("matern32")
    gp = baselines.cggp(prior, data.X, data.y, 0.05, 12, seed=1)
    again, other = (baselines.cggp(prior, data.X, data.y, 0.05, 12, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(gp.var(data.X_new), again.var(data.X_new))
    assert np.abs(gp.var(data.X_new) - other.var(data.X_new)).max() > 1e-3
    np.testing.assert_array_equal(gp.mean(data.X_new), other.mean(data.X_new))
    assert (gp.var(data.X_new) >= oracle.var - 1e-10).all()
    assert gp.passes == 24


def test_it_ends_at_the_exact_gp():
    data, prior, oracle = dense_problem("matern32", 0.5)
    gp = baselines.cggp(prior, data.X, data.y, 0.5, 3 * N_ROWS)
    np.testing.assert_allclose(gp.mean(data.X_new), oracle.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(gp.var(data.X_new), oracle.var, rtol=1e-8)
    assert gp.rank == N_ROWS
    path = gp.path(data.X_new)
    assert (np.diff(path.var, axis=0) <= 0).all()


def test_lanczos_ends_where_its_space_does():
    """An eigenvector spans a Krylov space of its own: one product finds that out, and the variance has
    rank 1."""
    data, prior, oracle = dense_problem("matern32")
    values, vectors = np.linalg.eigh(oracle.K)
    gp = baselines.cggp(prior, data.X, data.y, 0.05, 9, probe=vectors[:, -1])
    assert gp.rank == 1
    assert gp.passes == 9 + 1
    expected = prior.var(data.X_new) - (oracle.k_new.T @ vectors[:, -1]) ** 2 / (values[-1] + 0.05)
    np.testing.assert_allclose(gp.var(data.X_new), expected, atol=1e-10)
    np.testing.assert_array_equal(gp.path(data.X_new).var[1], gp.path(data.X_new).var[9])


def test_the_factor_of_t_ends_where_t_is_indefinite_by_rounding():
    alpha, beta = np.array([2.0, 3.0, 0.1, 5.0]), np.array([1.0, 1.0, 1.0])
    diagonal, below = tridiagonal_cholesky(alpha, beta)
    L = np.diag(diagonal) + np.diag(below, -1)
    np.testing.assert_allclose(L @ L.T, [[2.0, 1.0], [1.0, 3.0]], rtol=1e-15)


def test_targets_that_the_prior_explains_need_no_passes_for_the_mean():
    data, prior, _ = dense_problem("matern32")
    gp = baselines.cggp(prior, data.X, MEAN(data.X), 0.05, 5)
    np.testing.assert_array_equal(gp.mean(data.X_new), MEAN(data.X_new))
    assert gp.passes == 5
    assert gp.path(data.X_new).mean.shape == (6, 12)


def test_several_targets_are_solved_together_to_what_each_gives_alone():
    data, prior = make_data(N_ROWS, targets=2), Prior(KERNELS["matern32"], MEAN)
    gp = baselines.cggp(prior, data.X, data.y, 0.05, WHILE_ORTHOGONAL)
    path = gp.path(data.X_new)
    assert gp.passes == 2 * WHILE_ORTHOGONAL
    for j in range(2):
        alone = baselines.cggp(prior, data.X, data.y[:, j], 0.05, WHILE_ORTHOGONAL)
        np.testing.assert_allclose(gp.mean(data.X_new)[:, j], alone.mean(data.X_new), rtol=1e-9)
        np.testing.assert_allclose(path.mean[:, :, j], alone.path(data.X_new).mean, rtol=1e-9)
        np.testing.assert_array_equal(gp.var(data.X_new), alone.var(data.X_new))


def test_float32_tiles_err_by_float32():
    data, prior, _ = dense_problem("matern32")
    double, single = (
        baselines.cggp(prior, data.X, data.y, 0.05, 5, compute=Compute(dtype=dtype))
        for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(single.mean(data.X_new), double.mean(data.X_new), atol=1e-4)
    np.testing.assert_allclose(single.var(data.X_new), double.var(data.X_new), atol=1e-4)
    assert not np.array_equal(single.var(data.X_new), double.var(data.X_new))


def test_it_is_a_gaussian_process():
    data, prior, _ = dense_problem("matern52")
    check_gp(baselines.cggp(prior, data.X, data.y, 0.05, 8))


def test_bad_input_is_named():
    data, prior, _ = dense_problem("rbf")
    for wrong in (0, 2.5, None):
        with pytest.raises(InputError, match="iterations is"):
            baselines.cggp(prior, data.X, data.y, 0.05, wrong)
    for wrong in (np.ones(7), np.zeros(N_ROWS)):
        with pytest.raises(InputError, match="probe has shape"):
            baselines.cggp(prior, data.X, data.y, 0.05, 5, probe=wrong)
    with pytest.raises(InputError, match="probe has 1 entries that are not finite"):
        baselines.cggp(prior, data.X, data.y, 0.05, 5, probe=np.r_[np.ones(N_ROWS - 1), np.nan])
    gp = baselines.cggp(prior, data.X, data.y, 0.05, 5)
    for wrong in ([6], [-1], [1.5], 3):
        with pytest.raises(InputError, match="iterations is"):
            gp.path(data.X_new, wrong)
    with pytest.raises(InputError, match="has 3 features; expected 2"):
        gp.mean(np.zeros((4, 3)))
