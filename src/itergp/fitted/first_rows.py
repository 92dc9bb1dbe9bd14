"""The first rows of a stream, too few for final hyper-parameters."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp import brief
from itergp.data.spread import CONSTANT
from itergp.validate import Array

ENOUGH = 100  # rows that tell something: from here on hyper-parameters and scaling stay
KEPT = 1000  # rows that a model keeps as they came, until then


@dataclass(frozen=True, eq=False)
class FirstRows:
    """All rows so far, while some target or feature has told too little: what was learned is kept only
    until that has doubled.

    Up to KEPT rows are here as they came, so that what is learned anew is what `fit` learns, to the bit.
    Of more rows the model has the only copy: scaled and merged, which `fit` learns the same from but for
    rounding.
    """

    X: Array | None
    y: Array | None
    late: Array  # (d,): the features that were constant, until enough rows say how y changes along them
    # (t + 1,): how many rows told something when last fitted, of each target and of the late features; -1:
    # enough
    fitted: Array
    told: Array  # (t,): whether there was anything to learn from
    weights: Array | None = None  # of the rows that are here; None: all are 1
    groups: Array | None = None  # of the rows that are here, if there are any

    __repr__ = brief.call

    @staticmethod
    def of(
        X: Array,
        y: Array,
        residual: Array,
        learns: bool,
        before: "FirstRows | None" = None,
        weights: Array | None = None,
        groups: Array | None = None,
    ) -> "FirstRows | None":
        """None where the rows suffice: to learn, or for scaling alone. `residual` is what the prior mean
        leaves of y; `before` is what was known of the first of these rows."""
        enough, told, late = ENOUGH if learns else 1, telling(residual, y), constant(X)
        if before is not None and _differing(X, before.late) < enough:
            late = late | before.late
        needed = np.array([*(told < enough), late.any()])
        if not needed.any():
            return None
        fitted = np.where(needed, [*telling(y, y), _differing(X, late)], -1)
        return FirstRows(X, y, late, fitted, told > 0, weights, groups).bounded()

    def joined(
        self,
        X: Array,
        y: Array,
        model: Callable[[], Any],
        weights: Array | None = None,
        groups: Array | None = None,
    ) -> "FirstRows":
        """With more rows; `model` has those so far where they are not here. `groups` are those of all."""
        X0, y0, before = model() if self.X is None or self.y is None else (self.X, self.y, self.weights)
        if before is not None or weights is not None:
            parts = ((before, X0), (weights, X))
            weights = np.concatenate([np.ones(len(rows)) if w is None else w for w, rows in parts])
        X, y = np.concatenate([X0, X]), np.concatenate([y0, y])
        return replace(self, X=X, y=y, weights=weights, groups=groups)

    def bounded(self) -> "FirstRows":
        few = self.X is None or len(self.X) <= KEPT
        return self if few else replace(self, X=None, y=None, weights=None, groups=None)

    @property
    def due(self) -> bool:
        """Whether to refit all rows: of a target or of the late features twice as many tell something
        as when last fitted, or enough for good."""
        assert self.X is not None  # they are joined
        assert self.y is not None
        now, needed = np.array([*telling(self.y, self.y), _differing(self.X, self.late)]), self.fitted >= 0
        grown = (now >= 2 * self.fitted) | ((now >= ENOUGH) & (self.fitted < ENOUGH))
        return bool((needed & (now > 0) & grown).any())


def telling(b: Array, y: Array) -> Array:
    """How many values in each column of b differ from its median by more than the rounding of y: of n
    different numbers all, or all but one; where most are equal, the others."""
    return _differ(b.reshape(len(b), -1), y).sum(axis=0)


def _differing(X: Array, features: Array) -> int:
    """How many rows differ from the median of some of these features."""
    return int(_differ(X[:, features], X[:, features]).any(axis=1).sum())


def _differ(b: Array, y: Array) -> Array:
    return np.abs(b - np.median(b, axis=0)) > CONSTANT * np.abs(y).max(axis=0)


def constant(X: Array) -> Array:
    """Which features are constant but for rounding."""
    high, low = X.max(axis=0), X.min(axis=0)
    return high - low <= CONSTANT * np.maximum(high, -low)
