"""Which rows are alike in what their inputs say about others (predictive mean matching).

Donors are predicted by a regression on others, as the row itself is: one on many inputs would else reproduce
their values, find donors that agree, and take the value for known.
"""

from dataclasses import dataclass

import numpy as np

from itergp.validate import Array

DONORS = 24  # of each row
FOLDS = 5  # of the rows among which they are sought, each predicted by the others
PENALTIES = 10.0 ** np.arange(-4, 3)  # of the ridge regression, for each row
CONSTANT = 1e-12  # of its mean: an input that varies by less says nothing
AT_ONCE = 2**22  # numbers


@dataclass(frozen=True, eq=False)
class Search:
    """The donors of rows: those that are nearest by what some inputs say about others. Each fold of them is
    predicted by the others; in a few there is nothing to search."""

    there: list[int]
    C: Array  # (n, inputs): their values
    folds: "tuple[tuple[Regression, Array, Array], ...]"  # by which, which of them, and what it says of these

    @staticmethod
    def of(theirs: Array, there: list[int], asked: list[int]) -> "Search":
        A, C = theirs[:, there], theirs[:, asked]
        fold, found = np.arange(len(C)) % FOLDS, []  # of rows in random order
        for k in range(FOLDS if len(C) > DONORS else 0):
            regression = Regression.of(A[fold != k], C[fold != k])
            found.append((regression, np.flatnonzero(fold == k), regression(A[fold == k])))
        return Search(there, C, tuple(found))

    def __call__(self, X: Array) -> Array:
        """(m, K, inputs)"""
        if not self.folds:
            return np.repeat(self.C[None], len(X), axis=0)
        distance = np.empty((len(X), len(self.C)))
        for regression, fold, of_donors in self.folds:
            distance[:, fold] = _distances(regression(X[:, self.there]), of_donors)
        return self.C[np.argpartition(distance, DONORS - 1, axis=1)[:, :DONORS]]

    def nearest(self, X: Array, others: Array) -> Array:
        """(m,): which of the others is nearest to each row."""
        if not self.folds:
            return np.zeros(len(X), dtype=np.intp)
        says, found = self.folds[0][0], np.empty(len(X), dtype=np.intp)
        theirs, size = says(others[:, self.there]), max(1, AT_ONCE // len(others))
        for start in range(0, len(X), size):
            some = says(X[start : start + size, self.there])
            found[start : start + size] = _distances(some, theirs).argmin(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Regression:
    """A ridge regression; predictions are in units of their errors."""

    centre: Array
    weights: Array

    @staticmethod
    def of(A: Array, C: Array) -> "Regression":
        """C by A, with the penalty that predicts rows best that are left out: e / (1 - leverage)."""
        centre, unit, size = A.mean(axis=0), A.std(axis=0), C.std(axis=0)
        unit = np.where(unit > CONSTANT * np.abs(centre), unit, np.inf)
        C = (C - C.mean(axis=0)) / np.where(size > 0, size, 1.0)
        U, s, Vt = np.linalg.svd((A - centre) / unit, full_matrices=False)
        best, weights = np.inf, np.empty(0)
        for penalty in PENALTIES * len(A):
            shrunk = s**2 / (s**2 + penalty)
            errors = C - U @ (shrunk[:, None] * (U.T @ C))
            errors /= np.maximum(1.0 - 1.0 / len(A) - U**2 @ shrunk, CONSTANT)[:, None]
            squares = (errors**2).mean(axis=0)
            if squares.sum() < best:
                best, scale = float(squares.sum()), np.sqrt(np.where(squares > 0, squares, 1.0))
                weights = Vt.T @ ((s / (s**2 + penalty))[:, None] * (U.T @ C)) / scale
        return Regression(centre, weights / unit[:, None])

    def __call__(self, A: Array) -> Array:
        return (A - self.centre) @ self.weights


def _distances(A: Array, B: Array) -> Array:
    """Squared, between all rows."""
    return (A**2).sum(axis=1)[:, None] - 2.0 * A @ B.T + (B**2).sum(axis=1)
