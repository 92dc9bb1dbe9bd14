"""Algorithm 1: one step, which proposes, observes and accepts actions."""

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

from itergp.linalg.basis import as_dense, cholesky_keeping
from itergp.linalg.blas import NARROW, blas_threads, dense_threads
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.products import Remade
from itergp.solver.accepting import beginning
from itergp.solver.actions import Block, checked, orthonormal, unit_length
from itergp.solver.belief import FINER, Belief, times_noise
from itergp.solver.schedule import entered, next_turn
from itergp.solver.state import State, Status


def step(state: State, policy: Any, room: float = np.inf, tick: Tick = no_tick) -> State:
    """One iteration: at most `room` actions are accepted; the rest of the block waits for the next one."""
    began = time.perf_counter()
    work, (passes, entries) = state.problem.gram.work, state.problem.gram.work.mine
    with _threads_of_blas(state):
        state = replace(state, tick=tick)
        if state.rank == state.basis.size:
            state = observe(state, policy)
        state = accept(state, room)
        done = replace(
            state.progress,
            actions=state.rank,
            passes=state.progress.passes + work.mine[0] - passes,
            entries=state.progress.entries + work.mine[1] - entries,
            seconds=state.progress.seconds + time.perf_counter() - began,
        )
        state = replace(state, progress=done, tick=no_tick)
        return replace(state, trace=(*state.trace, state.record()))


def _threads_of_blas(state: State) -> AbstractContextManager[Any]:
    """One thread while blocks are narrow and the engine has its own threads: BLAS threads would interfere."""
    narrow = len(state.blocks) > 1 and state.blocks[-1] - state.blocks[-2] <= NARROW
    return blas_threads(1 if narrow and state.problem.gram.engine.own_threads else None)


def propose(state: State, policy: Any) -> tuple[State, Any]:
    """The policy's next actions, validated and of unit length; and the state that records the call."""
    state = entered(state, policy)
    stage = state.stage
    if stage is None:
        return state, None
    actions = stage.policy(state)
    state = replace(state, counter=state.counter + 1)
    if actions is None:
        return state, None
    S = unit_length(checked(actions, state.problem.n, stage.policy))
    S = S[:, : int(min(S.shape[1], stage.room(state)))]
    return replace(state, stage=replace(stage, proposed=stage.proposed + S.shape[1])), S


def observe(state: State, policy: Any) -> State:
    """Choose actions, multiply, and factorise: everything that a step computes, nothing accepted yet."""
    state, S = propose(state, policy)  # Alg. 1, line 6
    if S is None:
        limited = state.stage is None
        return _turn_over(_idle(state, 0), Status.BUDGET if limited else Status.ACTIONS_EXHAUSTED)
    belief = state.belief
    block = orthonormal(S, belief, state.tick)
    if not block.width:
        return _nothing_new(_idle(state, S.shape[1]), Status.ACTIONS_EXHAUSTED)
    # G = Q^T K Q + Q^T N Q + diag(tau), the old rows against the new columns and the new block
    cross, G_bb = _projected(belief, block)
    with dense_threads(belief.basis.size + block.width):
        W = belief.factor.solve(cross)
        S_bb = (G_bb + G_bb.T) / 2 + np.diag(block.tau) - W.T @ W  # eta of the block (Alg. 1, line 10)
        L_bb, kept = cholesky_keeping(S_bb, least=0.5 * (belief.problem.N.min() + block.tau))
    if not kept.size:
        return _nothing_new(_idle(state, S.shape[1]), Status.PRECISION_LIMIT)
    if kept.size < block.width:
        block, W = block.only(kept), W[:, kept]
    # observations (Alg. 1, line 8), in the basis of search directions
    alpha = np.asarray(block.Q.T @ belief.problem.b) - W.T @ belief.z
    z = scipy.linalg.solve_triangular(L_bb, alpha, lower=True, check_finite=False)
    dropped = state.progress.dropped + S.shape[1] - block.width
    return replace(
        state,
        belief=belief.observed(block.Q, block.KQ, block.tau, W, L_bb, z),
        progress=replace(state.progress, dropped=dropped),
        idle=0,
    )


def _projected(belief: Belief, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Q_old^T K_hat Q and Q^T K_hat Q; of products that are not stored, from the rows that actions touch."""
    NQ = times_noise(belief.problem.N, block.Q)
    if isinstance(block.KQ, Remade):
        cross = belief.basis.inner(NQ)
        if belief.basis.size:
            cross += belief.basis.remade.against(block.KQ)
        return cross, block.KQ.against(block.KQ) + as_dense(block.Q.T @ NQ)
    NQ = as_dense(NQ)
    K_hat_Q = block.KQ + NQ
    return _cross_block(belief, block, K_hat_Q, NQ), np.asarray(block.Q.T @ K_hat_Q)


def _cross_block(belief: Belief, block: Block, K_hat_Q: np.ndarray, NQ: np.ndarray) -> np.ndarray:
    """Q_old^T K_hat Q, from the more accurate of the two products: its error then stays below sqrt(tau_old
    tau_new), which keeps G + diag(tau) above the exact Gram matrix. Unit vectors (float64) followed by dense
    float32 actions need this."""
    M = belief.basis.inner(K_hat_Q)
    finer = belief.tau[:, None] < FINER * block.tau
    if not finer.any():
        return M
    return np.where(finer, belief.basis.KQ.inner(as_dense(block.Q)) + belief.basis.inner(NQ), M)


def _idle(state: State, dropped: int) -> State:
    """After a block without a usable action."""
    done = replace(state.progress, dropped=state.progress.dropped + dropped)
    return replace(state, idle=state.idle + 1, progress=done)


def _nothing_new(state: State, status: Status) -> State:
    """The second idle block in a row ends the turn of a policy that would never end by itself."""
    finite = state.stage is not None and getattr(state.stage.policy, "finite", False)
    return state if state.idle < 2 or finite else _turn_over(state, status)


def _turn_over(state: State, status: Status) -> State:
    """Start the next policy's turn; the run ends if there is none."""
    further = next_turn(replace(state, idle=0))
    return state.ended(status) if further.stage is None else further


def accept(state: State, room: float = np.inf) -> State:
    """Update the belief with the next waiting columns, one by one (Alg. 1, lines 9 to 14)."""
    belief = state.belief
    first, stop = belief.rank, int(min(belief.basis.size, belief.rank + room))
    if stop <= first or state.status is not None:
        return state
    so_far = beginning(belief)
    for start, end in pairwise(belief.blocks):
        if start < stop and end > first:
            so_far.add(range(start, end), range(max(first, start), min(stop, end)), state.tick)
    belief = so_far.belief_after(stop)
    return replace(state, belief=belief, status=Status.EXACT if stop == belief.problem.n else None)


def accept_waiting(state: State) -> State:
    """Accept what a budget cut off the last block: it is paid for, so it does not count in the next call."""
    state = accept(state)
    return replace(state, progress=replace(state.progress, actions=state.rank))
