"""How much wider intervals of rows with missing values are than a fit says.

Of rows that lack a value, held-out ones say how far the fit is off: their squared errors z^2, in units of the
variances that it gives them. With m of them, beside AS_EXPECTED that are as they should be, the factor of the
variance is known as well as nu = m + AS_EXPECTED rows tell it, and an error is Student's with nu degrees:

    factor = (n + p) / (n - p) * max((AS_EXPECTED + sum z^2) / nu, 1) * (t_nu / z)^2

with t_nu and z the ends of Student's and of Gaussian intervals that hold LEVEL. So few rows make wide
intervals, and a value that was never missing the widest: nothing tells how rows without it are. The first
factor is how much larger squared errors of new rows are than those of n rows by which p numbers were learned
(Akaike's final prediction error): rows are held out from the fit, but not from the learning.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtrit

from itergp.data.donors import Donors
from itergp.fitted.fit import Fit
from itergp.prior.parameters import parameters
from itergp.validate import Array

AS_EXPECTED = 2  # rows, beside those that were held out
LEVEL = 0.95  # at which Gaussian intervals are as wide as Student's
END = 0.5 + LEVEL / 2
ROWS_EACH = 2  # rows at least for each number that was learned: fewer cannot tell how many were


def widened(donors: Donors, z2: Array, missing: Array, by: float = 1.0) -> Donors:
    """Donors with the factors that these held-out rows tell: squared errors (m,), and what they lack."""
    return with_factors(replace(donors, holes=donors.holes.held(missing.sum(axis=0), z2 @ missing)), by)


def with_more(donors: Donors, z2: Array, missing: Array) -> Donors:
    """Donors to which these rows tell something beside those before them; factors follow."""
    rows, squares = _told(donors)
    held = donors.holes.held(rows + missing.sum(axis=0), squares + z2 @ missing)
    return replace(donors, holes=held)


def with_factors(donors: Donors, by: float) -> Donors:
    rows, squares = _told(donors)
    nu = rows + AS_EXPECTED
    scale = np.maximum((squares + AS_EXPECTED) / nu, 1.0)
    student = (stdtrit(nu, END) / ndtri(END)) ** 2
    return replace(donors, holes=donors.holes.widened(by * scale * student))


def _told(donors: Donors) -> tuple[Array, Array]:
    told = [(hole.held_out, hole.squares) for hole in donors.holes.columns]
    rows, squares = np.array(told, dtype=np.float64).reshape(-1, 2).T
    return rows, squares


def optimism(fit: Fit) -> float:
    """(n + p) / (n - p). Rows count by their weights, w observations of one weight as one of n = (sum w)^2 /
    sum w^2 (Kish); parameters that are tied are equal, and count once."""
    counts, weights = fit.counts, fit.counts if fit.weights is None else fit.weights
    n = float(weights.sum() ** 2 / (weights**2 / counts).sum())
    values = [np.ravel(value) for value in parameters(fit.kernel).values()] if fit.free.kernel else []
    learned = np.unique(np.concatenate(values)).size if values else 0
    p = min(learned + fit.free.noise + 1, n / ROWS_EACH)  # and the mean
    return (n + p) / (n - p)
