"""The combined uncertainty is the worst-case error over the unit ball of the RKHS of k + sigma^2 delta,
attained (Thm. 2)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, given, run
from itergp import MaxActions, Prior, condition

# g = sum_j a_j k^sigma(., p_j) with p = (X, x): values K^sigma a, squared norm a^T K^sigma a.


def setting(kernel, policy, noise, x):
    """Q, K^sigma over (X, x), and the two posterior means at x of data g(X): the library's and the exact
    one's."""
    r = run(kernel, policy, actions=8, n=20, noise=noise)
    prior, X, Q = Prior(KERNELS[kernel]), r.data.X, r.Q
    points = np.concatenate([X, x])
    K_sigma = np.asarray(prior.kernel(points, points)) + noise * np.eye(len(points))
    k_x = K_sigma[:-1, -1]

    def approximate(g):
        return condition(prior, X, g[:-1], noise, given(Q, 8), MaxActions(8)).mean(x)[0]

    def exact_mean(g):
        return k_x @ np.linalg.solve(K_sigma[:-1, :-1], g[:-1])

    return r, K_sigma, k_x, approximate, exact_mean


def normalised(a, K_sigma):
    return a / np.sqrt(a @ K_sigma @ a)


@pytest.mark.parametrize("noise", [0.05, 0.5])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_combined_error_is_attained_by_its_maximiser(policy, noise):
    x = np.array([[0.31, -0.17]])
    r, K_sigma, k_x, approximate, _ = setting("matern32", policy, noise, x)
    g = K_sigma @ normalised(np.append(-r.C @ k_x, 1.0), K_sigma)
    bound = np.sqrt(r.posterior.var(x)[0] + noise)
    assert g[-1] - approximate(g) == pytest.approx(bound, rel=1e-10)
    assert r.posterior.worst_case_error(x)[0] == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_computational_error_is_attained_by_its_maximiser(kernel):
    x = np.array([[0.31, -0.17]])
    r, K_sigma, k_x, approximate, exact_mean = setting(kernel, "pseudo-input", 0.05, x)
    Sigma = np.linalg.inv(K_sigma[:-1, :-1]) - r.C
    g = K_sigma @ normalised(np.append(Sigma @ k_x, 0.0), K_sigma)
    computational = r.posterior.decompose(x).computational[0]
    assert computational > 1e-8
    # the variance is a difference of numbers of order k0, so its root is known to about 1e-13 / sqrt(1e-8)
    assert exact_mean(g) - approximate(g) == pytest.approx(np.sqrt(computational), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_function_of_unit_norm_exceeds_the_bounds(policy):
    x = np.array([[0.05, 0.6]])
    r, K_sigma, k_x, approximate, exact_mean = setting("matern52", policy, 0.05, x)
    combined = np.sqrt(r.posterior.var(x)[0] + 0.05)
    computational = np.sqrt(r.posterior.decompose(x).computational[0])
    Sigma = np.linalg.inv(K_sigma[:-1, :-1]) - r.C
    best, other = np.append(-r.C @ k_x, 1.0), np.append(Sigma @ k_x, 0.0)
    rng = np.random.default_rng(7)
    for i in range(12):  # from far away to close to the two maximisers
        a = normalised((best if i % 2 else other) * (i // 2) / 2 + rng.standard_normal(21) / (1 + i), K_sigma)
        g = K_sigma @ a
        assert abs(g[-1] - approximate(g)) <= combined + 1e-12
        assert abs(exact_mean(g) - approximate(g)) <= computational + 1e-12


# its preconditioner is made of noise
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "schedule"])
def test_without_noise_it_holds_at_training_inputs_too(policy):
    """sigma^2 = 0 and x in X: the maximiser lies in the span of k(., X) alone."""
    r = run("matern12", policy, actions=8, n=20, noise=0.0)
    prior, X, K, C, Q = Prior(KERNELS["matern12"]), r.data.X, r.oracle.K, r.C, r.Q
    for row in range(0, 20, 3):
        a = -C @ K[:, row]
        a[row] += 1.0
        left = a @ K @ a  # k_i(x, x), which is zero where x has been acted on
        variance = r.posterior.var(X[[row]])[0]
        assert variance == pytest.approx(left, abs=1e-12)
        if left < 1e-12:
            continue
        g = K @ a / np.sqrt(left)
        mean = condition(prior, X, g, 0.0, given(Q, 8), MaxActions(8)).mean(X[[row]])[0]
        assert g[row] - mean == pytest.approx(np.sqrt(variance), rel=1e-9)
