"""Beliefs that follow from others: each is what a run would have led to, and can be gone on from."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, make_data, row_noise
from itergp import InputError, MaxActions, Posterior, Prior, Schedule, State, UnitVector, condition, solve
from itergp.solver.belief import KNOWN, Belief
from itergp.solver.more_data import extend, reweighted, target_beliefs

N, RANK, CUT = 40, 17, 6
PRIOR = Prior(KERNELS["matern32"])
DATA = make_data(N)
NOISES = {"one noise": 0.05, "noise of rows": row_noise(N)}


def run(policy, actions, noise=0.05, y=DATA.y):
    return condition(PRIOR, DATA.X, y, noise, policy, MaxActions(actions)).state


def from_scratch(belief):
    """The same belief, of which nothing is known but its fields."""
    return Belief(**{name: getattr(belief, name) for name in Belief.__dataclass_fields__})


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_the_loop_updates_is_what_follows_from_actions_and_products(policy, noise):
    belief = run(POLICIES[policy](), RANK, NOISES[noise]).belief
    again = from_scratch(belief)
    for name in KNOWN:
        np.testing.assert_allclose(getattr(again, name), getattr(belief, name), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(again.elbo, belief.elbo, rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_prefix_is_the_belief_of_the_shorter_run_in_every_number(policy, noise):
    make = POLICIES[policy]
    prefix, short = (
        run(make(), RANK, NOISES[noise]).belief.prefix(CUT),
        run(make(), CUT, NOISES[noise]).belief,
    )
    assert prefix.rank == short.rank == CUT
    for name in (*KNOWN, "coefficients", "L", "elbo", "energy", "projected_log_likelihood"):
        np.testing.assert_allclose(getattr(prefix, name), getattr(short, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_going_on_from_a_prefix_takes_the_same_path_again(policy):
    """Its columns wait, block after block, and no product is made."""
    whole = run(POLICIES[policy](), RANK)
    passes, state = whole.problem.gram.passes, whole.believing(whole.belief.prefix(CUT))
    assert state.progress.actions == CUT
    assert all(step.actions <= CUT for step in state.trace)
    state = solve(whole.problem, POLICIES[policy](), MaxActions(whole.rank - CUT), state)
    assert (state.rank, state.problem.gram.passes) == (whole.rank, passes)
    np.testing.assert_allclose(state.representer_weights, whole.representer_weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(state.training_variance, whole.training_variance, rtol=1e-9, atol=1e-12)


def test_a_prefix_has_at_most_the_actions_that_were_accepted():
    belief = run(UnitVector(block_size=8), 10).belief
    assert belief.basis.size == 16
    assert belief.prefix(10) is belief
    for rank in (-1, 11):
        with pytest.raises(InputError, match=f"rank is {rank}; expected 0 to 10"):
            belief.prefix(rank)


def test_no_actions_give_the_prior():
    belief = run(POLICIES["cg"](), 4).belief.prefix(0)
    np.testing.assert_array_equal(belief.residual, belief.problem.b)
    np.testing.assert_array_equal(belief.training_variance, belief.problem.gram.diagonal())
    assert not belief.representer_weights.any()
    assert belief.trace_GA == 0.0


@pytest.mark.parametrize("noise", NOISES)
def test_more_rows_and_other_noise_keep_every_number_in_step(noise):
    state = run(POLICIES["block-krylov"](), RANK, NOISES[noise])
    more = make_data(9, seed=5)
    after = extend(state, more.X, more.y, np.linspace(0.1, 0.2, 9))
    after = reweighted(after, row_noise(N + 9), after.problem.y + 0.1)
    for belief in (after.belief, extend(after, more.X + 0.5, more.y, 0.3).belief):
        again = from_scratch(belief)
        for name in KNOWN:
            np.testing.assert_allclose(getattr(again, name), getattr(belief, name), rtol=1e-7, atol=1e-9)


def test_the_belief_about_each_target_is_that_of_a_run_with_the_same_actions():
    y = np.stack([DATA.y, np.cos(DATA.y)], axis=1)
    shared = run(Schedule((POLICIES["pseudo-input"](), RANK)), RANK, 0.05, y).belief
    Q = shared.basis.dense(0, RANK)
    for target, (noise, belief) in enumerate(
        zip((0.05, 0.4), target_beliefs(shared, [0.05, 0.4]), strict=True)
    ):
        alone = run(lambda state: None if state.proposed else Q, RANK, noise, y[:, target]).belief
        np.testing.assert_allclose(
            belief.representer_weights, alone.representer_weights, rtol=1e-7, atol=1e-9
        )
        np.testing.assert_allclose(belief.training_variance, alone.training_variance, rtol=1e-7, atol=1e-9)


def test_a_state_reads_as_its_belief():
    state = run(POLICIES["cg"](), 5)
    assert state.residual is state.belief.residual
    assert state.rank == state.belief.rank == Posterior(state.problem, state).rank == 5
    with pytest.raises(AttributeError):
        state.residual = 0.0
    assert State.start(state.problem).belief.rank == 0
