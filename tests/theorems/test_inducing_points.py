"""Pseudo-input actions beside Nystrom, SoR, DTC and SVGP: their means (Eqs. 7, 8, Thm. S6)."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from helpers import KERNELS, exact, given, make_data
from itergp import Kernel, LinearMean, MaxActions, Prior, PseudoInput, condition

n, m, NOISE = 30, 6, 0.1
MEAN = LinearMean([0.3, -0.5], 0.2)


def matrices(kernel, Z):
    data = make_data(n)
    k = lambda A, B: np.asarray(kernel(A, B))  # noqa: E731
    return data, k(data.X, data.X), k(data.X, Z), k(Z, Z), k(data.X_new, data.X), k(data.X_new, Z)


def well_spread_points(m):
    """Far apart, so that K_ZZ is well conditioned and both formulas can be evaluated as they stand."""
    angle = 2 * np.pi * np.arange(m) / m + 0.3
    return np.column_stack([0.8 * np.cos(angle), 0.7 * np.sin(angle)]) + 0.05


def svgp_mean(data, K_XZ, K_ZZ, k_Z):
    """k(., Z) (K_ZX K_XZ + sigma^2 K_ZZ)^{-1} K_ZX (y - mu)"""
    b = data.y - MEAN(data.X)
    return MEAN(data.X_new) + k_Z @ np.linalg.solve(K_XZ.T @ K_XZ + NOISE * K_ZZ, K_XZ.T @ b)


@dataclass(frozen=True, eq=False)
class Nystrom(Kernel):
    """q(x, x') = k(x, Z) K_ZZ^{-1} k(Z, x')"""

    kernel: Kernel
    Z: np.ndarray = field(metadata={"static": True}, default=None)

    def __call__(self, X0, X1):
        return self.kernel(X0, self.Z) @ np.linalg.solve(self.kernel(self.Z, self.Z), self.kernel(self.Z, X1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_two_formulas_of_the_svgp_mean_agree(kernel):
    Z = well_spread_points(m)
    data, _, K_XZ, K_ZZ, _, k_Z = matrices(KERNELS[kernel], Z)
    A = np.linalg.solve(K_ZZ, K_XZ.T)
    Q_XX, q_X = K_XZ @ A, k_Z @ A
    second = (
        q_X
        @ K_XZ
        @ np.linalg.solve(K_XZ.T @ (Q_XX + NOISE * np.eye(n)) @ K_XZ, K_XZ.T @ (data.y - MEAN(data.X)))
    )
    first = svgp_mean(data, K_XZ, K_ZZ, k_Z)
    tolerance = 1e-14 * np.linalg.cond(K_XZ.T @ (Q_XX + NOISE * np.eye(n)) @ K_XZ)
    assert tolerance < 1e-6
    np.testing.assert_allclose(MEAN(data.X_new) + second, first, atol=max(tolerance, 1e-12))


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "sum", "product"])
def test_the_svgp_mean_is_that_of_this_method_with_the_kernel_q(kernel):
    """Eq. 7 is Eq. 8 with q in place of k: so q as the prior's kernel and the same actions give SVGP's
    mean."""
    Z = well_spread_points(m)
    data, _, K_XZ, K_ZZ, _, k_Z = matrices(KERNELS[kernel], Z)
    prior = Prior(Nystrom(KERNELS[kernel], Z), MEAN)
    posterior = condition(prior, data.X, data.y, NOISE, given(K_XZ, m), MaxActions(m))
    expected = svgp_mean(data, K_XZ, K_ZZ, k_Z)
    np.testing.assert_allclose(posterior.mean(data.X_new), expected, atol=1e-9)
    whole = condition(prior, data.X, data.y, NOISE)  # and these m actions say all there is to say about q
    np.testing.assert_allclose(whole.mean(data.X_new), expected, atol=1e-9)
    np.testing.assert_allclose(whole.var(data.X_new), posterior.var(data.X_new), atol=1e-9)


@pytest.mark.parametrize("block_size", [1, 4, 64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_pseudo_input_actions_give_equation_8(kernel, block_size):
    """k(., X) K_XZ (K_ZX K_hat K_XZ)^{-1} K_ZX b, evaluated in an orthonormal basis of K_XZ to stay
    accurate."""
    Z = well_spread_points(m)
    data, K, K_XZ, _, k_X, _ = matrices(KERNELS[kernel], Z)
    K_hat, b = K + NOISE * np.eye(n), data.y - MEAN(data.X)
    posterior = condition(
        Prior(KERNELS[kernel], MEAN), data.X, data.y, NOISE, PseudoInput(Z, block_size), MaxActions(m)
    )
    assert posterior.rank == m
    U = np.linalg.qr(K_XZ)[0]
    mean = MEAN(data.X_new) + k_X @ U @ np.linalg.solve(U.T @ K_hat @ U, U.T @ b)
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-9)
    raw = MEAN(data.X_new) + k_X @ K_XZ @ np.linalg.solve(K_XZ.T @ K_hat @ K_XZ, K_XZ.T @ b)  # as printed
    np.testing.assert_allclose(
        posterior.mean(data.X_new), raw, atol=1e-14 * np.linalg.cond(K_XZ.T @ K_hat @ K_XZ) + 1e-11
    )


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "sum", "product"])
def test_inducing_points_at_the_training_inputs_give_the_exact_gp(kernel):
    """For both means; these kernels have K well enough conditioned for the span of K to be all of R^n."""
    data, prior = make_data(n), Prior(KERNELS[kernel], MEAN)
    oracle = exact(prior, data.X, data.y, NOISE, data.X_new)
    posterior = condition(prior, data.X, data.y, NOISE, PseudoInput(data.X), MaxActions(n))
    assert posterior.rank == n
    np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(posterior.cov(data.X_new), oracle.cov, atol=1e-9)
    svgp = svgp_mean(data, oracle.K, oracle.K, oracle.k_new.T)
    # K K + sigma^2 K has the squared condition number
    np.testing.assert_allclose(svgp, oracle.mean, atol=1e-7)


def test_fewer_inducing_points_do_not_give_the_exact_gp():
    data, prior = make_data(n), Prior(KERNELS["matern32"], MEAN)
    oracle = exact(prior, data.X, data.y, NOISE, data.X_new)
    posterior = condition(prior, data.X, data.y, NOISE, PseudoInput(well_spread_points(m)), MaxActions(m))
    assert np.abs(posterior.mean(data.X_new) - oracle.mean).max() > 1e-2
    assert (posterior.var(data.X_new) > oracle.var).all()
