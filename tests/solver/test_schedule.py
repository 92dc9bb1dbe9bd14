"""A policy may be made of others, which act in turn; the loop follows any of them in the same way."""

from dataclasses import dataclass

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import (
    BlockKrylov,
    ConjugateGradient,
    MarginalVariance,
    MaxActions,
    MaxPasses,
    Prior,
    PseudoInput,
    RandomAction,
    ResidualNorm,
    Schedule,
    SparseBlock,
    State,
    Status,
    UnitVector,
    condition,
    iterate,
)

DATA, PRIOR = make_data(40), Prior(KERNELS["matern32"])
ENTRIES = (
    (PseudoInput(block_size=4), MaxActions(6)),
    (BlockKrylov(5), MaxPasses(2)),
    (ConjugateGradient(), None),
)


def run(policy, actions=25):
    return condition(PRIOR, DATA.X, DATA.y, 0.05, policy, MaxActions(actions))


@dataclass(frozen=True, eq=False)
class InTurn:
    """Not derived from anything."""

    entries: int = 3

    @property
    def turns(self):
        return ENTRIES[: self.entries]

    def __call__(self, state):
        raise AssertionError("its turns act")


def test_any_policy_with_turns_is_followed_as_a_schedule_is():
    ours, theirs = run(Schedule(*ENTRIES)), run(InTurn())
    np.testing.assert_array_equal(ours.state.representer_weights, theirs.state.representer_weights)
    cut = run(InTurn(), 9)
    again = cut.refine(stop=MaxActions(16))
    np.testing.assert_array_equal(ours.state.representer_weights, again.state.representer_weights)
    assert run(InTurn(2), 40).status is Status.BUDGET


def test_a_schedule_can_be_called_and_proposes_what_the_entry_whose_turn_it_is_does():
    schedule = Schedule((UnitVector([7, 3, 5], block_size=2), 2), (UnitVector([9]), 1))
    problem = run(schedule, 0).problem
    before = State.start(problem)
    rows = [np.flatnonzero(schedule(before).toarray().any(axis=1)).tolist()]
    for state in iterate(problem, schedule):
        block = schedule(state)
        rows.append(None if block is None else np.flatnonzero(block.toarray().any(axis=1)).tolist())
    assert rows == [[3, 7], [9], None, None]
    assert before.counter == 0


def test_how_a_run_ends_says_whether_limits_or_directions_were_used_up():
    limited = run(Schedule((RandomAction(), 2), (ConjugateGradient(), 3)))
    assert (limited.rank, limited.status) == (5, Status.BUDGET)
    for policy in (UnitVector([1, 2, 3]), Schedule((RandomAction(), 2), (UnitVector([1, 2, 3]), None))):
        dry = run(policy)
        assert dry.status is Status.ACTIONS_EXHAUSTED
        again = dry.refine(stop=MaxActions(5))
        assert (again.status, again.rank) == (Status.ACTIONS_EXHAUSTED, dry.rank)


def test_an_entry_that_has_run_dry_hands_over_before_its_limit():
    posterior = run(Schedule((UnitVector([1, 2, 3]), 30), (RandomAction(), 4)))
    assert (posterior.rank, posterior.status) == (7, Status.BUDGET)


class MyUnitVector(UnitVector):
    pass


@pytest.mark.parametrize(
    ("policy", "copies"),
    [
        (UnitVector(), 1),
        (MyUnitVector(), 1),
        (SparseBlock(8), 1),
        (RandomAction(), 2),
        (lambda state: None, 2),
    ],
)
def test_sparse_actions_need_memory_for_their_products_only(policy, copies, monkeypatch):
    asked = []
    monkeypatch.setattr("itergp.solver.run.require_bytes", lambda needed, *_: asked.append(needed))
    run(policy, 5)
    assert asked == [8.0 * (copies * 40 * 5 + 2 * 5**2)]


def test_a_true_residual_contradicts_the_criteria_that_were_met_by_the_residual():
    state = run(ConjugateGradient(), 12).state
    small = ResidualNorm(rtol=2 * float(np.linalg.norm(state.residual) / np.linalg.norm(state.problem.b)))
    never, met = MarginalVariance(1e-9), MarginalVariance(1e9)
    true, far = state.residual, 3.0 * state.residual
    for criterion, says in (
        (small, True),
        (small | never, True),
        (small | met, False),  # the other one was met as well
        (small & met, True),
        (MaxActions(12) & small, True),
        (met, False),
    ):
        assert criterion.verdict(state.progress, state) in (Status.CONVERGED, None)
        assert criterion.contradicted(state.progress, state, far) is says
        assert not criterion.contradicted(state.progress, state, true)
