"""Preparation of proposed actions: validated, of unit length, orthonormal, and multiplied with K."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from itergp.errors import PolicyError
from itergp.linalg.basis import Basis
from itergp.linalg.engines import Tick
from itergp.linalg.gram import Gram
from itergp.linalg.orthonormal import orthonormalise
from itergp.linalg.products import Remade, remakes
from itergp.solver.belief import Belief

# what is left of a unit action in the span of earlier ones
DEPENDENT = {"float64": 1e-10, "float32": 1e-5}
# Sparse actions derive their products from known ones while the rounding they inherit stays below this
# multiple of that of a product of their own. Inherited rounding is part of their tau.
REUSE = {"float64": 10.0, "float32": 1.0}


@dataclass(frozen=True, eq=False)
class Block:
    """Orthonormal actions Q, dense or sparse, with K Q and tau, a bound on its rounding."""

    Q: Any
    KQ: np.ndarray | Remade
    tau: np.ndarray

    @property
    def width(self) -> int:
        return self.KQ.shape[1]

    def only(self, columns: np.ndarray) -> "Block":
        KQ = self.KQ[:, columns] if isinstance(self.KQ, np.ndarray) else self.KQ.only(columns)
        return Block(self.Q[:, columns], KQ, self.tau[columns])


def checked(actions: Any, n: int, policy: Any) -> Any:
    """What a policy returned as a float64 block (n, b), dense or sparse; PolicyError if it is invalid."""
    name = getattr(policy, "__name__", type(policy).__name__)
    try:
        S: Any = actions if sp.issparse(actions) else np.asarray(actions)
    except ValueError:  # rows of different length
        raise PolicyError(
            f"policy {name} did not return an array; expected a vector ({n},) or a block ({n}, b)."
        ) from None
    if S.dtype.kind not in "fiub":
        raise PolicyError(
            f"policy {name} returned {type(actions).__name__} of dtype {S.dtype}; expected real numbers, "
            f"({n},) or ({n}, b)."
        )
    S = _block(S)
    if S.ndim != 2 or S.shape[0] != n or S.shape[1] == 0:
        raise PolicyError(
            f"policy {name} returned actions of shape {S.shape}; expected ({n},) or ({n}, b) with b >= 1."
        )
    if not np.isfinite(S.data if sp.issparse(S) else S).all():
        raise PolicyError(f"policy {name} returned actions that are not finite; expected finite numbers.")
    largest = _largest(S)
    if (largest == 0).any():
        raise PolicyError(
            f"policy {name} returned an action of zeros (column {int(np.argmin(largest))} of the block); "
            "expected a direction. Return None when there are no more actions."
        )
    return S


def _block(S: Any) -> Any:
    if sp.issparse(S):
        return sp.csc_array(S, dtype=np.float64)
    S = np.asarray(S, dtype=np.float64)
    return S[:, None] if S.ndim == 1 else S


def _largest(S: Any) -> np.ndarray:
    """The largest absolute value in each column."""
    largest = np.abs(S).max(axis=0)
    return largest.toarray().ravel() if sp.issparse(largest) else largest


def unit_length(S: Any) -> Any:
    """The same directions, of length 1; avoids overflow."""
    if not sp.issparse(S):
        S = S / _largest(S)
        return S / np.linalg.norm(S, axis=0)
    S = sp.csc_array(S.multiply(1.0 / _largest(S)[None, :]))
    lengths = np.sqrt(np.asarray(S.multiply(S).sum(axis=0)))
    return sp.csc_array(S.multiply(1.0 / lengths.reshape(1, -1)))


def orthonormal(S: Any, belief: Belief, tick: Tick) -> Block:
    """The block made orthonormal to all earlier actions and within itself, without linearly dependent
    columns, and multiplied with K."""
    if not sp.issparse(S):
        Q = orthonormalise(S, belief.basis, DEPENDENT[belief.coarsest])[0]
        return _by_a_pass(Q, belief.problem.gram, tick)
    S = S[:, _distinct(S, belief.basis)]
    if _orthogonal_already(S, belief.basis):
        gram = belief.problem.gram
        return _not_multiplied(S, gram) if remakes(S, belief.basis) else _by_columns(S, gram, tick)
    return _orthonormal_sparse(S, belief, tick)


def _orthonormal_sparse(S: sp.csc_array, belief: Belief, tick: Tick) -> Block:
    """Sparse actions that overlap others become dense. Their products need no pass, if the known ones that
    they inherit are accurate enough."""
    gram, coarsest = belief.problem.gram, belief.coarsest
    Q, kept, C, R = orthonormalise(S.toarray(), belief.basis, DEPENDENT[coarsest])
    if not R.any():  # dependent, all of them or some in the second projection only
        return _by_a_pass(Q, gram, tick)
    shrunk = np.abs(np.linalg.inv(R))
    # rounding of products is incoherent
    inherited = np.linalg.norm(belief.tau[:, None] * C, axis=0) @ shrunk
    if inherited.max() >= REUSE[coarsest] * gram.rounding(gram.n, dtype=coarsest):
        return _by_a_pass(Q, gram, tick)
    own = _by_columns(S[:, kept], gram, tick)
    # K Q = (K S - K Q_old C) R^{-1}
    KQ = np.linalg.solve(R.T, (own.KQ - belief.basis.KQ.combine(C)).T).T
    return Block(Q, KQ, own.tau @ shrunk + inherited)


def _by_a_pass(Q: np.ndarray, gram: Gram, tick: Tick) -> Block:
    """One product with the whole of K."""
    if gram.dtype == np.float32:
        Q = Q.astype(np.float32).astype(np.float64)  # the rounded vectors are the actions
    KQ = gram.multiply(Q, tick) if Q.shape[1] else np.zeros_like(Q)
    return Block(Q, KQ, _rounding(np.asarray(Q.any(axis=1)), KQ, gram, gram.dtype.name))


def _by_columns(S: sp.csc_array, gram: Gram, tick: Tick) -> Block:
    """From the columns of K that S touches: no pass over K."""
    rows = np.unique(S.indices)
    if not S.shape[1]:
        KS = np.zeros(S.shape)
    elif (np.diff(S.indptr) == 1).all():
        KS = gram.columns(S.indices) * S.data
    else:
        KS = gram.multiply_columns(rows, S[rows].toarray(), tick=tick)
    reached = np.zeros(gram.n, dtype=bool)
    reached[rows] = True
    return Block(S, KS, _rounding(reached, KS, gram, "float64"))


def _not_multiplied(S: sp.csc_array, gram: Gram) -> Block:
    """Actions whose products are made when they are needed.

    tau takes the largest |K q| that there can be, since to ask for the true one would be a sweep over all
    rows: |K q|^2 <= q^T K q sum_i k(x_i, x_i), by Cauchy and Schwarz.
    """
    KS = Remade(gram, S)
    if not S.shape[1]:
        return Block(S, KS, np.zeros(0))
    reach = 1 + int(S.indices.max())
    longest = np.sqrt(np.diag(KS.against(KS)) * gram.diagonal()[:reach].sum())
    return Block(S, KS, np.asarray(gram.rounding(reach, longest, "float64")))


def _rounding(reached: np.ndarray, KQ: np.ndarray, gram: Gram, dtype: str) -> np.ndarray:
    """tau for each action, from the rows that the block reaches, so that appended data change nothing."""
    if not KQ.shape[1]:
        return np.zeros(0)
    reach = 1 + int(np.flatnonzero(reached)[-1])
    return np.asarray(gram.rounding(reach, np.linalg.norm(KQ[:reach], axis=0), dtype))


def _distinct(S: sp.csc_array, basis: Basis) -> np.ndarray:
    """Columns of S without unit vectors that are repeated or in the span of the actions."""
    single = np.diff(S.indptr) == 1
    if not single.all():
        return np.arange(S.shape[1])
    first = np.sort(np.unique(S.indices, return_index=True)[1])
    return first[~basis.spanned_rows()[S.indices[first]]]


def _orthogonal_already(S: sp.csc_array, basis: Basis) -> bool:
    """Whether no row is in two actions or touched by earlier ones."""
    disjoint = np.unique(S.indices).size == S.indices.size
    return disjoint and not (basis.size and basis.inner(S).any())
