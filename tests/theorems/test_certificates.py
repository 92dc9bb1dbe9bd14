"""Certificates hold: the exact variance and the exact mean lie inside, without having been computed."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data, row_noise, run
from itergp import Compute, ConstantMean, MaxActions, Prior, condition

NOISES = {"scalar": 0.05, "per-row": row_noise(30), "little": 1e-4}


def check(certificate, mean, oracle, slack=0.0):
    """The oracle itself is known to about u cond(K_hat) k0, which is `slack`."""
    assert (certificate.variance_lower <= oracle.var + slack).all()
    assert (oracle.var <= certificate.variance_upper + slack).all()
    error = np.abs(oracle.mean - mean)
    error = error.max(axis=1) if error.ndim == 2 else error
    assert (error <= certificate.mean_error + slack).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_exact_values_lie_inside(kernel, policy, noise):
    for actions in (0, 3, 12, 30):
        r = run(kernel, policy, actions=actions, noise=NOISES[noise])
        X, slack = r.data.X_new, 1e-15 * np.linalg.cond(r.oracle.K_hat)
        check(r.posterior.certify(X), r.posterior.mean(X), r.oracle, slack)
        local = r.posterior.local(5)
        check(local.certify(X), local.mean(X), r.oracle, slack)


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_they_are_the_formulas_of_the_errata(kernel, policy):
    """k_i - e^T N^{-1} e and |N^{-1/2} e| |N^{-1/2} r|, up to the rounding terms, which are below 1e-9
    here."""
    noise = row_noise(30)
    r = run(kernel, policy, noise=noise)
    X, k = r.data.X_new, r.oracle.k_new
    e = k - r.oracle.K_hat @ r.C @ k
    residual = r.oracle.b - r.oracle.K_hat @ r.C @ r.oracle.b
    certificate = r.posterior.certify(X)
    lower = r.posterior.var(X) - (e**2 / noise[:, None]).sum(axis=0)
    # elsewhere the floor of the variance is the better bound
    kept = lower > np.diag(r.prior.cov(X)).max() * 1e-2
    np.testing.assert_allclose(certificate.variance_lower[kept], lower[kept], atol=1e-9)
    assert (certificate.variance_lower > 0).all()
    mean_error = np.sqrt((e**2 / noise[:, None]).sum(axis=0)) * np.sqrt((residual**2 / noise).sum())
    np.testing.assert_allclose(certificate.mean_error, mean_error, atol=1e-9)


@pytest.mark.parametrize("policy", ["cg", "unit-pivoted", "block-krylov", "random"])
def test_they_close_as_the_computation_ends(policy):
    widths, errors = [], []
    for actions in (4, 16, 24, 30):
        r = run("matern32", policy, actions=actions)
        certificate = r.posterior.certify(r.data.X_new)
        widths.append((certificate.variance_upper - certificate.variance_lower).max())
        errors.append(certificate.mean_error.max())
    assert widths[-1] < 1e-9
    assert errors[-1] < 1e-9
    assert errors[0] > errors[2] > errors[3]


@pytest.mark.parametrize(
    "policy", ["cg", "pseudo-input", "block-krylov", "random", "eigenvector", "schedule", "callable"]
)
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "sum", "linear-plus-constant"])
def test_they_count_the_rounding_of_float32_products(kernel, policy):
    """Products in float32 with little noise: the bounds must hold for the exact GP in float64, by their
    tau terms."""
    data, prior, noise = make_data(60), Prior(KERNELS[kernel]), 1e-3
    oracle = exact(prior, data.X, data.y, noise, data.X_new)
    for actions in (5, 20, 60):
        compute = Compute(dtype="float32")
        posterior = condition(prior, data.X, data.y, noise, POLICIES[policy](), MaxActions(actions), compute)
        check(
            posterior.certify(data.X_new),
            posterior.mean(data.X_new),
            oracle,
            1e-15 * np.linalg.cond(oracle.K_hat),
        )


@pytest.mark.parametrize("method", ["certificate", "estimate"])
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_bounds_on_the_computational_part_hold_the_true_one(kernel, policy, method):
    r = run(kernel, policy, actions=6)
    X = r.data.X_new
    for posterior in (r.posterior, r.posterior.local(4)):
        parts = posterior.decompose(X, method)
        true = posterior.var(X) - r.oracle.var
        assert not parts.exact
        assert (parts.computational_lower <= true + 1e-10).all()
        assert (true <= parts.computational_upper + 1e-10).all()
        np.testing.assert_allclose(parts.mathematical + parts.computational, parts.combined, rtol=1e-14)


def test_several_targets_share_one_mean_error():
    data, prior = make_data(30, targets=3), Prior(KERNELS["matern32"], ConstantMean([0.1, 0.2, 0.3]))
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["pseudo-input"](), MaxActions(8))
    check(
        posterior.certify(data.X_new),
        posterior.mean(data.X_new),
        exact(prior, data.X, data.y, 0.05, data.X_new),
        1e-12,
    )


def test_the_share_of_the_computational_part_is_estimated_within_its_error():
    """Within four standard errors over 200 probes plus the stated bias; and less computation only lowers
    the estimate."""
    r = run("matern32", "unit-sequential", actions=8)
    X = r.data.X_new
    true = (r.posterior.var(X) - r.oracle.var).sum() / r.posterior.var(X).sum()
    share, few = r.posterior.computational_share(X, 200, 30), r.posterior.computational_share(X, 200, 2)
    assert abs(share.estimate - true) <= 4 * share.error + share.bias_bound + 1e-9
    assert share.error < 0.2 * true
    assert few.estimate <= share.estimate + 1e-9  # the same probes, less solved
    assert true <= few.estimate + few.bias_bound + 4 * share.error
