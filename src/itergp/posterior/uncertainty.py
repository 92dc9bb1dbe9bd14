"""Distance to the exact GP: exact (small n), estimated with an error bar, or certified. Never mixed up."""

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from scipy.special import stdtrit

from itergp import brief
from itergp.errors import InputError
from itergp.limits import DENSE_ROWS
from itergp.linalg.compute import require_bytes
from itergp.linalg.products import slabs
from itergp.posterior.bounds import System, Weights, bounded, variance_bounds
from itergp.posterior.local import NEIGHBOURS
from itergp.validate import choice, count

if TYPE_CHECKING:
    from itergp.posterior.at import At
    from itergp.posterior.combined import Posterior

POINTS = 256  # test points per batch: n x POINTS numbers
PASSES = 4  # of an estimate
# an estimate starts from this multiple of the neighbours; half of it for more points than these
WIDER, MANY = 4, 1000
# share of the variance: if rounding cannot have added more, a posterior of rank n is the exact GP
NOTHING = 1e-6


class Shares:
    """The computational part of the variance, summed over all points."""

    combined: np.ndarray
    computational: np.ndarray
    computational_lower: np.ndarray
    computational_upper: np.ndarray
    method: str
    neighbours: int

    @property
    def share(self) -> float:
        """sum of computational / sum of combined; see `share_bounds`."""
        return ratio(self.computational, self.combined)[0]

    @property
    def share_bounds(self) -> tuple[float, float]:
        """The lower and upper bound of the share."""
        return ratio(self.computational_lower, self.combined)[0], ratio(
            self.computational_upper, self.combined
        )[0]


@dataclass(frozen=True)
class Decomposition(Shares):
    """combined = mathematical + computational, per point; the rounding of products counts as computational.

    `exact` says whether the parts are exact; if not, `computational` is its lower bound, and the true value
    is between `computational_lower` and `computational_upper`, guaranteed. `method` says how they were
    computed: "exact", "neighbours" (what that number of `neighbours` per point would remove), "estimate"
    (these, and passes over K) or "certificate".
    """

    combined: np.ndarray
    mathematical: np.ndarray
    computational: np.ndarray
    computational_lower: np.ndarray
    computational_upper: np.ndarray
    exact: bool
    method: str = "exact"
    neighbours: int = 0

    __repr__ = brief.call


@dataclass(frozen=True)
class Certificate:
    """variance_lower <= k_*(x, x) <= variance_upper, |mu_*(x) - mu_i(x)| <= mean_error. Guaranteed, often
    loose."""

    variance_lower: np.ndarray
    variance_upper: np.ndarray
    mean_error: np.ndarray

    __repr__ = brief.call


@dataclass(frozen=True)
class Share:
    """An estimate of sum_x k_comp(x) / sum_x k_i(x), from random probes.

    `error` is its standard error, `half_width` gives an interval. What the passes left unsolved makes the
    estimate too low by at most `bias_bound`, over these probes.
    """

    estimate: float
    error: float
    bias_bound: float
    probes: int

    def half_width(self, level: float = 0.95) -> float:
        """Half the width of an interval with this coverage, apart from the bias: Student's t."""
        return half_width(self.error, self.probes, level)


def ratio(parts: np.ndarray, wholes: np.ndarray, of: float = math.inf) -> tuple[float, float]:
    """sum(parts) / sum(wholes), and its standard error if these are a random sample from `of` of them."""
    m, total = len(wholes), float(wholes.sum())
    if not total > 0:
        return 0.0, 0.0
    value = float(parts.sum()) / total
    spread = float(((parts - value * wholes) ** 2).sum()) / max(1, m - 1)
    return value, math.sqrt(spread * m * max(0.0, 1.0 - m / of)) / total


def half_width(error: float, number: int, level: float = 0.95) -> float:
    """Half-width of a central interval, from a standard error over this number of values: by Student's t."""
    return float(stdtrit(number - 1, 0.5 + level / 2)) * error if error > 0 else 0.0


def decompose(
    at: "At",
    combined: np.ndarray,
    neighbours: int = 0,
    method: str = "auto",
    passes: int | None = None,
) -> Decomposition:
    """Decompose these variances at the points, of the posterior or of its local actions."""
    posterior = at.posterior
    choice("method", method, ("auto", "exact", "estimate", "certificate"))
    passes = PASSES if passes is None else count("passes", passes, least=0)
    if method in ("auto", "exact") and is_exact(posterior):
        return taken_apart(combined, combined, combined, "exact")
    if method == "exact" or (method == "auto" and posterior.problem.n <= DENSE_ROWS):
        try:
            exact = exact_variance(posterior, at.X)
            return taken_apart(combined, exact, exact, "exact")
        except InputError:  # singular to rounding
            if method == "exact":
                raise
    if method == "certificate":
        return taken_apart(combined, certify(at).variance_lower, combined, method)
    wide = more_neighbours(posterior, neighbours, len(at.X))
    if passes:
        bounds = variance_bounds(at, wide, passes)
        return taken_apart(combined, bounds.lower, bounds.upper, "estimate", wide)
    upper = at.local(wide).var if wide else combined
    return taken_apart(combined, certify(at).variance_lower, upper, "neighbours", wide)


def more_neighbours(posterior: "Posterior", neighbours: int, points: int) -> int:
    """How many neighbours an estimate gives to each point: none if rank n leaves only rounding."""
    n = posterior.problem.n
    return (
        0
        if posterior.rank == n
        else min(n, (neighbours or NEIGHBOURS) * (WIDER if points <= MANY else WIDER // 2))
    )


def taken_apart(
    combined: np.ndarray, lower: np.ndarray, upper: np.ndarray, method: str = "exact", neighbours: int = 0
) -> Decomposition:
    """From bounds on k_*; combined variances are below it only by rounding."""
    most = np.clip(combined - lower, 0.0, combined)
    least = np.clip(combined - upper, 0.0, most)
    return Decomposition(
        combined, combined - least, least, least, most, method == "exact", method, neighbours
    )


def is_exact(posterior: "Posterior") -> bool:
    """Whether there are as many actions as rows, and rounding adds almost nothing.

    At rank n, k_i - k_* <= 2 tau |c|^2, where c are the weights of the exact GP, and k_* >= c^T N c.
    """
    state, problem = posterior.state, posterior.problem
    return state.rank == problem.n and 2.0 * float(state.tau.max(initial=0.0)) <= NOTHING * problem.N.min()


def exact_variance(posterior: "Posterior", X: np.ndarray) -> np.ndarray:
    """k_*(x, x) by a dense Cholesky factorisation: cubic in n."""
    return variance_by(dense_factor(posterior), posterior, X)


def dense_factor(posterior: "Posterior") -> np.ndarray:
    """L L^T = K_hat, dense."""
    problem = posterior.problem
    require_bytes(
        24.0 * problem.n**2, f"the exact GP on {problem.n} rows", "Use method='estimate' or 'certificate'."
    )
    try:
        return scipy.linalg.cholesky(problem.K_hat(), lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise InputError(
            "K + noise is singular to rounding, so the exact GP cannot be computed; give more noise, or use "
            "method='certificate'."
        ) from None


def variance_by(L: np.ndarray, posterior: "Posterior", X: np.ndarray) -> np.ndarray:
    """k_*(x, x) = k0 - |L^{-1} k_x|^2"""
    problem = posterior.problem
    k0, variance = problem.prior.var(X), []
    for start in range(0, len(X), 4 * POINTS):
        some = slice(start, start + 4 * POINTS)
        K_x = problem.gram.dense(problem.X, X[some])
        W = scipy.linalg.solve_triangular(L, K_x, lower=True)
        variance.append(k0[some] - (W**2).sum(axis=0))
    return np.maximum(np.concatenate(variance), problem.variance_floor(k0))


def unexplained(at: "At") -> tuple[np.ndarray, np.ndarray]:
    """|N^{-1/2} e_x| with e_x = k_x - K_hat Q g and g = G^{-1} Q^T k_x: the part of k_x not seen by the
    actions; and g."""
    problem, state = at.posterior.problem, at.posterior.state
    g, root = state.factor.solve_transposed(at.W, state.rank), np.sqrt(problem.N)[:, None]
    if not state.basis.lean_until(state.rank):
        e = problem.gram.dense(problem.X, at.X) - state.basis.KQ.combine(g)
        return np.linalg.norm((e - problem.N[:, None] * state.basis.combine(g)) / root, axis=0), g
    norms, remade = [], state.basis.remade
    touched, v = remade.support, remade.weights(g)
    for rows in slabs(touched.size + 2 * len(at.X), problem.n):
        e = problem.gram.dense(problem.X[rows], at.X)
        e -= problem.gram.multiply_points(problem.X[rows], touched, v)
        inside = slice(*np.searchsorted(touched, [rows.start, rows.stop]))
        e[touched[inside] - rows.start] -= problem.N[touched[inside], None] * v[inside]
        norms.append(np.linalg.norm(e / root[rows], axis=0))
    return functools.reduce(np.hypot, norms), g


def certify(at: "At") -> Certificate:
    """From e_x, the residual and the noise alone, including the rounding of products (errata page)."""
    problem, state, k0, variance = at.posterior.problem, at.posterior.state, at.k0, at.var
    lowest = problem.N.min()
    if not lowest > 0:  # without noise nothing bounds K_hat^{-1}
        return Certificate(np.zeros_like(k0), variance, np.full(len(k0), np.inf))
    tau = float(state.tau[: state.rank].max(initial=0.0))
    c = np.linalg.norm(state.coefficients)
    r = np.linalg.norm(state.residual / np.sqrt(problem.N)[:, None]) + tau * c / np.sqrt(
        lowest
    )  # the true residual, in this norm
    lower, mean_error = [], []
    for start in range(0, len(k0), POINTS):
        e_norm, g = unexplained(at.some(slice(start, start + POINTS)))
        g_norm = np.linalg.norm(g, axis=0)
        a = e_norm + tau * g_norm / np.sqrt(lowest)
        lower.append(a**2 + 2.0 * tau * g_norm**2)
        mean_error.append(a * r + 2.0 * tau * g_norm * c)
    rounding = 64 * np.finfo(np.float64).eps * k0
    below = np.maximum(variance - np.concatenate(lower) - rounding, problem.variance_floor(k0))
    return Certificate(
        np.minimum(below, variance), variance, np.concatenate(mean_error) + rounding * (1.0 + c)
    )


def computational_share(posterior: "Posterior", X: np.ndarray, probes: int, passes: int) -> Share:
    """For random signs xi, E[xi^T k_comp(X, X) xi] = sum_x k_comp(x), and likewise for k_i: the ratio over
    the same probes.

    A probe is a point with k_xi = k(X_train, X) xi and the prior variance xi^T k(X, X) xi.
    """
    problem, state = posterior.problem, posterior.state
    if is_exact(posterior):
        return Share(0.0, 0.0, 0.0, probes)
    signs = np.random.default_rng([int(state.seed), int(state.counter), 7]).choice(
        [-1.0, 1.0], (len(X), probes)
    )
    K_x = problem.gram.cross_transposed(X, signs)
    some = [slice(start, start + POINTS) for start in range(0, len(X), POINTS)]
    k0 = sum((signs[rows] * (problem.gram.dense(X[rows], X) @ signs)).sum(axis=0) for rows in some)
    w = state.factor.solve(state.basis.inner(K_x)[: state.rank], state.rank)
    g = state.factor.solve_transposed(w, state.rank)
    weights = Weights(state.basis.combine(g), state.basis.KQ.combine(g))
    bounds = bounded(System(posterior, K_x, np.zeros(0, dtype=np.intp)), k0, weights, passes)
    combined = np.maximum(k0 - (w**2).sum(axis=0), problem.variance_floor(k0))
    parts = taken_apart(combined, bounds.lower, bounds.upper, "estimate")
    value, error = ratio(parts.computational, parts.combined)
    return Share(value, error, parts.share_bounds[1] - value, probes)


def rkhs_error(posterior: "Posterior") -> tuple[float, float]:
    """|mu_* - mu_i| in the RKHS of k, and |mu_* - mu|: by a dense solve, for small n (Thm. 1)."""
    problem = posterior.problem
    if problem.n > DENSE_ROWS:
        raise InputError(
            f"rkhs_error needs the exact GP, so it takes at most {DENSE_ROWS} rows; there are {problem.n}."
        )
    K_hat = problem.K_hat()
    K = K_hat - np.diag(problem.N)
    v = scipy.linalg.solve(K_hat, problem.b, assume_a="pos")
    error = v - posterior.state.representer_weights
    norm = lambda u: float(np.sqrt(max(0.0, float((u * (K @ u)).sum()))))  # noqa: E731
    return norm(error), norm(v)
