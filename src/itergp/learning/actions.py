"""Budget-aware objectives: the computation-aware ELBO and the projected-data likelihood, for fixed actions.

`elbo` in `solver/state.py` is the value of the first one for one problem. Here the actions Q of a run are
fixed, K Q is computed for other hyper-parameters (one pass), and the gradient follows from weights of the
form H Q^T, which are no larger than the actions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.parameters import Evaluation, Objective
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import added


def elbo(
    rows: Rows,
    actions: Any,
    *,
    compute: Compute = Compute(),
    tick: Tick = no_tick,
) -> Objective:
    """The negative computation-aware ELBO per observation, for fixed actions Q (n, r), dense or sparse.

    Q may be `posterior.actions`. The ELBO bounds the exact objective from above, and equals it at rank n.
    """
    return _objective(_negative_elbo, rows, actions, compute, tick)


def projected(
    rows: Rows,
    actions: Any,
    *,
    compute: Compute = Compute(),
    tick: Tick = no_tick,
) -> Objective:
    """- log N(Q^T y; 0, Q^T K_hat Q) per observation: the exact likelihood of the data projected on the
    actions.

    Deviations inside merged rows are kept in full: they are independent of the rows' means.
    """
    return _objective(_negative_projected_likelihood, rows, actions, compute, tick)


@dataclass(frozen=True, eq=False)
class Observed:
    """What Q and one product K Q give at given hyper-parameters (errata page, "One product per step")."""

    rows: Rows
    gram: Gram
    noise: float
    Q: np.ndarray | sp.csc_array
    KQ: np.ndarray
    shares: np.ndarray  # Q^T N Q / noise
    factor: tuple[np.ndarray, bool]  # of G = Q^T K Q + A + diag(tau)
    G: np.ndarray
    c: np.ndarray  # G^{-1} Q^T y

    @property
    def A(self) -> np.ndarray:
        """Q^T N Q"""
        return self.noise * self.shares

    @property
    def logdet(self) -> float:
        return 2.0 * float(np.log(np.diag(self.factor[0])).sum())

    def solve(self, B: np.ndarray) -> np.ndarray:
        """G^{-1} B"""
        return scipy.linalg.cho_solve(self.factor, B, check_finite=False)


Formula = Callable[[Observed, Tick], Evaluation]


def _objective(formula: Formula, rows: Rows, actions: Any, compute: Compute, tick: Tick) -> Objective:
    Q = _checked(actions, rows.n)
    return lambda kernel, noise: sound(
        kernel, lambda: formula(_observe(rows, Q, kernel, noise, compute, tick), tick)
    )


def _checked(actions: Any, n: int) -> np.ndarray | sp.csc_array:
    Q = sp.csc_array(actions) if sp.issparse(actions) else np.asarray(actions, dtype=np.float64)
    values = Q.data if sp.issparse(Q) else Q
    if Q.ndim != 2 or Q.shape[0] != n or Q.shape[1] == 0 or not np.isfinite(values).all():
        raise InputError(
            f"actions have shape {Q.shape}; expected ({n}, r), finite, with r >= 1, such as "
            "`posterior.actions`."
        )
    return Q


def _observe(
    rows: Rows, Q: np.ndarray | sp.csc_array, kernel: Kernel, noise: float, compute: Compute, tick: Tick
) -> Observed:
    # tiles in the precision that the noise requires
    gram = Gram.for_noise(kernel, rows.X, rows.N(noise), compute)
    if sp.issparse(Q):
        KQ = gram.multiply_columns(*_support(Q), tick=tick)
    else:
        if gram.dtype == np.float32:
            Q = Q.astype(np.float32).astype(np.float64)  # the rounded vectors are the actions
        KQ = gram.multiply(Q, tick)
    shares = Q.T @ sp.diags_array(1.0 / rows.precision) @ Q
    shares = shares.toarray() if sp.issparse(shares) else shares
    tau = gram.rounding(rows.n, np.linalg.norm(KQ, axis=0), "float64" if sp.issparse(Q) else None)
    G = np.asarray(Q.T @ KQ)
    G = (G + G.T) / 2 + noise * shares + np.diag(np.broadcast_to(tau, len(G)))
    factor = scipy.linalg.cho_factor(G, lower=True, check_finite=False)
    c = scipy.linalg.cho_solve(factor, np.asarray(Q.T @ rows.Y), check_finite=False)
    return Observed(rows, gram, noise, Q, KQ, shares, factor, G, c)


def _negative_elbo(at: Observed, tick: Tick) -> Evaluation:
    rows, t, r = at.rows, at.rows.t, len(at.G)
    N, A, B, c = rows.N(at.noise), at.A, at.KQ, at.c
    factor_A = scipy.linalg.cho_factor(A, lower=True, check_finite=False)
    logdet_A = 2.0 * float(np.log(np.diag(factor_A[0])).sum())
    BG = at.solve(B.T).T  # K Q G^{-1}
    variance = at.gram.diagonal() - (BG * B).sum(axis=1)
    misfit = rows.Y - B @ c
    inverse = at.solve(np.eye(r))
    T = at.G - A  # Q^T K Q
    expected = 0.5 * float((t * np.log(2.0 * np.pi * N) + ((misfit**2).sum(axis=1) + t * variance) / N).sum())
    divergence = 0.5 * (
        float((c * (T @ c)).sum()) + t * (at.logdet - logdet_A - r + float((inverse * A).sum()))
    )
    # dvalue = <H Q^T, dK> + t/2 sum_i dk_ii / N_i: every term is a product of dK Q or Q^T dK Q
    e = misfit / N[:, None]
    E = BG.T @ (BG / N[:, None])
    inner = (at.solve(B.T @ e) - at.solve(T @ c)) @ c.T  # through c = G^{-1} Q^T y
    GAG = inverse @ A @ inverse
    S = inner + 0.5 * c @ c.T + 0.5 * t * (E + inverse - GAG)
    H = np.asarray(at.Q @ S) - (t * BG / N[:, None] + e @ c.T)
    slopes = added(_slopes(at, H, tick), at.gram.diagonal_gradient(0.5 * t / N))
    # the noise: dA = shares * dnoise, and N in the expectation
    S_A = inner + 0.5 * t * (E + 2.0 * inverse - GAG)
    direct = 0.5 * (t * (rows.n - r) - float((((misfit**2).sum(axis=1) + t * variance) / N).sum()))
    return per_observation(
        rows, at.noise, expected + divergence, slopes, float((S_A * at.shares).sum()) + direct / at.noise
    )


def _negative_projected_likelihood(at: Observed, tick: Tick) -> Evaluation:
    rows, t, r = at.rows, at.rows.t, len(at.G)
    value = 0.5 * (float((at.c * (at.G @ at.c)).sum()) + t * (at.logdet + r * np.log(2.0 * np.pi)))
    S = 0.5 * (t * at.solve(np.eye(r)) - at.c @ at.c.T)
    slopes = _slopes(at, np.asarray(at.Q @ S), tick)
    return per_observation(rows, at.noise, value, slopes, float((S * at.shares).sum()))


def _slopes(at: Observed, H: np.ndarray, tick: Tick) -> dict[str, Any]:
    """Gradient of sum_ij (H Q^T)_ij k(x_i, x_j)."""
    if sp.issparse(at.Q):
        support, some = _support(at.Q)
        return at.gram.low_rank_columns_gradient(support, H, some, tick)
    return at.gram.low_rank_gradient(H, at.Q, tick)


def _support(Q: sp.csc_array) -> tuple[np.ndarray, np.ndarray]:
    """The rows touched by some action, and the actions there."""
    rows = np.unique(Q.indices)
    return rows, Q.tocsr()[rows].toarray()
