"""The belief contracts by one dimension per independent action: tr(Sigma_i K_hat) = n - rank(S_i) (Prop.
S4)."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, dense, given, make_data, run
from itergp import MaxActions, Prior, PseudoInput, UnitVector, condition


def contraction(posterior, K_hat):
    return np.trace((np.linalg.inv(K_hat) - posterior.state.precision()) @ K_hat)


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_trace_is_n_minus_the_number_of_independent_actions(kernel, policy):
    r = run(kernel, policy, actions=9)
    rank = np.linalg.matrix_rank(r.Q)
    assert rank == r.posterior.rank
    assert contraction(r.posterior, r.oracle.K_hat) == pytest.approx(30 - rank, abs=1e-9)


@pytest.mark.parametrize("block_size", [1, 2, 5, 12])
def test_dependent_actions_are_dropped_and_the_rank_counts(block_size):
    """12 actions of rank 6, in an order that mixes old and new directions: 6 are kept, and the posterior
    is theirs."""
    data, prior = make_data(20), Prior(KERNELS["matern32"])
    rng = np.random.default_rng(4)
    B = rng.standard_normal((20, 6))
    S = np.column_stack(
        [
            B[:, 0],
            2 * B[:, 0],
            B[:, 1],
            B[:, :2] @ [1, -3],
            B[:, 2:4],
            B[:, 3] - B[:, 1],
            B[:, 4],
            B @ np.ones(6),
        ]
    )
    S = np.column_stack([S, B[:, 5], B[:, 0], B @ rng.standard_normal(6)])
    assert np.linalg.matrix_rank(S) == 6
    posterior = condition(prior, data.X, data.y, 0.1, given(S, block_size), MaxActions(12))
    assert posterior.rank == 6
    # two dropped blocks in a row end a run
    assert posterior.state.progress.dropped == (5 if block_size == 1 else 6)
    independent = condition(prior, data.X, data.y, 0.1, given(B), MaxActions(6))
    np.testing.assert_allclose(posterior.cov(data.X_new), independent.cov(data.X_new), atol=1e-11)
    np.testing.assert_allclose(posterior.mean(data.X_new), independent.mean(data.X_new), atol=1e-11)
    K_hat = np.asarray(prior.kernel(data.X, data.X)) + 0.1 * np.eye(20)
    assert contraction(posterior, K_hat) == pytest.approx(14, abs=1e-9)


def test_duplicate_rows_give_dependent_pseudo_inputs():
    """k(X, z) is the same action for two equal inputs z, so 20 pseudo-inputs at 12 places have rank 12."""
    data, prior = make_data(20), Prior(KERNELS["matern12"])
    X = data.X[np.r_[:12, :8]]
    posterior = condition(prior, X, data.y, 0.1, PseudoInput(X, block_size=7), MaxActions(20))
    assert posterior.rank == 12
    assert posterior.state.progress.dropped == 8


def test_a_unit_vector_that_is_listed_twice_counts_once():
    data, prior = make_data(20), Prior(KERNELS["matern12"])
    posterior = condition(
        prior, data.X, data.y, 0.1, UnitVector(order=[3, 5, 3, 7, 7, 1], block_size=2), MaxActions(6)
    )
    assert posterior.rank == 4
    np.testing.assert_array_equal(np.flatnonzero(np.abs(dense(posterior.actions)).sum(axis=1)), [1, 3, 5, 7])
