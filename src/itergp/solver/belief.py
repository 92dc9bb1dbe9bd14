"""Belief: what the actions so far say about v*. Only this goes on to inference and to files."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from itergp import brief
from itergp.errors import InputError
from itergp.linalg.basis import Basis, Factor, as_dense
from itergp.linalg.blas import dense_threads
from itergp.linalg.columns import Sums, Vectors
from itergp.linalg.compute import fitting, require_bytes
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.linalg.products import PRODUCTS, Remade, lowered
from itergp.solver.problem import Problem

# Entries of Q^T K Q between two actions come from the product whose tau is below this share of the other's,
# or from either if both are similar. The coarser one would have an error of its own tau, while only
# sqrt(tau_1 tau_2) is allowed for.
FINER = 0.1
SLAB = 512  # rows or columns per batch


@dataclass(frozen=True, eq=False)
class Belief:
    """The belief about v* of `problem` after the first `rank` actions of `basis`. Immutable.

    `basis` and `factor` may hold more columns than are accepted: a block cut by a budget, or a path of which
    this is a prefix. Weights, residual and variances follow from the fields without another product (errata
    page, "One product per step") and are computed on first use; the loop, which updates them action by
    action, passes them in (`known`), or what they are brought here from (`elsewhere`).
    """

    problem: Problem
    basis: Basis
    blocks: tuple[int, ...]  # where each block of columns starts, and where the last one ends
    factor: Factor  # L L^T = G = Q^T K Q + Q^T N Q + diag(tau)
    factor_A: Factor | None  # of A = Q^T N Q, if the noise differs between rows
    z: np.ndarray  # L^{-1} Q^T b
    tau: np.ndarray
    rank: int = 0

    __repr__ = brief.call

    @staticmethod
    def start(problem: Problem) -> "Belief":
        """No computation yet: the belief about v* is N(0, K_hat^{-1}), which gives back the prior (Eq. 2)."""
        belief = Belief(
            problem=problem,
            basis=Basis.empty(problem.n, problem.gram.engine.columns(problem.n)),
            blocks=(0,),
            factor=Factor.empty(),
            factor_A=Factor.empty() if problem.noise_differs else None,
            z=np.zeros((0, problem.targets)),
            tau=np.zeros(0),
        )
        return belief.knowing(
            representer_weights=np.zeros_like(problem.b),
            residual=problem.b.copy(),
            training_variance=problem.gram.diagonal(),
            trace_GA=0.0,
        )

    # Other beliefs.

    def knowing(self, **known: Any) -> "Belief":
        """The same belief, with some of the values that follow from it precomputed."""
        belief = replace(self)
        vars(belief).update(known)  # where cached properties store their values
        return belief

    def observed(
        self, Q: Any, KQ: np.ndarray | Remade, tau: np.ndarray, W: np.ndarray, L_bb: np.ndarray, z: np.ndarray
    ) -> "Belief":
        """Add a block of columns, none of them accepted yet: the belief itself is unchanged."""
        more = replace(
            self,
            basis=self.basis.append(Q, KQ),
            blocks=(*self.blocks, self.basis.size + KQ.shape[1]),
            factor=self.factor.append(W, L_bb),
            factor_A=self.factor_A and _extend_A(self.factor_A, self.basis, Q, self.problem.N),
            z=np.concatenate([self.z, z]),
            tau=np.concatenate([self.tau, tau]),
        )
        return more.knowing(**self._known())

    def accepted(self, rank: int, **known: Any) -> "Belief":
        """After the first `rank` actions, with values that the loop already knows."""
        return replace(self, rank=rank).knowing(**known)

    def prefix(self, rank: int) -> "Belief":
        """After the first `rank` of the accepted actions; needs no product."""
        if not 0 <= rank <= self.rank:
            raise InputError(f"rank is {rank!r}; expected 0 to {self.rank}, the rank of this belief.")
        return self if rank == self.rank else replace(self, rank=rank)

    def with_targets(self) -> "Belief":
        """Restore the targets, if a file did not store them: b = r + K v + N v."""
        problem, basis, v = self.problem, self.basis, self.representer_weights
        if isinstance(problem.b, np.ndarray):
            return self
        if isinstance(basis.KQ, PRODUCTS):
            Kv = basis.KQ.combine(self.coefficients)
        else:
            Kv = problem.gram.cross(problem.X, v, basis.support())
        complete = problem.with_targets(self.residual + Kv + problem.N[:, None] * v)
        complete._set(y=complete.with_prior_mean(problem.X, complete.b))
        return replace(self, problem=complete).knowing(**self._known())

    def under(self, problem: Problem, factor: Factor, factor_A: Factor | None, tau: np.ndarray) -> "Belief":
        """The same actions for another problem with the same K, whose G has this factor."""
        z = factor.solve(self.basis.inner(problem.b))
        basis = self.basis.on(problem.gram)
        return replace(self, problem=problem, basis=basis, factor=factor, factor_A=factor_A, z=z, tau=tau)

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process has all numbers with it."""
        state = dict(vars(self))
        if state.pop(ELSEWHERE, None) is not None:
            state |= {name: getattr(self, name) for name in KNOWN}
        return state

    def _known(self) -> dict[str, Any]:
        """What was computed or passed in so far."""
        return {name: value for name, value in vars(self).items() if name in (*KNOWN, ELSEWHERE)}

    @property
    def elsewhere(self) -> Vectors | None:
        """Weights, residual and variances, if the loop did not keep them in this process."""
        return vars(self).get(ELSEWHERE)

    # What follows from Q, K Q and L.

    @cached_property
    def representer_weights(self) -> np.ndarray:
        """v = Q c, (n, t)"""
        if self.elsewhere is not None:
            return self.elsewhere.weights()
        return self.basis.combine(self.coefficients)

    @cached_property
    def residual(self) -> np.ndarray:
        """r = b - K_hat v, (n, t)"""
        if self.elsewhere is not None:
            return self.elsewhere.residual()
        problem, v = self.problem, self.representer_weights
        return problem.b - self.basis.KQ.combine(self.coefficients) - problem.N[:, None] * v

    @cached_property
    def training_variance(self) -> np.ndarray:
        """k_i(x_j, x_j) at the training inputs: k_jj - |F_j|^2 with F = K Q L^{-T}."""
        if self.elsewhere is not None:
            return self.elsewhere.variance()
        diagonal = self.problem.gram.diagonal()
        variance = diagonal.copy()
        if self.basis.lean_until(self.rank):
            for some, F in self.basis.remade.sweep(self._columns_of_inverse(0, None)):
                variance[some] = lowered(variance[some], F)
        else:
            for start in range(0, self.problem.n, SLAB):
                rows = np.arange(start, min(start + SLAB, self.problem.n))
                for f in self.factor.solve(self.basis.KQ.rows(rows)[:, : self.rank].T, self.rank):
                    variance[rows] -= f * f
        return np.maximum(variance, self.problem.variance_floor(diagonal))

    @cached_property
    def trace_GA(self) -> float:
        """tr(G^{-1} A), for the ELBO"""
        return trace_of_solve(self.factor, noise_gram(self.basis, self.problem), self.rank)

    @property
    def L(self) -> np.ndarray:
        return self.factor.L(self.rank)

    @property
    def coefficients(self) -> np.ndarray:
        """c = G^{-1} Q^T b"""
        return self.factor.solve_transposed(self.z[: self.rank], self.rank)

    @property
    def coarsest(self) -> str:
        """The lowest precision among the products so far and the next ones: a run may have begun with float32
        tiles.

        It is read from tau: no float64 product of these rows can have a larger one, since |K q| <= n max k(x,
        x).
        """
        gram = self.problem.gram
        if gram.dtype == np.float32 or not self.tau.size:
            return gram.dtype.name
        largest = gram.rounding(gram.n, gram.n * float(gram.diagonal().max()), "float64")
        return "float32" if self.tau.max() > largest else "float64"

    def last_products(self) -> np.ndarray:
        """K Q_b of the last block."""
        if len(self.blocks) < 2:
            return np.zeros((self.problem.n, 0))
        return self.basis.KQ.between(self.blocks[-2], self.blocks[-1])

    def search_directions(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """D = Q L^{-T}: conjugate, scaled to eta = 1."""
        return self.basis.combine(self._columns_of_inverse(start, stop))

    def search_products(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """K D, without the noise."""
        return self.basis.KQ.combine(self._columns_of_inverse(start, stop))

    def _columns_of_inverse(self, start: int, stop: int | None) -> np.ndarray:
        stop = self.rank if stop is None else stop
        return self.factor.solve_transposed(np.eye(self.rank)[:, start:stop], self.rank)

    def precision(self) -> np.ndarray:
        """C = D D^T, dense: for tests and small n."""
        D = self.search_directions()
        return D @ D.T

    def preconditioner(self) -> DiagonalPlusLowRank:
        """P = N + U U^T with U = K D (Remark S1, corrected: eta^(-1/2), and eta = 1 here)."""
        n, rank = self.problem.n, self.rank
        what = f"a preconditioner from {rank} actions on {n} rows"
        require_bytes(24.0 * n * rank, what, f"Take it from fewer: {fitting(24.0 * n)} would fit.")
        return DiagonalPlusLowRank(np.array(self.problem.N), self.search_products())

    # Quality measures.

    @property
    def energy(self) -> float:
        return float((self.z[: self.rank] ** 2).sum())

    @cached_property
    def sums(self) -> Sums:
        """Of n numbers each, in one process one after the other: there may be many rows."""
        if self.elsewhere is not None:
            return self.elsewhere.sums()
        N = self.problem.N
        with np.errstate(divide="ignore", invalid="ignore"):  # without noise, two of them say nothing
            return Sums(
                residual_norm=float(np.linalg.norm(self.residual)),
                mean_variance=float(self.training_variance.mean()),
                spread=float((self.training_variance / N).sum()),
                misfit=float(self._squared_misfit().sum()),
                weights=float(_times(np.square(self.representer_weights), N).sum()),
            )

    @property
    def elbo(self) -> float:
        """The computation-aware evidence lower bound, summed over targets."""
        N, t = self.problem.N, self.problem.targets
        if not N.min() > 0:
            return -np.inf
        expected = -0.5 * (t * self._log_spread() + self.sums.misfit)
        logdet_A = (
            self.rank * float(np.log(N[0])) if self.factor_A is None else _logdet(self.factor_A.L(self.rank))
        )
        quadratic = self.energy - self.sums.weights
        return expected - 0.5 * (quadratic + t * (_logdet(self.L) - logdet_A - self.rank + self.trace_GA))

    def _log_spread(self) -> float:
        """sum_j log(2 pi N_j) + k_i(x_j, x_j) / N_j"""
        terms = 2 * np.pi * self.problem.N
        return float(np.log(terms, out=terms).sum() + self.sums.spread)

    def _squared_misfit(self) -> np.ndarray:
        """(b - K Q c)^2 / N"""
        misfit = _times(self.representer_weights.copy(), self.problem.N)
        misfit += self.residual
        np.square(misfit, out=misfit)
        return np.divide(misfit, self.problem.N[:, None], out=misfit)

    @property
    def projected_log_likelihood(self) -> float:
        """log N(Q^T b; 0, G), summed over targets."""
        t = self.problem.targets
        return -0.5 * (self.energy + t * (_logdet(self.L) + self.rank * float(np.log(2 * np.pi))))


KNOWN = ("representer_weights", "residual", "training_variance", "trace_GA")
ELSEWHERE = "_elsewhere"


def _times(V: np.ndarray, N: np.ndarray) -> np.ndarray:
    """N V, in place."""
    return np.multiply(V, N[:, None], out=V)


def _logdet(L: np.ndarray) -> float:
    """log |L L^T|"""
    return 2.0 * float(np.log(np.diag(L)).sum())


def _extend_A(factor: Factor, basis: Basis, Q: Any, N: np.ndarray) -> Factor:
    """The factor of A = Q^T N Q with the columns of another block."""
    NQ = times_noise(N, Q)
    A, cross = as_dense(Q.T @ NQ), basis.inner(NQ)
    with dense_threads(basis.size + len(A)):
        W = factor.solve(cross)
        return factor.append(W, np.linalg.cholesky((A + A.T) / 2 - W.T @ W))


def times_noise(N: np.ndarray, Q: Any) -> Any:
    """N Q; sparse if Q is."""
    if isinstance(Q, np.ndarray):
        return N[:, None] * Q
    return sp.csc_array((Q.data * N[Q.indices], Q.indices, Q.indptr), shape=Q.shape)


def trace_of_solve(factor: Factor, A: np.ndarray, rank: int) -> float:
    """tr(G^{-1} A), of the first `rank` columns"""
    return float(np.trace(factor.solve_transposed(factor.solve(A[:rank, :rank], rank), rank)))


def gram_of(basis: Basis, columns: Callable[[int, int], np.ndarray], tau: np.ndarray) -> np.ndarray:
    """Q^T M for a matrix M that is given by columns, some at a time; symmetric up to rounding.

    Entries come from both sides, or from the more accurate one if the columns differ in precision (`tau`
    bounds their errors).
    """
    parts = [
        basis.inner(columns(start, min(start + SLAB, basis.size))) for start in range(0, basis.size, SLAB)
    ]
    M = np.concatenate(parts, axis=1) if parts else np.zeros((0, 0))
    finer = tau[None, :] < FINER * tau[:, None]  # column j against row i
    return np.where(finer, M, np.where(finer.T, M.T, (M + M.T) / 2))


def noise_gram(basis: Basis, problem: Problem) -> np.ndarray:
    """A = Q^T N Q"""
    if basis.lean:
        Q = basis.actions(basis.size)
        return as_dense(Q.T @ times_noise(problem.N, Q))
    return gram_of(
        basis, lambda start, stop: problem.N[:, None] * basis.dense(start, stop), np.zeros(basis.size)
    )
