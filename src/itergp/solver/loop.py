"""Algorithm 1: start, step, iterate, solve; and nothing else."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from itergp.errors import InputError, InterruptedWarning, ItergpError, PolicyError
from itergp.linalg.basis import Basis, cholesky_keeping
from itergp.linalg.blas import NARROW, blas_threads
from itergp.linalg.compute import require_bytes
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.linalg.orthonormal import orthonormalise
from itergp.solver.belief import FINER, Belief
from itergp.solver.policies import Schedule
from itergp.solver.problem import Problem
from itergp.solver.state import Progress, Stage, State, Status
from itergp.solver.stopping import StoppingCriterion

# what is left of a unit action that lies in the span of earlier ones
DEPENDENT = {"float64": 1e-10, "float32": 1e-5}
# Sparse actions take their products from known ones while the rounding that they inherit stays below so many
# times that of a product of their own. Inherited rounding is part of their tau.
REUSE = {"float64": 10.0, "float32": 1.0}
Callback = Callable[[State], Any]


def step(state: State, policy: Any, room: float = np.inf, tick: Tick = no_tick) -> State:
    """One turn of the loop: at most `room` actions are accepted, what is left of the block waits for the
    next turn."""
    began = time.perf_counter()
    gram, passes, entries = state.problem.gram, state.problem.gram.passes, state.problem.gram.entries
    with _threads_of_blas(state):
        if state.rank == state.basis.size:
            state = observe(replace(state, tick=tick), policy)
        state = accept(state, room)
        done = replace(
            state.progress,
            actions=state.rank,
            passes=state.progress.passes + gram.passes - passes,
            entries=state.progress.entries + gram.entries - entries,
            seconds=state.progress.seconds + time.perf_counter() - began,
        )
        state = replace(state, progress=done, tick=no_tick)
        return replace(state, trace=(*state.trace, state.record()))


def _threads_of_blas(state: State) -> AbstractContextManager[Any]:
    """One while blocks are narrow and the engine has threads: BLAS's would be in their way."""
    narrow = len(state.blocks) > 1 and state.blocks[-1] - state.blocks[-2] <= NARROW
    return blas_threads(1 if narrow and getattr(state.problem.gram.engine, "own_threads", False) else None)


def observe(state: State, policy: Any) -> State:
    """Choose actions, multiply, and factorise: everything that a step computes, none of it accepted yet."""
    state, S = propose(state, policy)  # Alg. 1, line 6
    if S is None:
        return _nothing_new(state, 0, none_left=True)
    problem = state.problem
    Q, KQ, tau, dropped = orthonormal(S, state)
    if Q.shape[1] == 0:
        return _nothing_new(state, dropped)
    N = problem.N[:, None]
    NQ = Q.multiply(N).tocsc() if sp.issparse(Q) else N * Q
    # G = Q^T K Q + Q^T N Q + diag(tau), the old rows against the new columns and the new block
    K_hat_Q = KQ + NQ if not sp.issparse(NQ) else KQ + NQ.toarray()
    W = state.factor.solve(_cross_block(state, Q, K_hat_Q, NQ, tau))
    G_bb = np.asarray(Q.T @ K_hat_Q)
    S_bb = (G_bb + G_bb.T) / 2 + np.diag(tau) - W.T @ W  # eta of the whole block (Alg. 1, line 10)
    L_bb, kept = cholesky_keeping(S_bb, least=0.5 * (problem.N.min() + tau))
    if kept.size < Q.shape[1]:
        dropped += Q.shape[1] - kept.size
        Q, KQ, W, tau, NQ = Q[:, kept], KQ[:, kept], W[:, kept], tau[kept], NQ[:, kept]
        if not kept.size:
            return _nothing_new(state, dropped, Status.PRECISION_LIMIT)
    # observations (Alg. 1, line 8), in the basis of search directions
    alpha = np.asarray(Q.T @ problem.b) - W.T @ state.z
    z = scipy.linalg.solve_triangular(L_bb, alpha, lower=True, check_finite=False)
    return replace(
        state,
        belief=state.belief.observed(Q, KQ, tau, W, L_bb, z),
        progress=replace(state.progress, dropped=state.progress.dropped + dropped),
        idle=0,
    )


def _cross_block(state: State, Q: Any, K_hat_Q: np.ndarray, NQ: Any, tau: np.ndarray) -> np.ndarray:
    """Q_old^T K_hat Q, from the finer of the two products: its error then stays below sqrt(tau_old
    tau_new), which keeps G + diag(tau) above the exact Gram matrix. Unit vectors (float64) followed by
    dense float32 actions need it."""
    M = state.basis.inner(K_hat_Q)
    finer = state.tau[:, None] < FINER * tau
    if not finer.any():
        return M
    of_old = state.basis.KQ.inner(Q.toarray() if sp.issparse(Q) else Q)
    return np.where(finer, of_old + state.basis.inner(NQ.toarray() if sp.issparse(NQ) else NQ), M)


def accept(state: State, room: float = np.inf) -> State:
    """Update the belief with the next columns that wait, one after the other (Alg. 1, lines 9 to 14)."""
    belief = state.belief
    first, stop = belief.rank, int(min(belief.basis.size, belief.rank + room))
    if stop <= first or state.status is not None:
        return state
    N, v, r, variance, trace_GA = (
        belief.problem.N,
        belief.representer_weights.copy(),
        belief.residual.copy(),
        belief.training_variance.copy(),
        belief.trace_GA,
    )
    for start, end in pairwise(belief.blocks):
        if end <= first or start >= stop:
            continue
        D, F = new_directions(belief, start, end)
        # column by column: the same bits wherever a budget cuts, and variances that only fall
        for j in range(max(first, start), min(stop, end)):
            d, f = D[:, j - start], F[:, j - start]  # search direction with eta = 1, and K times it
            Nd = N * d
            v += np.outer(d, belief.z[j])
            r -= np.outer(f + Nd, belief.z[j])
            variance -= f * f
            trace_GA += float(d @ Nd)
    belief = belief.accepted(
        stop,
        representer_weights=v,
        residual=r,
        training_variance=np.maximum(variance, belief.problem.variance_floor(belief.problem.gram.diagonal())),
        trace_GA=trace_GA,
    )
    return replace(state, belief=belief, status=Status.EXACT if stop == belief.problem.n else None)


def accept_waiting(state: State) -> State:
    """Take what a budget cut off of the last block: it is paid for, and must not use up the next call's
    actions."""
    state = accept(state)
    return replace(state, progress=replace(state.progress, actions=state.rank))


def new_directions(belief: Belief, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """D_b = (Q_b - Q G^{-1} Q^T K_hat Q_b) L_bb^{-T} and F_b = K D_b, for the block from start to stop."""
    L = belief.factor.L(stop)
    back = -belief.factor.solve_transposed(L[start:, :start].T, start)  # minus the part along earlier actions
    C = np.concatenate([back, np.eye(stop - start)]) @ np.linalg.inv(L[start:, start:]).T
    return belief.basis.combine(C), belief.basis.KQ.combine(C)


def iterate(problem: Problem, policy: Any, state: State | None = None, seed: int = 0) -> Iterator[State]:
    """States, one step after the other, until the policy has nothing more to offer. Stop when you like."""
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
    """Iterate until `stop`. Interrupts, failing callbacks and lack of memory end the run with what there
    is."""
    if not isinstance(stop, StoppingCriterion):
        raise InputError(f"stop is {stop!r}; expected a criterion such as MaxActions(64) | TimeBudget(30).")
    state = begin(problem, policy, state, seed)
    begun = state.progress
    _check_memory(state, policy, stop.allowance(begun, state))
    try:
        while state.status is None:
            verdict = stop.verdict(begun, state)
            if verdict is not None:
                return _checked_end(state, stop, begun, verdict)
            tick = _deadline(stop.seconds_left(begun, state))
            state = step(state, policy, stop.allowance(begun, state), tick)
            if callback is not None and _call(callback, state):
                return state.ended(Status.INTERRUPTED)
    except KeyboardInterrupt:
        return state.ended(Status.INTERRUPTED)
    except _OutOfTime:
        return state.ended(Status.BUDGET)
    except MemoryError as error:
        if isinstance(error, ItergpError):
            raise
        warnings.warn(
            f"Out of memory after {state.rank} actions; they are kept.", InterruptedWarning, stacklevel=3
        )
        return state.ended(Status.INTERRUPTED)
    except ItergpError as error:
        error.state = state  # type: ignore[attr-defined]  # nothing is lost: what was computed before the error
        raise
    return state


def begin(problem: Problem, policy: Any, state: State | None, seed: int) -> State:
    """A fresh state, or a given one made ready to go on."""
    if not callable(policy):
        raise InputError(
            f"policy is {policy!r}; expected a policy such as ConjugateGradient(), or a "
            "function state -> actions."
        )
    if state is None:
        return State.start(problem, seed)
    if state.problem is not problem:
        raise InputError("state belongs to another problem; pass state.problem, or extend it.")
    status = Status.EXACT if state.rank == problem.n else None
    return replace(state, status=status, idle=0)


def propose(state: State, policy: Any) -> tuple[State, Any]:
    """The policy's next actions, checked and scaled to unit length; and the state that remembers the call."""
    state = _enter(state, policy)
    if state.stage is None:
        return state, None
    stage = state.stage
    actions = stage.policy(state)
    state = replace(state, counter=state.counter + 1)
    if actions is None:
        return state, None
    S = _checked_actions(actions, state.problem.n, stage.policy)
    limit = policy.entries[stage.index][1] if isinstance(policy, Schedule) else None
    if limit is not None:
        S = S[:, : int(min(S.shape[1], limit.allowance(stage.begun, state)))]
    return replace(state, stage=replace(stage, proposed=stage.proposed + S.shape[1])), S


def _enter(state: State, policy: Any) -> State:
    """Make sure that the stage is the policy's; within a Schedule, the first entry whose limit is not
    reached."""
    if state.policy is not policy:
        state = _start_stage(replace(state, policy=policy), policy, 0)
    while isinstance(policy, Schedule) and state.stage is not None:
        limit = policy.entries[state.stage.index][1]
        if limit is None or not limit.reached(state.stage.begun, state):
            break
        state = _start_stage(state, policy, state.stage.index + 1)
    return state


def _start_stage(state: State, policy: Any, index: int) -> State:
    if isinstance(policy, Schedule):
        if index >= len(policy.entries):
            return replace(state, stage=None)
        policy = policy.entries[index][0]
    begun = replace(state.progress, actions=state.rank)
    fresh = replace(state, stage=Stage(policy, None, 0, index, begun), counter=state.counter + 1)
    memory = policy.start(fresh) if hasattr(policy, "start") else None
    return replace(fresh, stage=Stage(policy, memory, 0, index, begun), counter=fresh.counter + 1)


def _nothing_new(
    state: State, dropped: int, status: Status = Status.ACTIONS_EXHAUSTED, none_left: bool = False
) -> State:
    """A block of which nothing could be used: the second in a row ends a policy that would go on for ever."""
    state = replace(
        state, idle=state.idle + 1, progress=replace(state.progress, dropped=state.progress.dropped + dropped)
    )
    finite = state.stage is not None and getattr(state.stage.policy, "finite", False)
    if not none_left and (state.idle < 2 or finite):
        return state
    if isinstance(state.policy, Schedule) and state.stage is not None:
        state = _start_stage(replace(state, idle=0), state.policy, state.stage.index + 1)
        if state.stage is not None:
            return state
    done = isinstance(state.policy, Schedule) and none_left
    return state.ended(Status.BUDGET if done else status)


def _checked_actions(actions: Any, n: int, policy: Any) -> Any:
    name = getattr(policy, "__name__", type(policy).__name__)
    try:
        S: Any = actions if sp.issparse(actions) else np.asarray(actions)
    except ValueError:  # rows of different length
        raise PolicyError(
            f"policy {name} returned no array; expected a vector ({n},) or a block ({n}, b)."
        ) from None
    if S.dtype.kind not in "fiub":
        raise PolicyError(
            f"policy {name} returned {type(actions).__name__} of dtype {S.dtype}; expected real numbers, "
            f"({n},) or ({n}, b)."
        )
    if sp.issparse(S):
        S = sp.csc_array(S, dtype=np.float64)
        values = S.data
    else:
        S = np.asarray(S, dtype=np.float64)
        values = S = S[:, None] if S.ndim == 1 else S
    if S.ndim != 2 or S.shape[0] != n or S.shape[1] == 0:
        raise PolicyError(
            f"policy {name} returned actions of shape {S.shape}; expected ({n},) or ({n}, b) with b >= 1."
        )
    if not np.isfinite(values).all():
        raise PolicyError(f"policy {name} returned actions that are not finite; expected finite numbers.")
    largest = np.abs(S).max(axis=0)
    largest = largest.toarray().ravel() if sp.issparse(largest) else largest
    if (largest == 0).any():
        raise PolicyError(
            f"policy {name} returned an action of zeros (column {int(np.argmin(largest))} of the block); "
            "expected a "
            "direction. Return None when there are no more actions."
        )
    # no overflow in the norms
    S = S.multiply(1.0 / largest[None, :]).tocsc() if sp.issparse(S) else S / largest
    if sp.issparse(S):
        S = sp.csc_array(S)
        return sp.csc_array(S.multiply(1.0 / np.sqrt(np.asarray(S.multiply(S).sum(axis=0))).reshape(1, -1)))
    return S / np.linalg.norm(S, axis=0)


def orthonormal(S: Any, state: State) -> tuple[Any, np.ndarray, np.ndarray, int]:
    """Q: the block made orthonormal to all earlier actions and within itself; K Q; its rounding tau; how
    many were dependent."""
    gram, basis, coarsest = state.problem.gram, state.basis, state.coarsest
    columns, dropped = None, 0
    if sp.issparse(S):
        unique = _distinct(S, basis)
        dropped, S = S.shape[1] - unique.size, S[:, unique]
        if not unique.size:
            return np.zeros((gram.n, 0)), np.zeros((gram.n, 0)), np.zeros(0), dropped
        taken = basis.inner(S.toarray()) if basis.size else np.zeros((0, S.shape[1]))
        if _disjoint(S) and not taken.any():  # orthogonal already
            KS = _sparse_products(S, state)
            return S, KS, _rounding(S, KS, gram, "float64"), dropped
        columns, S = S, S.toarray()
    Q, kept, C, R = orthonormalise(S, basis, DEPENDENT[coarsest])
    dropped += S.shape[1] - kept.size
    if columns is not None and kept.size and R.any():
        shrunk = np.abs(np.linalg.inv(R))
        # rounding of products is incoherent
        inherited = np.linalg.norm(state.tau[:, None] * C, axis=0) @ shrunk
        if inherited.max() < REUSE[coarsest] * gram.rounding(gram.n, dtype=coarsest):
            KS = _sparse_products(columns[:, kept], state)
            # K Q = (K S - K Q_old C) R^{-1}: no pass
            KQ = np.linalg.solve(R.T, (KS - basis.KQ.combine(C)).T).T
            return Q, KQ, _rounding(columns[:, kept], KS, gram, "float64") @ shrunk + inherited, dropped
    if gram.dtype == np.float32:
        Q = Q.astype(np.float32).astype(np.float64)  # the rounded vectors are the actions
    KQ = gram.multiply(Q, state.tick) if kept.size else np.zeros_like(Q)
    return Q, KQ, _rounding(Q, KQ, gram, gram.dtype.name), dropped


def _distinct(S: sp.csc_array, basis: Basis) -> np.ndarray:
    """Columns of S without unit vectors that repeat, or that lie in the span of the actions."""
    single = np.diff(S.indptr) == 1
    if not single.all():
        return np.arange(S.shape[1])
    first = np.sort(np.unique(S.indices, return_index=True)[1])
    return first[~basis.spanned_rows()[S.indices[first]]]


def _disjoint(S: sp.csc_array) -> bool:
    return np.unique(S.indices).size == S.indices.size


def _sparse_products(S: sp.csc_array, state: State) -> np.ndarray:
    """K S from the columns of K that S touches: no pass over K."""
    if (np.diff(S.indptr) == 1).all():
        return state.problem.gram.columns(S.indices) * S.data
    rows = np.unique(S.indices)
    return state.problem.gram.multiply_columns(rows, S[rows].toarray(), tick=state.tick)


def _rounding(Q: Any, KQ: np.ndarray, gram: Gram, dtype: str) -> np.ndarray:
    """tau, for each action: by the rows that the block reaches, so that appended data change nothing."""
    if not Q.shape[1]:
        return np.zeros(0)
    reach = 1 + int(Q.indices.max() if sp.issparse(Q) else np.flatnonzero(Q.any(axis=1))[-1])
    return np.asarray(gram.rounding(reach, np.linalg.norm(KQ[:reach], axis=0), dtype))


class _OutOfTime(Exception):  # noqa: N818 (no error)
    pass


def _deadline(seconds: float) -> Tick:
    if not np.isfinite(seconds):
        return no_tick
    end, last = time.perf_counter() + seconds, np.inf

    def tick() -> None:
        nonlocal last
        now = time.perf_counter()
        if now + max(0.0, now - last) > end:  # the next part takes as long as the last one
            raise _OutOfTime
        last = now

    return tick


def _call(callback: Callback, state: State) -> bool:
    """True when the callback asks to stop, or fails; a failure is reported, and nothing is lost."""
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


def _checked_end(state: State, stop: StoppingCriterion, begun: Progress, verdict: Status) -> State:
    """A run that claims convergence by its residual is checked against the true one, at the price of one
    pass."""
    if verdict is not Status.CONVERGED or not stop.reads_residual or state.rank == 0:
        return state.ended(verdict)
    problem, v = state.problem, state.representer_weights
    entries = problem.gram.entries
    true = problem.b - problem.gram.multiply(v) - problem.N[:, None] * v
    entries = state.progress.entries + problem.gram.entries - entries
    state = replace(
        state, progress=replace(state.progress, passes=state.progress.passes + 1, entries=entries)
    )
    contradicted = stop.contradicted(begun, state, true)
    return state.ended(Status.PRECISION_LIMIT if contradicted else verdict)


def _check_memory(state: State, policy: Any, actions: float) -> None:
    """Refuse a number of actions that cannot fit; a budget in other terms stops where it stops."""
    problem = state.problem
    if np.isfinite(actions):
        actions = min(actions, problem.n - state.rank)
        copies = 1 if type(policy).__name__ == "UnitVector" else 2
        needed = 8.0 * (copies * problem.n * actions + 2.0 * actions**2)
        require_bytes(needed, f"{int(actions)} actions on {problem.n} rows", "Ask for fewer actions.")
