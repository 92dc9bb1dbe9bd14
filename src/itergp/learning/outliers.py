"""Rows that are unlike all others: gross errors of measurement, or of records.

A held-out error over its standard deviation is z. The median of |z| says how large most of them are: s, as if
they were normal. A row beyond five s is an outlier; of normal errors, one in two million is. Its noise is
taken to be as large as its error, so it says next to nothing about function, noise and kernel.
"""

import numpy as np

from itergp.validate import Array

BEYOND = 5.0
MEDIAN = 0.6744897501960817  # of |z|, if z is standard normal
MOST = 0.1  # of the rows: more are not outliers, but a distribution, or what outliers have done to a function
FEWEST = 20  # rows: fewer have no scale


def outlying(errors: Array, variances: Array) -> Array:
    """By what factor the noise variance of each row is larger, (m,); 1 for all but outliers, of which there
    are at most a tenth: those that are farthest off.

    Errors and their variances without outliers are (m, t): a row is an outlier if one of its targets is.
    """
    far = distances(errors, variances)
    least = max(BEYOND, float(np.quantile(far, 1.0 - MOST, method="lower")))
    return np.where(far > least, far**2, 1.0)


def distances(errors: Array, variances: Array) -> Array:
    """Of each row from its prediction, in robust standard deviations; 0 for all if there is no scale."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(errors) / np.sqrt(variances)
    s = np.median(z, axis=0) / MEDIAN
    if len(z) < FEWEST or not (np.isfinite(z).all() and (s > 0).all()):
        return np.zeros(len(errors))
    return (z / s).max(axis=1)


def too_many(errors: Array, variances: Array) -> bool:
    return bool((distances(errors, variances) > BEYOND).mean() > MOST)
