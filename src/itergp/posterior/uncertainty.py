"""How far from the exact GP? Exactly (small n), estimated with an error bar, or certified. Never mixed up."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from itergp.errors import InputError
from itergp.linalg.compute import require_bytes
from itergp.solver.loop import solve
from itergp.solver.policies import ConjugateGradient
from itergp.solver.state import State, Status
from itergp.solver.stopping import MaxPasses
from itergp.validate import choice

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior

EXACT_ROWS = 4096  # decompose factorises K_hat up to here
POINTS = 256  # test points handled at once: n x POINTS numbers


@dataclass(frozen=True)
class Decomposition:
    """combined = mathematical + computational, per point.

    `exact` says whether the parts are exact; if not, `computational` is what a few targeted actions could show (so an
    underestimate), and the truth lies between `computational_lower` and `computational_upper`, guaranteed.
    """

    combined: np.ndarray
    mathematical: np.ndarray
    computational: np.ndarray
    computational_lower: np.ndarray
    computational_upper: np.ndarray
    exact: bool


@dataclass(frozen=True)
class Certificate:
    """variance_lower <= k_*(x, x) <= variance_upper, and |mu_*(x) - mu_i(x)| <= mean_error. Guaranteed; often loose."""

    variance_lower: np.ndarray
    variance_upper: np.ndarray
    mean_error: np.ndarray


@dataclass(frozen=True)
class Share:
    """An estimate of sum_x k_comp(x) / sum_x k_i(x) and its standard error over probes; what is left unsolved after
    `passes` makes it an underestimate by at most `bias_bound`."""

    estimate: float
    error: float
    bias_bound: float


def decompose(posterior: "Posterior", X: np.ndarray, method: str = "auto") -> Decomposition:
    choice("method", method, ("auto", "exact", "estimate", "certificate"))
    problem = posterior.problem
    if method == "auto":
        method = "exact" if problem.n <= EXACT_ROWS or posterior.status is Status.EXACT else "estimate"
    combined = posterior.var(X)
    if method == "exact":
        computational = np.zeros_like(combined) if posterior.rank == problem.n else combined - exact_variance(posterior, X)
        computational = np.clip(computational, 0.0, combined)  # beyond only by rounding
        return Decomposition(combined, combined - computational, computational, computational, computational, True)
    upper = combined - certify(posterior, X).variance_lower
    lower = np.zeros_like(combined) if method == "certificate" else np.minimum(combined - targeted(posterior, X).var(X), upper)
    lower = np.maximum(lower, 0.0)
    return Decomposition(combined, combined - lower, lower, lower, upper, False)


def exact_variance(posterior: "Posterior", X: np.ndarray) -> np.ndarray:
    """k_*(x, x) by a dense Cholesky factorisation: cubic in n."""
    return variance_by(dense_factor(posterior), posterior, X)


def dense_factor(posterior: "Posterior") -> np.ndarray:
    """L L^T = K_hat, dense."""
    problem = posterior.problem
    require_bytes(24.0 * problem.n**2, f"the exact GP on {problem.n} rows", "Use method='estimate' or 'certificate'.")
    try:
        return scipy.linalg.cholesky(problem.K_hat(), lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise InputError(
            "K + noise is singular to rounding, so the exact GP cannot be computed; give more noise, or use method='certificate'."
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


def unexplained(posterior: "Posterior", X: np.ndarray, W: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """e_x = k_x - K_hat Q g with g = G^{-1} Q^T k_x: what of k_x the actions have not seen, n x m; and g."""
    problem, state = posterior.problem, posterior.state
    K_x = problem.gram.cross_transposed(X, np.eye(len(X))) if W is None else problem.gram.cross_transposed(X, W)
    g = state.factor.solve_transposed(state.factor.solve(state.basis.inner(K_x)[: state.rank], state.rank), state.rank)
    return K_x - state.basis.KQ.combine(g) - problem.N[:, None] * state.basis.combine(g), g


def certify(posterior: "Posterior", X: np.ndarray) -> Certificate:
    """From e_x, the residual and the noise alone, with the rounding of products counted (errata page)."""
    problem, state = posterior.problem, posterior.state
    k0, variance = problem.prior.var(X), posterior.var(X)
    lowest = problem.N.min()
    if not lowest > 0:  # without noise nothing bounds K_hat^{-1}
        return Certificate(np.zeros_like(k0), variance, np.full(len(X), np.inf))
    tau = float(state.tau[: state.rank].max(initial=0.0))
    root = np.sqrt(problem.N)[:, None]
    c = np.linalg.norm(state.coefficients)
    r = np.linalg.norm(state.residual / root) + tau * c / np.sqrt(lowest)  # the true residual, in this norm
    lower, mean_error = [], []
    for start in range(0, len(X), POINTS):
        e, g = unexplained(posterior, X[start : start + POINTS])
        g_norm = np.linalg.norm(g, axis=0)
        a = np.linalg.norm(e / root, axis=0) + tau * g_norm / np.sqrt(lowest)
        lower.append(a**2 + 2.0 * tau * g_norm**2)
        mean_error.append(a * r + 2.0 * tau * g_norm * c)
    rounding = 64 * np.finfo(np.float64).eps * k0
    below = np.maximum(variance - np.concatenate(lower) - rounding, problem.variance_floor(k0))
    return Certificate(np.minimum(below, variance), variance, np.concatenate(mean_error) + rounding * (1.0 + c))


def targeted(posterior: "Posterior", X: np.ndarray, passes: int = 2) -> "Posterior":
    """The posterior after actions aimed at these points: blocks of e_x, or of random mixtures where they are many."""
    from itergp.posterior.combined import Posterior

    problem = posterior.problem
    mixture = None
    if len(X) > POINTS:
        mixture = np.random.default_rng([posterior.state.seed, 1]).standard_normal((len(X), POINTS))

    def aim(state: State) -> np.ndarray | None:
        e, _ = unexplained(Posterior(problem, state), X, mixture)
        norms = np.linalg.norm(e, axis=0)
        e = e[:, norms > 1e-12 * np.sqrt(problem.n)]
        return e if e.shape[1] else None

    state = replace(posterior.state, trace=())
    return Posterior(problem, solve(problem, aim, MaxPasses(passes), state), aim)


def computational_share(posterior: "Posterior", X: np.ndarray, probes: int, passes: int) -> Share:
    """E[e_xi^T K_hat^{-1} e_xi] = sum_x k_comp(x) for random signs xi: a few deflated CG columns on such e_xi."""
    problem, state = posterior.problem, posterior.state
    total = float(posterior.var(X).sum())
    if state.rank == problem.n:
        return Share(0.0, 0.0, 0.0)
    signs = np.random.default_rng([state.seed, state.counter, 7]).choice([-1.0, 1.0], (len(X), probes))
    e, _ = unexplained(posterior, X, signs)
    probe = problem.with_targets(e)
    z = state.factor.solve(state.basis.inner(e))
    z[: state.rank] = 0.0  # Q^T e = 0: deflated by all that is known; not so for columns that still wait
    start = replace(
        state,
        problem=probe,
        z=z,
        representer_weights=np.zeros_like(e),
        residual=e.copy(),
        trace=(),
    )
    end = solve(probe, ConjugateGradient(), MaxPasses(passes), start)
    solved = (end.z[state.rank : end.rank] ** 2).sum(axis=0)
    lowest = problem.N.min()
    left = (end.residual**2).sum(axis=0) / lowest if lowest > 0 else np.full(probes, np.inf)
    return Share(
        float(solved.mean()) / total,
        float(solved.std(ddof=1)) / np.sqrt(probes) / total,
        float(left.mean()) / total,
    )


def rkhs_error(posterior: "Posterior") -> tuple[float, float]:
    """|mu_* - mu_i| in the RKHS of k, and |mu_* - mu|: by a dense solve, for small n (Thm. 1)."""
    problem = posterior.problem
    if problem.n > EXACT_ROWS:
        raise InputError(f"rkhs_error needs the exact GP, so at most {EXACT_ROWS} rows; there are {problem.n}.")
    K_hat = problem.K_hat()
    K = K_hat - np.diag(problem.N)
    v = scipy.linalg.solve(K_hat, problem.b, assume_a="pos")
    error = v - posterior.state.representer_weights
    norm = lambda u: float(np.sqrt(max(0.0, float((u * (K @ u)).sum()))))  # noqa: E731
    return norm(error), norm(v)
