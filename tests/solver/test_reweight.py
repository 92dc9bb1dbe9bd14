"""Other noise and targets on the same rows: the state that the same actions would have led to, without a
pass over K."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, dense, given, make_data, row_noise
from itergp import (
    Compute,
    InputError,
    LinearMean,
    MaxActions,
    Posterior,
    Prior,
    Problem,
    Status,
    condition,
    solve,
)
from itergp.solver.more_data import reweighted

DATA = make_data(40, seed=3)
PRIOR = Prior(KERNELS["matern32"], LinearMean([0.3, -0.2], 0.1))
NOISES = {"scalar": 0.02, "per-row": row_noise(40, seed=1)}
FIELDS = ("z", "representer_weights", "residual", "training_variance", "trace_GA", "elbo", "L", "energy")


def again(state, noise, y):
    """A fresh run over the same orthonormal actions."""
    problem = Problem(PRIOR, DATA.X, y, noise, Compute(dtype="float64"))
    return solve(problem, given(dense(state.basis.actions(state.rank)), block_size=7), MaxActions(state.rank))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "adversarial"])
def test_it_is_a_fresh_run_over_the_same_actions(policy, noise):
    old = condition(PRIOR, DATA.X, DATA.y, 0.1, POLICIES[policy](), MaxActions(11), Compute(dtype="float64"))
    passes = old.problem.gram.passes
    y = np.random.default_rng(0).standard_normal(40)
    new, fresh = reweighted(old.state, NOISES[noise], y), again(old.state, NOISES[noise], y)
    assert old.problem.gram.passes == passes
    assert new.rank == fresh.rank == old.rank
    for name in FIELDS:
        got, expected = getattr(new.belief, name), getattr(fresh.belief, name)
        got, expected = (got[: new.rank], expected[: new.rank]) if name == "z" else (got, expected)
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-8, err_msg=name)
    at = DATA.X_new
    np.testing.assert_allclose(
        Posterior(new.problem, new).mean(at), Posterior(fresh.problem, fresh).mean(at), atol=1e-9
    )
    np.testing.assert_allclose(
        Posterior(new.problem, new).var(at), Posterior(fresh.problem, fresh).var(at), atol=1e-9
    )


def test_columns_that_wait_are_reweighted_too():
    """A budget cuts a block; the rest of it is accepted after the change as in a run that had the new
    noise at once."""
    policy = POLICIES["random"]()
    half = condition(PRIOR, DATA.X, DATA.y, 0.1, policy, MaxActions(5), Compute(dtype="float64"))
    assert half.state.basis.size == 6
    state = reweighted(half.state, 0.02, DATA.y)
    whole = solve(state.problem, policy, MaxActions(1), state)
    direct = condition(PRIOR, DATA.X, DATA.y, 0.02, policy, MaxActions(6), Compute(dtype="float64"))
    np.testing.assert_allclose(whole.representer_weights, direct.state.representer_weights, atol=1e-10)
    assert whole.rank == 6


def test_the_same_noise_and_targets_change_nothing_but_rounding():
    old = condition(PRIOR, DATA.X, DATA.y, 0.1, POLICIES["block-krylov"](), MaxActions(12)).state
    new = reweighted(old, 0.1, DATA.y)
    np.testing.assert_allclose(new.representer_weights, old.representer_weights, atol=1e-11)
    np.testing.assert_allclose(new.residual, old.residual, atol=1e-11)
    assert new.elbo == pytest.approx(old.elbo, rel=1e-10)


def test_without_actions_it_is_the_prior():
    old = condition(PRIOR, DATA.X, DATA.y, 0.1, POLICIES["cg"](), MaxActions(0)).state
    new = reweighted(old, NOISES["per-row"], 2.0 * DATA.y)
    assert new.rank == 0
    np.testing.assert_array_equal(new.residual[:, 0], 2.0 * DATA.y - PRIOR.mean(DATA.X))


def test_an_exact_state_stays_exact_and_others_go_on():
    exact = condition(PRIOR, DATA.X, DATA.y, 0.1).state
    assert reweighted(exact, NOISES["per-row"], DATA.y).status is Status.EXACT
    some = condition(PRIOR, DATA.X, DATA.y, 0.1, POLICIES["cg"](), MaxActions(3)).state
    changed = reweighted(some, NOISES["per-row"], DATA.y)
    more = solve(changed.problem, POLICIES["unit-sequential"](), MaxActions(40), changed)
    direct = condition(PRIOR, DATA.X, DATA.y, NOISES["per-row"])
    np.testing.assert_allclose(more.representer_weights, direct.state.representer_weights, atol=1e-8)


def test_bad_noise_and_targets_are_refused_by_name():
    state = condition(PRIOR, DATA.X, DATA.y, 0.1).state
    with pytest.raises(InputError, match="noise is negative"):
        reweighted(state, -1.0, DATA.y)
    with pytest.raises(InputError, match="y has shape"):
        reweighted(state, 0.1, DATA.y[:-1])
    with pytest.raises(InputError, match=r"y has shape \(40, 2\)"):
        reweighted(state, 0.1, np.zeros((40, 2)))
