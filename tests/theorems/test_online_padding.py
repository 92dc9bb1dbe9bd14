"""More data without more actions changes no prediction: actions are padded with zeros (Thm. S7)."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, POLICIES, dense, exact, given, make_data, row_noise
from itergp import LinearMean, MaxActions, Prior, condition

n, more = 24, 13


def two_parts(kernel, policy, noise, actions=8):
    data, prior = make_data(n + more), Prior(KERNELS[kernel], LinearMean([0.4, 0.1]))
    noise = np.broadcast_to(noise, n + more) if np.ndim(noise) else noise
    first, rest = (noise[:n], noise[n:]) if np.ndim(noise) else (noise, None)
    posterior = condition(prior, data.X[:n], data.y[:n], first, POLICIES[policy](), MaxActions(actions))
    return data, prior, posterior, posterior.extend(data.X[n:], data.y[n:], rest, policy=False)


@pytest.mark.parametrize("noise", [0.05, row_noise(n + more)], ids=["scalar", "per-row"])
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_appended_rows_change_no_bit_of_a_prediction(kernel, policy, noise):
    data, _, posterior, extended = two_parts(kernel, policy, noise)
    assert extended.problem.n == n + more
    assert extended.rank == posterior.rank
    np.testing.assert_array_equal(extended.mean(data.X_new), posterior.mean(data.X_new))
    np.testing.assert_array_equal(extended.var(data.X_new), posterior.var(data.X_new))
    np.testing.assert_array_equal(extended.cov(data.X_new), posterior.cov(data.X_new))


@pytest.mark.parametrize("noise", [0.05, row_noise(n + more)], ids=["scalar", "per-row"])
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_it_is_the_run_on_all_data_with_padded_actions(kernel, policy, noise):
    data, prior, posterior, extended = two_parts(kernel, policy, noise)
    padded = np.concatenate([dense(posterior.actions), np.zeros((more, posterior.rank))])
    np.testing.assert_array_equal(dense(extended.actions), padded)
    whole = condition(prior, data.X, data.y, noise, given(padded, 3), MaxActions(posterior.rank))
    np.testing.assert_allclose(extended.mean(data.X_new), whole.mean(data.X_new), atol=1e-11)
    np.testing.assert_allclose(extended.cov(data.X_new), whole.cov(data.X_new), atol=1e-11)
    one, other = extended.state, whole.state
    weights = exact(prior, data.X, data.y, noise, data.X_new).v  # their scale; adversarial ones stay at zero
    np.testing.assert_allclose(
        one.representer_weights, other.representer_weights, atol=1e-11 * np.abs(weights).max()
    )
    np.testing.assert_allclose(one.residual, other.residual, atol=1e-10)
    np.testing.assert_allclose(one.training_variance, other.training_variance, atol=1e-11)
    assert one.elbo == pytest.approx(other.elbo, rel=1e-10)


# Lists end, and adversarial actions for more data mostly lie in the span of those for less.
@pytest.mark.parametrize(
    "policy", [name for name in POLICIES if name not in ("unit-listed", "sparse-block", "adversarial")]
)
def test_a_run_that_goes_on_after_more_data_ends_at_the_exact_gp(policy):
    """Nothing is lost: a full run after `extend` is exact on all data."""
    data, prior, _, extended = two_parts("matern32", policy, 0.05)
    end = extended.refine(POLICIES[policy](), MaxActions(n + more))
    whole = condition(prior, data.X, data.y, 0.05)
    assert end.rank == n + more
    np.testing.assert_allclose(end.mean(data.X_new), whole.mean(data.X_new), atol=1e-9)
    np.testing.assert_allclose(end.cov(data.X_new), whole.cov(data.X_new), atol=1e-9)
