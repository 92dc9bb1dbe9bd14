"""A run: steps of Algorithm 1 until a criterion is met, an interrupt arrives, or no actions are left."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from itergp.errors import InputError, InterruptedWarning, ItergpError
from itergp.linalg.basis import Basis
from itergp.linalg.compute import fitting, require_bytes
from itergp.linalg.products import large
from itergp.solver.loop import step
from itergp.solver.problem import Problem
from itergp.solver.state import Progress, State, Status
from itergp.solver.stopping import OutOfTime, StoppingCriterion, deadline

Callback = Callable[[State], Any]


def iterate(problem: Problem, policy: Any, state: State | None = None, seed: int = 0) -> Iterator[State]:
    """States, one step after another, until the policy has no more actions. Stop whenever you like."""
    state = begin(problem, policy, state, seed)
    while state.status is None:
        state = step(state, policy)
        yield state


def solve(
    problem: Problem,
    policy: Any,
    stop: StoppingCriterion,
    state: State | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> State:
    """Iterate until `stop`. Interrupts, failing callbacks and lack of memory end the run; its work is
    kept."""
    if not isinstance(stop, StoppingCriterion):
        raise InputError(f"stop is {stop!r}; expected a criterion such as MaxActions(64) | TimeBudget(30).")
    state = begin(problem, policy, state, seed)
    begun = state.progress
    _require_memory(state, policy, stop.allowance(begun, state))
    try:
        while state.status is None:
            verdict = stop.verdict(begun, state)
            if verdict is not None:
                return _confirmed(state, stop, begun, verdict)
            tick = deadline(stop.seconds_left(begun, state))
            state = step(state, policy, stop.allowance(begun, state), tick)
            if callback is not None and _call(callback, state):
                return state.ended(Status.INTERRUPTED)
    except KeyboardInterrupt:
        return state.ended(Status.INTERRUPTED)
    except OutOfTime:
        return state.ended(Status.BUDGET)
    except MemoryError as error:
        if isinstance(error, ItergpError):
            raise
        warnings.warn(
            f"Out of memory after {state.rank} actions; they are kept.", InterruptedWarning, stacklevel=3
        )
        return state.ended(Status.INTERRUPTED)
    except ItergpError as error:
        error.state = state  # type: ignore[attr-defined]  # the work completed before the error
        raise
    return state


def begin(problem: Problem, policy: Any, state: State | None, seed: int) -> State:
    """A new state, or the given one prepared to continue."""
    if not callable(policy):
        raise InputError(
            f"policy is {policy!r}; expected a policy such as ConjugateGradient(), or a function state -> "
            "actions."
        )
    if state is None:
        return State.start(problem, seed)
    if state.problem is not problem:
        raise InputError("state belongs to another problem; pass state.problem, or extend it.")
    status = Status.EXACT if state.rank == problem.n else None
    return replace(state, status=status, idle=0)


def _call(callback: Callback, state: State) -> bool:
    """True if the callback asks to stop, or fails; a failure is reported, and completed work is kept."""
    try:
        return bool(callback(state))
    except Exception as error:
        warnings.warn(
            f"The callback raised {type(error).__name__}: {error}. The run ends here; its {state.rank} "
            "actions are kept.",
            InterruptedWarning,
            stacklevel=4,
        )
        return True


def _confirmed(state: State, stop: StoppingCriterion, begun: Progress, verdict: Status) -> State:
    """If a run claims convergence by its residual, check it against the true one, at the cost of one pass."""
    if verdict is not Status.CONVERGED or not stop.reads_residual or state.rank == 0:
        return state.ended(verdict)
    problem, v, done = state.problem, state.representer_weights, state.progress
    entries = problem.gram.work.mine[1]
    true = problem.b - problem.gram.multiply(v) - problem.N[:, None] * v
    entries = done.entries + problem.gram.work.mine[1] - entries
    contradicted = stop.contradicted(begun, state, true)
    state = replace(state, progress=replace(done, passes=done.passes + 1, entries=entries))
    return state.ended(Status.PRECISION_LIMIT if contradicted else verdict)


def _require_memory(state: State, policy: Any, actions: float) -> None:
    """Raise for a number of actions that cannot fit in memory; other budgets are not checked."""
    if np.isfinite(actions):
        require_actions(state.basis, policy, int(min(actions, state.problem.n - state.rank)))


def require_actions(basis: Basis, policy: Any, actions: int) -> None:
    """Raise if so many more actions cannot fit in memory."""
    n, rows = basis.n, _stored(basis, policy)
    needed = rows / n * basis.KQ.bytes_here(actions) + 16.0 * float(actions) ** 2
    # of dense actions on many rows, n x r numbers; of unit vectors, whose products are not stored, r x r
    most = min(fitting(8.0 * rows) if rows else n, int(fitting(16.0) ** 0.5))
    remedy = f"Ask for fewer actions: about {most} would fit"
    unit = large(n) and rows and basis.sparse
    remedy += ", or more of policy=UnitVector('random'), whose products are not stored." if unit else "."
    require_bytes(needed, f"{actions} actions on {n} rows", remedy)


def _stored(basis: Basis, policy: Any) -> int:
    """How many numbers are stored of an action: K Q, and Q if it is dense; none where K Q is made again."""
    n = basis.n
    if not getattr(policy, "sparse", False):
        return 2 * n
    lean = getattr(policy, "few_rows", False) and large(n) and basis.sparse and (basis.lean or not basis.size)
    return 0 if lean else n
