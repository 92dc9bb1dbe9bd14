"""Gradients in the inputs: of means and variances, and of any function of means and covariances.

With its actions held fixed, a process is a smooth function of where it is asked. Its mean is
mu(x) + k_x^T P b, and its error at x' is f(x') - mu(x') - c_{x'}^T b with c_{x'} = P k_{x'}, so that

    d mean(x) = d mu(x) + d k_x^T P b,    d cov(x, x') = d k(x, x') - d k_x^T c_{x'}.

All of it is the derivative of a weighted sum of kernel values in its first argument, which engines have
(`Engine.in_inputs`); the weights are those of the points themselves, of the rows, and, of dense actions, Q g.
Points with actions of their own have another term: the error at x' is not orthogonal to the actions of x.
Which rows these are changes from place to place. There the mean and the variance have a small jump, which no
gradient shows; `posterior.around(X)` has none.

At a row of the data, a kernel such as Matern12 has no derivative: its part counts as 0 there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.validate import as_float64, finite

if TYPE_CHECKING:
    from itergp.posterior.around import JointPosterior
    from itergp.posterior.at import At, LocalAt
    from itergp.posterior.combined import Posterior
    from itergp.posterior.joint import Estimates

POINTS = 64  # at once: n weights for each


@dataclass(frozen=True)
class Gradients:
    """Of mean and variance in the inputs, at each point: `mean` is (m, d), or (m, d, t) for several targets;
    `var` is (m, d), or (m, d, t) if each target has its own."""

    mean: np.ndarray
    var: np.ndarray


@dataclass(frozen=True, eq=False)
class Pull:
    """Points in groups, and the slopes of a function in their means and in the covariances of each group."""

    X: np.ndarray  # (b, q, d)
    mean: np.ndarray  # (b, q, t)
    cov: np.ndarray  # (b, q, q), symmetric: the slope in both of cov(x, x') and cov(x', x)

    @staticmethod
    def of(X: np.ndarray, targets: int, mean: ArrayLike | None, cov: ArrayLike | None) -> "Pull":
        """`mean` is (m,), or (m, t) for several targets, `cov` is (m, m), where X is (m, d); or (b, q), (b,
        q, t) and (b, q, q), where it is (b, q, d)."""
        *shape, _ = X.shape
        each = () if targets == 0 else (targets,)
        M = _slopes("mean", mean, (*shape, *each))
        S = _slopes("cov", cov, (*shape, shape[-1]))
        b, q = (1, *shape)[-2:]
        S = S.reshape(b, q, q)
        return Pull(X.reshape(b, q, -1), M.reshape(b, q, max(1, targets)), S + S.swapaxes(1, 2))

    @property
    def points(self) -> np.ndarray:
        return self.X.reshape(-1, self.X.shape[2])

    @property
    def means(self) -> np.ndarray:
        """(m, t)"""
        return self.mean.reshape(len(self.points), -1)

    def mixed(self, A: np.ndarray) -> np.ndarray:
        """A M, where M is the block-diagonal matrix of the slopes in covariances; A is (k, m)."""
        b, q = self.X.shape[:2]
        return (A.reshape(-1, b, q).swapaxes(0, 1) @ self.cov).swapaxes(0, 1).reshape(A.shape)

    def between(self) -> np.ndarray:
        """The same matrix, (m, m)."""
        return scipy.linalg.block_diag(*self.cov)

    def parts(self) -> list["Pull"]:
        """Some groups at a time."""
        b, q = self.X.shape[:2]
        step = max(1, POINTS // q)
        starts = range(0, b, step)
        return [Pull(self.X[i : i + step], self.mean[i : i + step], self.cov[i : i + step]) for i in starts]


@dataclass(frozen=True, eq=False)
class Seen:
    """What is estimated, as the actions see it: the targets of a posterior, or those of draws from it."""

    z: np.ndarray  # L^{-1} Q^T b, (r, t)
    residual: Callable[[np.ndarray], np.ndarray]  # what the actions leave of b at some rows, (rows, t)

    @staticmethod
    def of(posterior: "Posterior") -> "Seen":
        state = posterior.state
        return Seen(state.z[: state.rank], lambda rows: state.residual[rows])


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of the data at each point: Q L^{-T} g on all actions, and `own` on some rows."""

    g: np.ndarray  # (r, m)
    rows: np.ndarray
    own: np.ndarray  # (rows, m)


def gradients(process: Any, X: np.ndarray, targets: int) -> Gradients:
    """Of mean and variance at each point of X, (m, d), each a group of its own; `targets` is 0 for y (n,)."""
    alone, ones = X[:, None, :], np.ones((len(X), 1))
    slopes = [
        process.pullback(alone, mean=ones if targets == 0 else np.eye(targets)[[[t]]] * ones[:, :, None])
        for t in range(max(1, targets))
    ]
    mean = slopes[0] if targets == 0 else np.stack(slopes, axis=-1)
    var = process.pullback(alone, cov=ones[:, :, None])
    return Gradients(mean[:, 0], var[:, 0])


def pullback(
    process: Any, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
) -> np.ndarray:
    """The gradient in X of a function of means and covariances of a process with actions on top of those of
    its posterior, from the slopes in these."""
    posterior, seen = process.posterior, Seen.of(process.posterior)
    pull = Pull.of(posterior._groups(X), posterior._targets, mean, cov)
    return pulled(posterior, pull, lambda some: process.pulled_weights(some, seen)).reshape(np.shape(X))


def pulled(posterior: "Posterior", pull: Pull, weights: Callable[[Pull], Weights]) -> np.ndarray:
    """The gradient in X, (b, q, d); `weights(pull)` are those of some groups."""
    of_prior = posterior.problem.prior.mean_pullback(pull.points, pull.means)
    return of_prior.reshape(pull.X.shape) + pulled_update(posterior, pull, weights)


def pulled_update(posterior: "Posterior", pull: Pull, weights: Callable[[Pull], Weights]) -> np.ndarray:
    """Without the prior mean."""
    found = [_pulled(posterior, part, weights(part)) for part in pull.parts()]
    return np.concatenate([np.zeros((0, *pull.X.shape[1:])), *found])


def _pulled(posterior: "Posterior", pull: Pull, weights: Weights) -> np.ndarray:
    problem, state, X = posterior.problem, posterior.state, pull.points
    of_rows = state.basis.combine(state.factor.solve_transposed(weights.g, state.rank))
    of_rows[weights.rows] += weights.own
    rows = np.flatnonzero(of_rows.any(axis=1))
    places = np.concatenate([X, problem.X[rows]])
    slopes = problem.gram.input_gradient(X, places, np.hstack([pull.between(), of_rows[rows].T]))
    return slopes.reshape(pull.X.shape)


def of_global(at: "At", pull: Pull) -> Weights:
    """P b = Q L^{-T} z, and P k_x = Q L^{-T} w."""
    z = at.posterior.state.z[: at.posterior.rank]
    none = np.zeros(0, dtype=np.intp), np.zeros((0, len(at.X)))
    return Weights(z @ pull.means.T - pull.mixed(at.W), *none)


def of_joint(process: "JointPosterior", pull: Pull, seen: Seen) -> Weights:
    """The same with the shared rows: on these P b is a = (L_U L_U^T)^{-1} r_U, and g is z - H^T a."""
    found = process.estimates(pull.points)
    a = scipy.linalg.cho_solve((process.L, True), seen.residual(process.rows), check_finite=False)
    z = seen.z - process.H.T @ a
    own = a @ pull.means.T - pull.mixed(np.asarray(found.A).T)
    return Weights(z @ pull.means.T - pull.mixed(found.w), process.rows, own)


def of_local(at: "LocalAt", pull: Pull, seen: Seen) -> Weights:
    """With rows of its own at each point: of P b and of P u, where u is what the estimate at another point of
    the group leaves of k there, the weights on these rows are a = S_J^{-1} r_J."""
    found, actions = at.estimates(), at.actions()
    rest = np.einsum("pjt,pt->pj", seen.residual(actions.rows)[actions.J], pull.means)
    if pull.X.shape[1] > 1:
        rest -= _unexplained(at, found, pull)
    a = actions.solved(rest)
    A = found.A.T.toarray()
    own = -pull.mixed(A)
    np.add.at(own, (actions.J, np.arange(len(at.X))[:, None]), a)
    g = seen.z @ pull.means.T - pull.mixed(found.w)
    return Weights(g - np.einsum("pjr,pj->rp", actions.H[actions.J], a), actions.rows, own)


def _unexplained(at: "LocalAt", found: "Estimates", pull: Pull) -> np.ndarray:
    """u_J for each point, (points, neighbours), summed over the others of its group with their slopes: u is
    k(X, x') - K_hat c_{x'}, which vanishes at the rows of x' itself."""
    problem, actions, q = at.at.posterior.problem, at.actions(), pull.X.shape[1]
    X, A = problem.X[actions.rows], found.A.T.tocsc()
    out = np.empty(actions.J.shape)
    for group, slopes in enumerate(pull.cov):
        here = np.arange(group * q, (group + 1) * q)
        rows, J = np.unique(actions.J[here], return_inverse=True)
        own = A[rows][:, here].toarray()
        u = problem.gram.dense(X[rows], at.X[here]) - actions.H[rows] @ found.w[:, here]
        u -= problem.gram.dense(X[rows], X[rows]) @ own
        u -= (problem.N[actions.rows[rows]] + found.jitter)[:, None] * own
        apart = slopes.copy()
        np.fill_diagonal(apart, 0.0)
        out[here] = np.take_along_axis((u @ apart).T, J.reshape(q, -1), axis=1)
    return out


def _slopes(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray:
    if values is None:
        return np.zeros(shape)
    found = finite(name, as_float64(name, values))
    if found.shape != shape:
        raise InputError(f"{name} has shape {found.shape}; expected {shape}: the slope in each {name}.")
    return found
