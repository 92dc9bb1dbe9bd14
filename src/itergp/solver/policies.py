"""Policies: which actions to take. Table 1 of the paper, and extensions of it.

A policy is a callable `state -> action(s)`: a vector (n,), a block (n, b), dense or SciPy-sparse, or None
when it has no more actions. It is stateless: what it needs is in the state, or was prepared once by `start`
and is found in `state.memory`. So runs can be cut, resumed and repeated. Your own policy can be a function:

    def steepest_row(state):
        e = np.zeros(state.problem.n)
        e[abs(state.residual).sum(axis=1).argmax()] = 1.0
        return e
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from itergp import brief
from itergp.errors import InputError
from itergp.limits import DENSE_ROWS
from itergp.solver.problem import Problem
from itergp.solver.state import State
from itergp.solver.stopping import StoppingCriterion
from itergp.validate import choice, count, inputs

Actions = Any  # (n,), (n, b), a SciPy sparse matrix (n, b), or None
Turns = tuple[tuple[Callable[[State], Actions], StoppingCriterion | None], ...]


class Policy(ABC):
    """A callable state -> actions; everything else is optional, also for classes not derived from this."""

    # True if it ends by itself, by returning None: dependent actions do not end it
    finite: ClassVar[bool] = False
    # True if its actions are sparse, so that they take negligible memory
    sparse: ClassVar[bool] = False
    # True if they have a few rows each, so that of many rows their products need not be stored either
    few_rows: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        brief.keep_repr(cls)

    def __repr__(self) -> str:
        return brief.call(self)

    @property
    def turns(self) -> "Turns":
        """The policies that act in turn, each with the criterion that ends its turn; by default only self."""
        return ((self, None),)

    def start(self, state: State) -> Any:
        """What to prepare when the policy takes over; available later as `state.memory`."""
        return None

    def prepared(self, memory: Any, problem: Problem) -> bool:
        """Whether `start` may have returned this: asked of what a file says about the library's own."""
        return memory is None

    @abstractmethod
    def __call__(self, state: State) -> Actions: ...


def _is_array(memory: Any, axes: int) -> bool:
    return isinstance(memory, np.ndarray) and memory.ndim == axes and bool(np.isfinite(memory).all())


def _are_rows(memory: Any, n: int) -> bool:
    """Whether these are numbers of rows."""
    whole = _is_array(memory, 1) and memory.dtype.kind == "i"
    return whole and bool(((memory >= 0) & (memory < n)).all())


def unit_vectors(rows: np.ndarray, n: int) -> sp.csc_array:
    return sp.csc_array((np.ones(rows.size), (rows, np.arange(rows.size))), shape=(n, rows.size))


@dataclass(frozen=True, eq=False)
class UnitVector(Policy):
    """s_i = e_j (IterGP-Chol, Thm. S3): rows in sequence, random, by largest variance, or listed. No pass."""

    finite: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    few_rows: ClassVar[bool] = True
    order: Any = "sequential"
    block_size: int = 1

    def __post_init__(self) -> None:
        count("UnitVector.block_size", self.block_size)
        if isinstance(self.order, str):
            choice("UnitVector.order", self.order, ("sequential", "random", "pivoted"))
        else:
            order = np.asarray(self.order)
            if order.ndim != 1 or order.dtype.kind not in "iu" or order.size == 0 or (order < 0).any():
                raise InputError(
                    f"UnitVector.order is {self.order!r}; expected a name or a list of row numbers from 0."
                )
            object.__setattr__(self, "order", order.astype(np.intp))

    def start(self, state: State) -> np.ndarray:
        """The rows to act on, in order, without those that earlier actions already cover."""
        n = state.problem.n
        rows = np.arange(n) if isinstance(self.order, str) else self.order
        if rows.max() >= n:
            raise InputError(f"UnitVector.order names row {rows.max()}, but there are {n} rows.")
        free = rows[~state.basis.spanned_rows()[rows]]
        return state.rng().permutation(free) if self._is("random") else free

    def prepared(self, memory: Any, problem: Problem) -> bool:
        return _are_rows(memory, problem.n)

    def __call__(self, state: State) -> Actions:
        b = self.block_size
        if self._is("pivoted"):
            free = np.flatnonzero(~state.basis.spanned_rows())
            rows = free[np.argsort(-state.training_variance[free], kind="stable")[:b]]
        else:
            rows = state.memory[state.proposed : state.proposed + b]
        return unit_vectors(rows, state.problem.n) if rows.size else None

    def _is(self, order: str) -> bool:
        return isinstance(self.order, str) and self.order == order


@dataclass(frozen=True, eq=False)
class PseudoInput(Policy):
    """s_i = k(X, z_i) (IterGP-PI): inducing points Z, or a number of random rows. One pass per block."""

    finite: ClassVar[bool] = True
    inducing_points: Any = None  # Z (m, d), a number, or None: random training inputs as long as requested
    block_size: int = 64

    def __post_init__(self) -> None:
        count("PseudoInput.block_size", self.block_size)
        if isinstance(self.inducing_points, int | np.integer):
            count("PseudoInput.inducing_points", self.inducing_points)
        elif self.inducing_points is not None:
            object.__setattr__(
                self, "inducing_points", inputs("PseudoInput.inducing_points", self.inducing_points)
            )

    def start(self, state: State) -> np.ndarray:
        X, Z = state.problem.X, self.inducing_points
        if isinstance(Z, np.ndarray):
            if Z.shape[1] != X.shape[1]:
                raise InputError(
                    f"PseudoInput.inducing_points has {Z.shape[1]} features; the inputs have {X.shape[1]}."
                )
            return Z
        rows = state.rng().permutation(_informative_rows(state))
        return X[rows if Z is None else rows[: int(Z)]]

    def prepared(self, memory: Any, problem: Problem) -> bool:
        return _is_array(memory, 2) and memory.shape[1] == problem.X.shape[1]

    def __call__(self, state: State) -> Actions:
        Z = state.memory[state.proposed : state.proposed + self.block_size]
        return _kernel_actions(state, Z) if len(Z) else None


def _informative_rows(state: State) -> np.ndarray:
    """The rows with k(x, x) > 0: elsewhere k(X, x) = 0, which is not a valid action."""
    return np.flatnonzero(state.problem.gram.diagonal() > 0)


def _kernel_actions(state: State, Z: np.ndarray) -> np.ndarray:
    """k(X, Z), in float64"""
    gram = state.problem.gram
    if not len(Z):  # no engine is called for an empty matrix
        return np.zeros((gram.n, 0))
    return gram.dense(gram.X, Z)


@dataclass(frozen=True, eq=False)
class ConjugateGradient(Policy):
    """s_i = P^{-1} r_{i-1} (Cor. S2), or these made conjugate (Thm. S5): IterGP-CG. One pass per action.

    `preconditioner` has a method `solve`, such as `posterior.preconditioner()`; or it is "self": built from
    the actions taken before this policy began (Remark S1). Several targets act together, with one residual
    each.
    """

    preconditioner: Any = None
    form: str = "residual"

    def __post_init__(self) -> None:
        choice("ConjugateGradient.form", self.form, ("residual", "conjugate"))
        if not (
            self.preconditioner is None
            or self.preconditioner == "self"
            or hasattr(self.preconditioner, "solve")
        ):
            raise InputError(
                f"preconditioner is {self.preconditioner!r}; expected None, 'self', or an object with "
                ".solve(V)."
            )

    def start(self, state: State) -> Any:
        return state.preconditioner() if isinstance(self.preconditioner, str) else self.preconditioner

    def prepared(self, memory: Any, problem: Problem) -> bool:
        if self.preconditioner is None:
            return memory is None
        return hasattr(memory, "solve") and np.shape(getattr(memory, "diagonal", problem.N)) == (problem.n,)

    def __call__(self, state: State) -> Actions:
        r = state.residual
        norms = np.linalg.norm(r, axis=0)
        moving = norms > 0
        if not moving.any():
            return None
        s = r[:, moving] / norms[moving]
        if state.memory is not None:
            s = np.asarray(state.memory.solve(s))
        if self.form == "conjugate" and len(state.blocks) > 1:
            start, stop = state.blocks[-2], state.blocks[-1]
            D, KD = state.search_directions(start, stop), state.search_products(start, stop)
            s = s - D @ ((KD + state.problem.N[:, None] * D).T @ s)  # eta = 1
        return s


@dataclass(frozen=True, eq=False)
class Eigenvector(Policy):
    """s_i = i-th eigenvector of K_hat (IterGP-PBR, Thm. S4), largest first.

    Dense for small n; for larger n, the leading ones by randomised block Krylov iteration, `rank` at a time.
    """

    finite: ClassVar[bool] = True
    block_size: int = 16
    rank: int = 128  # how many are computed together if n is large
    passes: int = 6

    def __post_init__(self) -> None:
        for name in ("block_size", "rank", "passes"):
            count(f"Eigenvector.{name}", getattr(self, name))

    def start(self, state: State) -> np.ndarray:
        problem = state.problem
        if problem.n <= DENSE_ROWS // 2:
            return np.linalg.eigh(problem.K_hat())[1][:, ::-1]
        return self._leading(state)

    def prepared(self, memory: Any, problem: Problem) -> bool:
        return _is_array(memory, 2) and len(memory) == problem.n

    def _leading(self, state: State) -> np.ndarray:
        problem, n = state.problem, state.problem.n
        V = np.linalg.qr(state.rng().standard_normal((n, min(self.rank, n))))[0]
        space: list[np.ndarray] = []
        products: list[np.ndarray] = []
        for _ in range(self.passes):
            for basis in space + space:  # orthogonal to the earlier ones, twice
                V = V - basis @ (basis.T @ V)
            V = np.linalg.qr(V)[0]
            space.append(V)
            products.append(problem.gram.multiply(V, state.tick) + problem.N[:, None] * V)
            V = products[-1]
        S, KS = np.concatenate(space, axis=1), np.concatenate(products, axis=1)
        T = S.T @ KS
        return S @ np.linalg.eigh((T + T.T) / 2)[1][:, : -self.rank - 1 : -1]

    def __call__(self, state: State) -> Actions:
        U = state.memory[:, state.proposed : state.proposed + self.block_size]
        return U if U.shape[1] else None


@dataclass(frozen=True, eq=False)
class RandomAction(Policy):
    """s_i ~ N(0, I) (randomised Kaczmarz). One pass per block."""

    block_size: int = 1

    def __post_init__(self) -> None:
        count("RandomAction.block_size", self.block_size)

    def __call__(self, state: State) -> Actions:
        return state.rng().standard_normal((state.problem.n, self.block_size))


@dataclass(frozen=True, eq=False)
class BlockKrylov(Policy):
    """Pseudo-inputs, then columns of the last K Q_b together with the residual: most variance per pass."""

    block_size: int = 64

    def __post_init__(self) -> None:
        count("BlockKrylov.block_size", self.block_size)

    def __call__(self, state: State) -> Actions:
        problem = state.problem
        norms = np.linalg.norm(state.residual, axis=0)
        residual = (state.residual[:, norms > 0] / norms[norms > 0])[:, : self.block_size]
        width = self.block_size - residual.shape[1]
        products = state.last_products()[:, :width]
        missing = width - products.shape[1] if len(state.blocks) > 1 else self.block_size
        fresh = state.rng().permutation(_informative_rows(state))[:missing]
        pseudo = _kernel_actions(state, problem.X[fresh])
        block = pseudo if len(state.blocks) == 1 else np.concatenate([products, pseudo, residual], axis=1)
        block = block[:, block.any(axis=0)]
        return block if block.shape[1] else None


@dataclass(frozen=True, eq=False)
class SparseBlock(Policy):
    """Each action is supported on its own group of rows: s_i = values on group i, zero elsewhere. No pass: n
    k evaluations each.

    `groups` is the number of groups (of consecutive rows), or a list of row lists; `values` is "residual"
    (the current residual on those rows), "ones", "random", or a vector with one value per row.
    """

    finite: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    groups: Any
    values: Any = "residual"
    block_size: int = 16

    def __post_init__(self) -> None:
        count("SparseBlock.block_size", self.block_size)
        if isinstance(self.groups, int | np.integer):
            count("SparseBlock.groups", self.groups)
        else:
            groups = tuple(np.asarray(rows) for rows in self.groups)
            if not groups or any(
                rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.size == 0 for rows in groups
            ):
                raise InputError(
                    "SparseBlock.groups must be a number of groups or a list of non-empty lists of row "
                    "numbers."
                )
            object.__setattr__(self, "groups", groups)
        if isinstance(self.values, str):
            choice("SparseBlock.values", self.values, ("residual", "ones", "random"))

    def start(self, state: State) -> list[np.ndarray]:
        n = state.problem.n
        if isinstance(self.groups, int | np.integer):
            return np.array_split(np.arange(n), min(int(self.groups), n))
        if (
            max(int(rows.max()) for rows in self.groups) >= n
            or min(int(rows.min()) for rows in self.groups) < 0
        ):
            raise InputError(f"SparseBlock.groups names a row outside 0 to {n - 1}.")
        return list(self.groups)

    def prepared(self, memory: Any, problem: Problem) -> bool:
        return isinstance(memory, list) and all(_are_rows(rows, problem.n) for rows in memory)

    def __call__(self, state: State) -> Actions:
        groups = state.memory[state.proposed : state.proposed + self.block_size]
        if not groups:
            return None
        values = self._values(state)
        rows, columns = (
            np.concatenate(groups),
            np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        )
        return sp.csc_array((values[rows], (rows, columns)), shape=(state.problem.n, len(groups)))

    def _values(self, state: State) -> np.ndarray:
        n = state.problem.n
        if not isinstance(self.values, str):
            values = np.asarray(self.values, dtype=np.float64)
            if values.shape != (n,) or not np.isfinite(values).all() or (values == 0).any():
                raise InputError(
                    f"SparseBlock.values has shape {values.shape}; expected ({n},), finite and not zero."
                )
            return values
        if self.values == "ones":
            return np.ones(n)
        values = state.rng().standard_normal(n)
        if self.values == "random":
            return values
        residual = state.residual.sum(axis=1)
        return np.where(
            residual == 0, 1e-3 * np.abs(residual).max() * values + (residual == 0).all() * values, residual
        )


@dataclass(frozen=True, eq=False)
class Adversarial(Policy):
    """n - 1 actions K_hat-orthogonal to v*, then v*: nothing is learned until the end (Prop. 2 is tight)."""

    finite: ClassVar[bool] = True

    def start(self, state: State) -> np.ndarray:
        problem = state.problem
        if problem.n > DENSE_ROWS:
            raise InputError(
                f"Adversarial needs v* itself, so it takes at most {DENSE_ROWS} rows; there are {problem.n}."
            )
        if problem.targets > 1:
            raise InputError(f"Adversarial is defined for one target; y has {problem.targets}.")
        try:
            factor = scipy.linalg.cho_factor(problem.K_hat(), lower=True)
        except np.linalg.LinAlgError:
            raise InputError(
                "Adversarial needs v*, but K + noise is singular to rounding; give more noise."
            ) from None
        return scipy.linalg.cho_solve(factor, problem.b[:, 0])

    def prepared(self, memory: Any, problem: Problem) -> bool:
        return _is_array(memory, 1) and len(memory) == problem.n

    def __call__(self, state: State) -> Actions:
        b, v, j = state.problem.b[:, 0], state.memory, state.proposed
        norm = b @ v  # |v*|^2 in the K_hat inner product, and K_hat v* = b
        if j > state.problem.n or not norm > 0:
            return None
        if j == state.problem.n:
            return v
        e = np.zeros_like(b)
        # rows in increasing order of |b|; the last one is the dependent one
        e[np.argsort(np.abs(b), kind="stable")[j]] = 1.0
        s = e - v * (e @ b) / norm
        return s if np.linalg.norm(s) > 1e-12 else v


# The policies by name, as the estimator accepts them.
BY_NAME: dict[str, Callable[[], Policy]] = {
    "cg": ConjugateGradient,
    "cholesky": partial(UnitVector, block_size=512),
    "pseudo-input": partial(PseudoInput, block_size=128),
    "eigenvector": Eigenvector,
    "random": partial(RandomAction, block_size=64),
    "block-krylov": partial(BlockKrylov, block_size=128),
}
