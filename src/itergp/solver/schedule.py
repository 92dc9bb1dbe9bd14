"""One policy after another: whose turn it is, `Schedule`, and the default schedule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from itergp import brief
from itergp.errors import InputError
from itergp.limits import EXACT_ROWS
from itergp.solver.policies import (
    Actions,
    BlockKrylov,
    ConjugateGradient,
    Policy,
    PseudoInput,
    Turns,
    UnitVector,
)
from itergp.solver.state import Stage, State
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.validate import count


def turns(policy: Any) -> Turns:
    """The policies that act in turn, with their limits; one without `turns` acts alone."""
    return getattr(policy, "turns", ((policy, None),))


def entered(state: State, policy: Any) -> State:
    """The current turn of `policy`: the first one that is not over; `stage` is None if all are."""
    if state.policy is not policy:
        state = _begin(replace(state, policy=policy), 0)
    while state.stage is not None and state.stage.over(state):
        state = next_turn(state)
    return state


def next_turn(state: State) -> State:
    return state if state.stage is None else _begin(state, state.stage.index + 1)


def _begin(state: State, index: int) -> State:
    """Start a turn of the policy, which prepares what it needs."""
    if index >= len(turns(state.policy)):
        return replace(state, stage=None)
    policy, limit = turns(state.policy)[index]
    stage = Stage(policy, limit, index=index, begun=replace(state.progress, actions=state.rank))
    fresh = replace(state, stage=stage, counter=state.counter + 1)
    memory = policy.start(fresh) if hasattr(policy, "start") else None
    return replace(fresh, stage=replace(stage, memory=memory), counter=fresh.counter + 1)


@dataclass(frozen=True, eq=False, init=False)
class Schedule(Policy):
    """One policy after another: Schedule((PseudoInput(128), 128), (ConjugateGradient(), MaxPasses(32))).

    Each entry is a policy and how long it acts: a number of actions, a stopping criterion, or None for no
    limit.
    """

    entries: Turns

    def __init__(self, *entries: Sequence[Any]) -> None:
        object.__setattr__(self, "entries", tuple(_entry(entry) for entry in entries))
        if not entries:
            raise InputError("Schedule() is empty; expected entries such as (PseudoInput(128), 128).")

    def __repr__(self) -> str:
        return f"Schedule({', '.join(map(brief.value, self.entries))})"

    @property
    def turns(self) -> Turns:
        return self.entries

    def __call__(self, state: State) -> Actions:
        """What the current entry proposes."""
        state = entered(state, self)
        return None if state.stage is None else state.stage.policy(state)


def _entry(entry: Any) -> tuple[Callable[[State], Actions], StoppingCriterion | None]:
    if (
        not (isinstance(entry, tuple | list) and len(entry) == 2)
        or not callable(entry[0])
        or isinstance(entry[0], Schedule)
    ):
        raise InputError(
            f"Schedule entry {entry!r} is not a pair; expected (policy, number of actions or criterion)."
        )
    policy, limit = entry
    if limit is None or isinstance(limit, StoppingCriterion):
        return policy, limit
    return policy, MaxActions(count("Schedule entry's number of actions", limit))


def default_policy(n: int) -> Policy:
    """The exact GP if that is cheap, else the schedule that was best in measurements."""
    return UnitVector(block_size=512) if n <= EXACT_ROWS else blocks_and_residuals(128)


def blocks_and_residuals(b: int, early: int = 0) -> Schedule:
    """Blocks for the variance, residuals for the mean, and blocks again (`docs/policies.md`).

    `early` residuals come before the second block, in case the time budget ends there: a block's single
    residual can make the mean worse. If all of these yield only rounding, unit vectors continue towards the
    exact GP.
    """
    first, krylov, columns = PseudoInput(b, block_size=b), BlockKrylov(b), UnitVector(block_size=512)
    sooner = [(ConjugateGradient(), early)] if early else []
    return Schedule(
        (first, b), *sooner, (krylov, 2 * b), (ConjugateGradient(), 64), (krylov, None), (columns, None)
    )


def default_actions(n: int) -> int:
    return n if n <= EXACT_ROWS else 512
