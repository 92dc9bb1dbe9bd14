"""Held-out predictions without a refit: the same actions, with the rows of a fold set to zero (errata page).

The posterior from the rows outside a fold F, for the actions Q_{-F} = Q with its rows F set to zero, at the
rows of F. Every product it needs is in K Q or in a small kernel tile, so there is no pass over K. It is
optimistic, because the actions and the hyper-parameters were chosen with y_F.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from itergp.linalg.basis import cholesky_keeping
from itergp.linalg.neighbours import distinct
from itergp.linalg.products import PRODUCTS
from itergp.posterior.at import Path
from itergp.posterior.bounds import Bounds, System, batches, bounded, initial, joined
from itergp.posterior.combined import Posterior
from itergp.posterior.local import LocalActions, candidates

NONE = 1e-13  # of the precision of a row: rounding alone
MOST_OF_IT = 0.99  # of what is known at a place
KEPT = 2**28  # bytes of products at rows near the points of folds
MIXED = 1e-4  # ratio of taus: within one precision they hardly differ by more
# of the subtracted terms, over |G|; at most 4.2 of these units were measured
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


class Whole:
    """What all folds of a posterior need of it."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    @cached_property
    def G(self) -> np.ndarray:
        return self.posterior.state.L @ self.posterior.state.L.T

    @cached_property
    def rounding(self) -> float:
        """Of the terms that are subtracted from G."""
        return ROUNDING * float(np.linalg.norm(self.G))

    @cached_property
    def Q_b(self) -> np.ndarray:
        """Q^T b"""
        state = self.posterior.state
        return state.L @ state.z[: state.rank]

    def K_hat_Q(self, rows: np.ndarray) -> np.ndarray:
        """Rows of K_hat Q, as a new array. Those of small problems are kept: each is near points of many
        folds."""
        if self._kept is None:
            return self._products(rows)
        found, made = self._kept
        new = rows[~made[rows]]
        if new.size:
            found[new], made[new] = self._products(new), True
        return found[rows]

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray] | None:
        shape = self.posterior.problem.n, self.posterior.rank
        return (np.empty(shape), np.zeros(shape[0], dtype=bool)) if 8 * shape[0] * shape[1] <= KEPT else None

    def _products(self, rows: np.ndarray) -> np.ndarray:
        Q = self.posterior.state.basis.rows(rows)[:, : self.posterior.rank]
        return products(self.posterior, rows) + self.posterior.problem.N[rows, None] * Q


@dataclass(frozen=True, eq=False)
class WithoutFold:
    """What predictions at the rows F need, from the rows outside F alone; `kept` are the actions of L."""

    whole: Whole
    F: np.ndarray
    kept: np.ndarray
    L: np.ndarray  # L L^T = G_{-F}
    z: np.ndarray  # L^{-1} Q_{-F}^T b
    W: np.ndarray  # L^{-1} Q_{-F}^T k(X, X_F)

    @staticmethod
    def of(posterior: Posterior, F: np.ndarray, whole: Whole | None = None) -> "WithoutFold":
        """G_{-F} = G - Q_F^T (K_hat Q)_F - (.)^T + Q_F^T K_hat_FF Q_F; the right-hand sides likewise."""
        problem, state, r = posterior.problem, posterior.state, posterior.rank
        whole = Whole(posterior) if whole is None else whole
        Q_F, KQ_F = state.basis.rows(F)[:, :r], fine_products(posterior, F)
        K_FF, NQ_F = tile(posterior, F, F), problem.N[F, None] * Q_F
        half = Q_F.T @ (KQ_F + NQ_F - (K_FF @ Q_F + NQ_F) / 2)  # what is subtracted, once and transposed
        L, kept = _factor(whole.G - half - half.T, state.tau[:r], whole.rounding)
        Qb = whole.Q_b - Q_F.T @ problem.b[F]
        Qk = KQ_F.T - Q_F.T @ K_FF
        return WithoutFold(whole, F, kept, L, _solve(L, Qb[kept]), _solve(L, Qk[kept]))

    @property
    def posterior(self) -> Posterior:
        return self.whole.posterior

    def path(self, ranks: np.ndarray) -> Path:
        """Mean and variance of the latent function at F after each of these numbers of actions."""
        problem = self.posterior.problem
        X, counts = problem.X[self.F], np.searchsorted(self.kept, ranks)
        k0 = problem.prior.var(X)
        fall = np.concatenate([np.zeros((1, len(X))), np.cumsum(self.W**2, axis=0)])
        means = [problem.with_prior_mean(X, self.W[:c].T @ self.z[:c]) for c in counts]
        return Path(ranks, np.stack(means), np.stack([problem.above_floor(k0 - fall[c], k0) for c in counts]))

    def local(self, neighbours: int, which: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance with local actions on rows outside the fold; at `which` of F."""
        problem, which = self.posterior.problem, np.arange(self.F.size) if which is None else which
        actions = self._actions(neighbours, which)
        residual = problem.b[actions.rows] - actions.H @ self.z
        mean, k0 = actions.W.T @ self.z, problem.prior.var(actions.X)
        variance = k0 - (actions.W**2).sum(axis=0)
        actions.act(mean, variance, residual)
        return problem.with_prior_mean(actions.X, mean), problem.above_floor(variance, k0)

    def predicted(self, neighbours: int, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at `which` of F, with all actions, and local ones if any are asked for."""
        if neighbours:
            return self.local(neighbours, which)
        path = self.path(np.array([self.posterior.rank]))
        return path.mean[0][which], path.var[0][which]

    def variance_bounds(self, neighbours: int, passes: int, which: np.ndarray) -> Bounds:
        """Variance of the exact GP from the rows outside the fold, at `which` of F."""
        posterior, F, found = self.posterior, self.F, []
        for some in batches(which.size, posterior.problem.n):
            X = posterior.problem.X[F[which[some]]]
            g = np.zeros((posterior.rank, len(X)))
            g[self.kept], J, g_J = self._weights(neighbours, which[some])
            system = System(posterior, posterior.problem.gram.dense(posterior.problem.X, X), F)
            found.append(bounded(system, posterior.problem.prior.var(X), initial(system, g, J, g_J), passes))
        return joined(found)

    def _weights(self, neighbours: int, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g, J and g_J: the mean is mu(x) + c^T b with c = Q_{-F} g + E_J g_J."""
        actions = self._actions(neighbours, which)
        w, g_J = actions.weights()
        return _solve(self.L, w, transposed=True), actions.rows[actions.J], g_J

    def _actions(self, neighbours: int, which: np.ndarray) -> LocalActions:
        """Local actions on rows outside the fold."""
        problem = self.posterior.problem
        outside, X = problem.n - self.F.size, problem.X[self.F[which]]
        m = min(neighbours, outside)
        near = self._nearest_outside(X, candidates(m, outside))
        rows, J = distinct(problem.gram.most_informative(X, near, problem.N, m), problem.n)
        H, jitter = (
            _solve(self.L, self._rows_of_products(rows).T, own=True).T,
            self.posterior._prepared.rounding(m),
        )
        return LocalActions(problem, X, self.W[:, which], rows, J, H, jitter)

    def _rows_of_products(self, rows: np.ndarray) -> np.ndarray:
        """Rows of K_hat Q_{-F}, for the kept actions."""
        Q_F = self.posterior.state.basis.rows(self.F)[:, : self.posterior.rank]
        K_hat_Q = self.whole.K_hat_Q(rows)
        K_hat_Q -= tile(self.posterior, rows, self.F) @ Q_F
        return K_hat_Q if self.kept.size == self.posterior.rank else K_hat_Q[:, self.kept]

    def _nearest_outside(self, X: np.ndarray, m: int) -> np.ndarray:
        """The m rows outside the fold nearest to each point: they are among the m + |F| nearest of all."""
        problem = self.posterior.problem
        J = problem.gram.nearest(X, min(m + self.F.size, problem.n))
        outside_first = np.argsort(np.isin(J, self.F), axis=1, kind="stable")
        return np.take_along_axis(J, outside_first[:, :m], axis=1)


def without_folds(posterior: Posterior, folds: Sequence[np.ndarray]) -> Iterator[WithoutFold]:
    whole = Whole(posterior)
    return (WithoutFold.of(posterior, F, whole) for F in folds)


def exact_without(
    posterior: Posterior, F: np.ndarray, E: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The exact GP from the rows outside F, at F, for a posterior with as many actions as rows.

    With A = (K_hat^{-1})_FF: mean y_F - A^{-1} v_F, variance of the latent function diag(A^{-1}) - N_F. E is
    `inverse_factor` of F, if it is known.
    """
    problem, state = posterior.problem, posterior.state
    E = inverse_factor(posterior, F) if E is None else E
    A = E.T @ E
    correction = np.linalg.solve(A, state.representer_weights[F])
    X, update = problem.X[F], problem.b[F] - correction
    return problem.with_prior_mean(X, update), _latent(A, posterior, F)


def inverse_factor(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """E with E^T E = (K_hat^{-1})_rows,rows, for a posterior with as many actions as rows."""
    state = posterior.state
    return state.factor.solve(state.basis.rows(rows)[:, : state.rank].T, state.rank)


def exact_without_each(posterior: Posterior, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exact GP from all rows but one, at that one, for each of `rows` in turn.

    With a = (K_hat^{-1})_ii: mean y_i - v_i / a, variance of the latent function 1 / a - N_i. The mean of all
    rows, as predictions compute it, has an error of rounding there, its distance to y_i - N_i v_i, which the
    mean without a row has as well: without noise, it may be as large as the variance.
    """
    problem, v = posterior.problem, posterior.state.representer_weights[rows]
    a, X = (inverse_factor(posterior, rows) ** 2).sum(axis=0), problem.X[rows]
    k0 = problem.prior.var(X)
    latent = np.clip(1.0 / a - problem.N[rows], problem.variance_floor(k0), k0)
    without, of_all = (problem.b[rows] - (v.T * each).T for each in (1.0 / a, problem.N[rows]))
    rounding = posterior.at(X).mean - problem.with_prior_mean(X, of_all)
    return problem.with_prior_mean(X, without) + rounding, latent


def without_observation(
    posterior: Posterior, rows: np.ndarray, y: np.ndarray, noise: np.ndarray, neighbours: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At rows that are the means of several observations: as predictions there are, less one observation y of
    that noise; and where that is known.

    A row is one of the local actions at its own place, so its observations are known one by one beside what
    the others say, and one of them is taken back: 1 / v' = 1 / v - 1 / noise. Not known where a row is not
    among its neighbours, or where next to nothing is left without the observation.
    """
    distinct, place = np.unique(rows, return_inverse=True)
    W = posterior._solve(products(posterior, distinct).T)  # k(X, X_rows) is not multiplied again
    at = posterior.at(posterior.problem.X[distinct]).knowing(W=W).local(neighbours)
    mean, variance = at.mean.reshape(distinct.size, -1)[place], at.var[place]
    known = (distinct[:, None] == at.J).any(axis=1)[place] & (variance < MOST_OF_IT * noise)
    gain = np.where(known, variance / np.where(known, noise - variance, 1.0), 0.0)
    return mean + gain[:, None] * (mean - y), (1.0 + gain) * variance, known


def with_the_others(
    mean: np.ndarray,
    latent: np.ndarray,
    together: np.ndarray,
    y: np.ndarray,
    share: np.ndarray,
    N: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Means and latent variances (m, t) given also the others at the same place: of all with the mean
    `together` and noise N, those without y, which has this share of the precision. Others whose share is
    rounding say nothing."""
    several = 1.0 - share > NONE
    others = np.where(several, 1.0 - share, 1.0)[:, None]
    rest = together + share[:, None] / others * (together - y)
    total = latent + N / others
    gain = np.where(several[:, None] & (total > 0), latent / np.where(total > 0, total, 1.0), 0.0)
    return mean + gain * (rest - mean), (1.0 - gain) * latent


def exact_variance_without(posterior: Posterior, L: np.ndarray, F: np.ndarray) -> np.ndarray:
    """The exact GP's variance at F from the rows outside F; L L^T = K_hat."""
    unit = np.zeros((len(L), F.size))
    unit[F, np.arange(F.size)] = 1.0
    E = scipy.linalg.solve_triangular(L, unit, lower=True)
    return _latent(E.T @ E, posterior, F)


def _latent(A: np.ndarray, posterior: Posterior, F: np.ndarray) -> np.ndarray:
    """diag(A^{-1}) - N_F, but not below the least possible value, which only rounding can undercut."""
    problem = posterior.problem
    k0 = problem.prior.var(problem.X[F])
    return np.clip(np.diag(np.linalg.inv(A)) - problem.N[F], problem.variance_floor(k0), k0)


def prefix(posterior: Posterior, rank: int) -> Posterior:
    """The posterior after the first `rank` of its actions; needs no product."""
    state = posterior.state.believing(posterior.state.belief.prefix(rank))
    return Posterior(posterior.problem, state, posterior.policy)


def with_targets(posterior: Posterior) -> Posterior:
    """The posterior with its targets restored, if a file did not store them."""
    state = posterior.state.with_targets()
    return posterior if state is posterior.state else Posterior(state.problem, state, posterior.policy)


def products(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """(K Q)_rows; recomputed if a file did not store them."""
    state = posterior.state
    if isinstance(state.basis.KQ, PRODUCTS):
        return state.basis.KQ.rows(rows)[:, : state.rank]
    return (state.L @ posterior.at(posterior.problem.X[rows]).W).T


def fine_products(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """(K Q)_rows, in float64 if some products are coarser than others.

    A unit vector inside the fold vanishes with it, and what is left of its row of G is the difference between
    two roundings of the same entries: of float64 products, and of float32 ones. It would count as data with
    the tiny tau of a float64 product.
    """
    state, X = posterior.state, posterior.problem.X
    tau = state.tau[: state.rank]
    if not tau.size or tau.min() >= MIXED * tau.max() or not isinstance(state.basis.KQ, PRODUCTS):
        return products(posterior, rows)
    gram, support = posterior.problem.gram, state.basis.support()
    if support is None:
        return state.basis.projected(gram, X[rows], state.rank).T
    return gram.cross(X[rows], state.basis.dense(0, state.rank), support)


def tile(posterior: Posterior, I: np.ndarray, J: np.ndarray) -> np.ndarray:  # noqa: E741 (rows I and J)
    """K_IJ"""
    X = posterior.problem.X
    return posterior.problem.gram.dense(X[I], X[J])


def _factor(G: np.ndarray, tau: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """L, and its actions: all of them, unless rounding exceeds its bound.

    Without the rows F, actions may vanish, or be linearly dependent: then some Q_{-F} w is zero, and w^T
    G_{-F} w is only rounding. So `tau`, which is in G, is raised to that: the actions are observed with that
    much noise. In such a direction the right-hand side is also of the size of rounding, so it has little
    effect.
    """
    raised = np.maximum(tau, rounding)
    np.fill_diagonal(G, np.diag(G) + (raised - tau))
    return cholesky_keeping(G, 0.5 * raised)


def _solve(L: np.ndarray, B: np.ndarray, transposed: bool = False, own: bool = False) -> np.ndarray:
    """L^{-1} B, which may take the place of B if that is one's own."""
    if not len(L):
        return np.zeros((0, B.shape[1]))
    return scipy.linalg.solve_triangular(
        L, B, lower=True, trans=int(transposed), overwrite_b=own, check_finite=False
    )
