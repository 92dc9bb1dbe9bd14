"""The log marginal likelihood of all data, using only products with K: block solves, probes, Lanczos
quadrature.

With P = N + Q, Q the Nystrom matrix of some random rows, and probes z of covariance P:

    log det K_hat = log det P + E[v^T log(P^{-1/2} K_hat P^{-1/2}) v],   v = P^{-1/2} z,
    tr(K_hat^{-1} dK_hat) = tr(P^{-1} dP) + E[u^T dK_hat p - p^T dP p],   u = K_hat^{-1} z,  p = P^{-1} z.

The first terms are computed exactly, the expectations by a few probes: the part of K_hat captured by P adds
no variance. One run of preconditioned conjugate gradients, with all columns sharing each product, gives
K_hat^{-1} y, K_hat^{-1} z and, from its own coefficients, the quadrature (Gardner et al. 2018; control
variates as in Wenger et al. 2022). The probes are the same in every call, and solves start from the previous
solutions.

Random rows precondition as well as the pivots of a Cholesky factor (passes on Bike, n = 6,000, two
lengthscales, two noises, ranks 128 to 1,024: within 20 % of each other, either way), cost nothing to find,
and do not depend on the kernel, so the objective stays smooth when the kernel changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from itergp.data.rows import Rows
from itergp.errors import ItergpError
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.nystrom import Nystrom
from itergp.learning.parameters import Evaluation
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import added
from itergp.validate import count, positive

Product = Callable[[np.ndarray], np.ndarray]


class OutOfTime(ItergpError):  # noqa: N818 (not an error of the caller's)
    """The deadline passed while an objective was being evaluated."""


def iterative(
    rows: Rows,
    *,
    probes: int = 8,
    rank: int = 512,
    tolerance: float = 1e-2,
    max_iterations: int = 200,
    seed: int = 0,
    compute: Compute = Compute(),
    deadline: float | None = None,
    tick: Tick = no_tick,
) -> "IterativeLikelihood":
    """- log N(y; 0, K_hat) per observation, estimated with `probes` random vectors and a rank-`rank`
    preconditioner.

    Solves end at a residual of `tolerance` relative to the right-hand side. `deadline` is a value of
    time.perf_counter(); a call in progress then raises OutOfTime, between two tiles. `tick` is called there
    too.
    """
    return IterativeLikelihood(
        rows,
        count("probes", probes),
        count("rank", rank),
        positive("tolerance", tolerance),
        count("max_iterations", max_iterations),
        seed,
        compute,
        deadline,
        tick,
    )


@dataclass(frozen=True)
class Work:
    """The cost of one evaluation, and its accuracy."""

    passes: int  # products with K
    residual: float  # the largest relative residual of a solve
    standard_error: float  # of the value, from the spread between probes, in nats per observation


class IterativeLikelihood:
    """An objective that starts from the solutions of its last call. `work` is a record of that call."""

    def __init__(
        self,
        rows: Rows,
        probes: int,
        rank: int,
        tolerance: float,
        max_iterations: int,
        seed: int,
        compute: Compute,
        deadline: float | None,
        tick: Tick,
    ) -> None:
        self.rows, self.tolerance, self.max_iterations = rows, tolerance, max_iterations
        self.compute, self.deadline, self.tick = compute, deadline, tick
        rng = np.random.default_rng(seed)
        self._Z = rows.X[np.sort(rng.choice(rows.n, min(rank, rows.n), replace=False))]
        self._w_X, self._w_Z = (rng.choice([-1.0, 1.0], (size, probes)) for size in (rows.n, len(self._Z)))
        self._solutions: np.ndarray | None = None
        self.work = Work(0, np.inf, np.inf)

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        return sound(kernel, lambda: self._evaluate(kernel, noise))

    def _tick(self) -> None:
        self.tick()
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise OutOfTime(
                "The deadline passed before the likelihood was evaluated; allow more time, or use fewer rows."
            )

    def _evaluate(self, kernel: Kernel, noise: float) -> Evaluation:
        rows, t, N = self.rows, self.rows.t, self.rows.N(noise)
        self._tick()
        # tiles in the precision that the noise requires
        gram = Gram.for_noise(kernel, rows.X, N, self.compute)
        nystrom = Nystrom.of(gram, self._Z, N)
        z = nystrom.draws(self._w_X, self._w_Z)
        p = nystrom.P.solve(z)

        def product(V: np.ndarray) -> np.ndarray:
            return gram.multiply(V, self._tick) + N[:, None] * V

        solved, quadratures = self._solve(product, nystrom, z)
        alpha, u, s = solved.X[:, :t], solved.X[:, t : t + z.shape[1]], z.shape[1]
        self._solutions = solved.X[:, : t + s] if np.isfinite(solved.X).all() else None
        # y^T alpha + alpha^T r has an error of r^T K_hat^{-1} r only: second order
        energy = float((alpha * (rows.Y + solved.R[:, :t])).sum())
        logdet = nystrom.P.logdet() + float(quadratures.mean())
        value = 0.5 * (energy + t * (logdet + rows.n * np.log(2.0 * np.pi)))
        standard_error = 0.5 * t * _standard_error(quadratures) / rows.total
        self.work = Work(gram.passes, float(solved.residuals[: t + s].max()), standard_error)
        # <W, dK>, W = t/(2s) u p^T - alpha alpha^T / 2, and <G, dP> for what P contributes in closed form
        slopes = gram.low_rank_gradient(
            np.hstack([0.5 * t / s * u, -0.5 * alpha]), np.hstack([p, alpha]), self._tick
        )
        GU = 0.5 * t * (nystrom.scaled() - p @ (p.T @ nystrom.U) / s)
        slopes = added(slopes, nystrom.gradient(GU)[0])
        in_N = 0.5 * (t / s * (p * (u - p)).sum(axis=1) - (alpha**2).sum(axis=1))
        slope = float((in_N / rows.precision).sum()) + 0.5 * t * nystrom.noise_share() / noise
        return per_observation(rows, noise, value, slopes, slope)

    def _solve(self, product: Product, nystrom: Nystrom, z: np.ndarray) -> tuple["Solved", np.ndarray]:
        """K_hat^{-1} [y, z], from a warm start, and the quadratures of the probes, which need a cold start of
        their own.

        The quadrature converges twice as fast as the solve, so the cold columns end at the square root of the
        tolerance.
        """
        B, s = np.hstack([self.rows.Y, z, z]), z.shape[1]
        warm = np.zeros((len(z), B.shape[1] - s)) if self._solutions is None else self._solutions
        start = np.hstack([warm, np.zeros_like(z)])
        tolerances = np.repeat([self.tolerance, self.tolerance**0.5], [B.shape[1] - s, s])
        solved = conjugate_gradients(product, nystrom.P.solve, B, start, tolerances, self.max_iterations)
        return solved, np.array(
            [solved.quadrature(np.log, column) for column in range(B.shape[1] - s, B.shape[1])]
        )


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions X with their residuals R, and the coefficients of the iteration, one list per column."""

    X: np.ndarray
    R: np.ndarray
    residuals: np.ndarray  # |r| / |b|
    energies: np.ndarray  # b^T P^{-1} b, for columns that started at zero
    steps: list[list[float]]  # alpha of textbook conjugate gradients
    turns: list[list[float]]  # beta

    def quadrature(self, function: Callable[[np.ndarray], np.ndarray], column: int) -> float:
        """v^T f(H) v for H = P^{-1/2} K_hat P^{-1/2}, v = P^{-1/2} b: the coefficients are those of Lanczos
        started at v."""
        a, b = np.array(self.steps[column]), np.array(self.turns[column])
        if not a.size:
            return 0.0
        diagonal = 1.0 / a + np.concatenate([[0.0], b[: a.size - 1] / a[:-1]])
        values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, np.sqrt(b[: a.size - 1]) / a[:-1])
        least = float(np.finfo(np.float64).eps) * float(values.max())
        return float(self.energies[column]) * float(vectors[0] ** 2 @ function(np.maximum(values, least)))


def conjugate_gradients(
    product: Product,
    solve: Product,
    B: np.ndarray,
    start: np.ndarray,
    tolerances: np.ndarray,
    max_iterations: int,
) -> Solved:
    """Preconditioned conjugate gradients for each column of B, all columns in one product per step."""
    X, R = start.copy(), B.copy()
    moved = X.any(axis=0)
    if moved.any():
        R[:, moved] -= product(X[:, moved])
        # a warm start may be worse than none
        worse = np.linalg.norm(R, axis=0) > np.linalg.norm(B, axis=0)
        X[:, worse], R[:, worse] = 0.0, B[:, worse]
    Z = solve(R)
    D, rz, goals = Z.copy(), (R * Z).sum(axis=0), tolerances * np.linalg.norm(B, axis=0)
    energies = rz.copy()
    steps: list[list[float]] = [[] for _ in rz]
    turns: list[list[float]] = [[] for _ in rz]
    active = np.flatnonzero((np.linalg.norm(R, axis=0) > goals) & (rz > 0))
    for _ in range(max_iterations):
        if not active.size:
            break
        KD = product(D[:, active])
        curvature = (D[:, active] * KD).sum(axis=0)
        going = curvature > 0  # otherwise rounding dominates
        active, KD, curvature = active[going], KD[:, going], curvature[going]
        a = rz[active] / curvature
        X[:, active] += a * D[:, active]
        R[:, active] -= a * KD
        Z = solve(R[:, active])
        new = (R[:, active] * Z).sum(axis=0)
        b = np.maximum(new, 0.0) / rz[active]
        D[:, active] = Z + b * D[:, active]
        rz[active] = new
        for column, step, turn in zip(active, a, b, strict=True):
            steps[column].append(float(step))
            turns[column].append(float(turn))
        active = active[(np.linalg.norm(R[:, active], axis=0) > goals[active]) & (new > 0)]
    norms = np.linalg.norm(B, axis=0)
    return Solved(X, R, np.linalg.norm(R, axis=0) / np.where(norms > 0, norms, 1.0), energies, steps, turns)


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else np.inf
