"""Columns that belong together: the one-hot columns of a category."""

import numpy as np

from itergp.validate import Array

SURE = 5.0  # overlaps of a column expected by chance, of which there are none: it excludes the others


def features_of(X: Array) -> Array:
    """The number of the feature that each column belongs to, in order: one for the columns of a category.

    These are neighbours, have two values each, and exactly one of them is on in every row; or at most one
    (a category may be left out), where chance would have it otherwise.
    """
    found, last, column = np.empty(X.shape[1], dtype=np.intp), 0, 0
    low, high = X.min(axis=0), X.max(axis=0)
    while column < X.shape[1]:
        size = _block(X, low, high, column)
        found[column : column + size] = last
        column, last = column + size, last + 1
    return found


def _block(X: Array, low: Array, high: Array, first: int) -> int:
    """How many columns the category has that begins here; 1 if there is none."""
    taken, sure = np.zeros(len(X), dtype=bool), 1
    for size, column in enumerate(range(first, X.shape[1]), start=1):
        on = X[:, column] == high[column]
        two_values = high[column] > low[column] and (on | (X[:, column] == low[column])).all()
        if not two_values or (taken & on).any():
            break
        if sure == size - 1 and taken.mean() * on.mean() * len(X) > SURE:
            sure = size
        taken = taken | on
        if taken.all():
            return size
    return sure if sure > 2 else 1


def same_distance(X: Array, features: Array) -> Array:
    """Factors on lengthscales within each feature, of mean 1, with which all its categories are equally far
    apart, whatever the units of their columns."""
    reach = np.ptp(X, axis=0)
    reach = np.where(reach > 0.0, reach, 1.0)
    means = np.bincount(features, reach) / np.bincount(features)
    alone = np.bincount(features)[features] == 1
    return np.where(alone, 1.0, reach / means[features])
