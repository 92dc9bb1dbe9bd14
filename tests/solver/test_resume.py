"""Resumption: a run cut anywhere and continued is the longer run, bit for bit; branches do not disturb
each other."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, make_data
from itergp import (
    BlockKrylov,
    Compute,
    ConjugateGradient,
    InputError,
    MaxActions,
    Prior,
    Problem,
    RandomAction,
    State,
    Status,
    UnitVector,
    condition,
    iterate,
    solve,
)

PRIOR, DATA, NOISE = Prior(KERNELS["matern52"]), make_data(30), 0.03


def after(policy, number, **how):
    return condition(PRIOR, DATA.X, DATA.y, NOISE, POLICIES[policy](), MaxActions(number), seed=3, **how)


def assert_same_bits(a, b):
    assert a.rank == b.rank
    assert np.array_equal(a.mean(DATA.X_new), b.mean(DATA.X_new))
    assert np.array_equal(a.var(DATA.X_new), b.var(DATA.X_new))
    assert np.array_equal(a.state.residual, b.state.residual)
    assert np.array_equal(a.state.training_variance, b.state.training_variance)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cuts", [(1, 7), (4, 4), (7, 1), (3, 0, 1, 4), (1,) * 8])
def test_refining_in_pieces_is_one_longer_run(policy, cuts):
    pieces = after(policy, cuts[0])
    for number in cuts[1:]:
        pieces = pieces.refine(stop=MaxActions(number))
    assert_same_bits(pieces, after(policy, 8))


@pytest.mark.parametrize("policy", ["cg", "pseudo-input", "block-krylov", "schedule", "unit-pivoted"])
@pytest.mark.parametrize("how", [{"dtype": "float32"}, {"engine": "jax"}, {"cache": 0}], ids=str)
def test_refining_in_pieces_is_one_longer_run_however_it_is_computed(policy, how):
    compute = Compute(**how)
    pieces = after(policy, 3, compute=compute).refine(stop=MaxActions(6)).refine(stop=MaxActions(5))
    assert_same_bits(pieces, after(policy, 14, compute=compute))


@pytest.mark.parametrize("policy", ["eigenvector", "random", "block-krylov", "cg"])
def test_refining_across_storage_chunks_is_one_longer_run(policy):
    data = make_data(150)
    start = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(61))
    whole = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(131))
    assert_same_bits(start.refine(stop=MaxActions(5)).refine(stop=MaxActions(65)), whole)


@pytest.mark.parametrize("policy", POLICIES)
def test_two_refinements_of_one_posterior_disturb_neither_each_other_nor_their_parent(policy):
    parent = after(policy, 3)
    before = parent.mean(DATA.X_new), parent.var(DATA.X_new), parent.state.residual.copy()
    left, other = parent.refine(stop=MaxActions(5)), parent.refine(RandomAction(block_size=2), MaxActions(5))
    right = parent.refine(stop=MaxActions(5))
    assert_same_bits(left, right)
    assert_same_bits(left, after(policy, 8))
    assert other.rank == 8
    for old, new in zip(
        before, (parent.mean(DATA.X_new), parent.var(DATA.X_new), parent.state.residual), strict=True
    ):
        assert np.array_equal(old, new)
    assert (other.var(DATA.X_new) <= before[1]).all()


def test_another_policy_takes_over_after_the_columns_that_still_wait():
    start = condition(PRIOR, DATA.X, DATA.y, NOISE, BlockKrylov(8), MaxActions(3))
    assert start.state.basis.size == 8
    mixed = start.refine(UnitVector(), MaxActions(7))
    assert mixed.rank == 10
    np.testing.assert_array_equal(mixed.state.basis.dense(0, 8), start.state.basis.dense(0, 8))


def test_an_exact_posterior_has_nothing_to_refine():
    whole = condition(PRIOR, DATA.X, DATA.y, NOISE)
    again = whole.refine(ConjugateGradient(), MaxActions(5))
    assert (again.rank, again.status) == (30, Status.EXACT)
    assert again.problem.gram.passes == 0


def test_iterate_gives_states_until_the_policy_ends():
    problem = Problem(PRIOR, DATA.X, DATA.y, NOISE)
    states = list(iterate(problem, UnitVector([3, 1, 2])))
    assert [state.rank for state in states] == [1, 2, 3, 3]
    assert states[-1].status is Status.ACTIONS_EXHAUSTED
    again = list(iterate(problem, RandomAction(), states[-1]))
    assert again[-1].status is Status.EXACT


def test_a_state_belongs_to_its_problem():
    one, other = (Problem(PRIOR, DATA.X, DATA.y, NOISE) for _ in range(2))
    with pytest.raises(InputError, match="another problem"):
        solve(other, UnitVector(), MaxActions(1), State.start(one))


def test_the_trace_has_one_record_per_step_and_only_rises():
    posterior = after("schedule", 12)
    actions, energy = [step.actions for step in posterior.trace], [step.energy for step in posterior.trace]
    assert actions == sorted(actions)
    assert energy == sorted(energy)
    assert posterior.trace[-1].elbo >= posterior.trace[0].elbo
    assert posterior.refine(stop=MaxActions(1)).trace[: len(posterior.trace)] == posterior.trace
