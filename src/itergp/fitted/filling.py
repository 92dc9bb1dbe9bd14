"""Rows with missing values, as a fit predicts them."""

import numpy as np

from itergp.data.donors import Donors, Function, filled
from itergp.data.holes import Holes
from itergp.errors import InputError
from itergp.fitted.batches import batch
from itergp.fitted.fit import Fit
from itergp.posterior.spread import marginals
from itergp.validate import Array


def known(fit: Fit, X: Array) -> tuple[Array, Array | float]:
    """The same as `filled_in`, with inputs in scaled units."""
    X, extra = filled_in(fit, X)
    return fit.scaling.inputs(X), extra


def filled_in(fit: Fit, X: Array) -> tuple[Array, Array | float]:
    """Inputs, with something in place of what is missing; and the variance of observations that this adds,
    in scaled units."""
    if fit.donors is None:
        return X, 0.0
    refuse_outside(fit.donors.holes, X)
    if not lacking(fit, X):
        return X, 0.0
    return filled(X, fit.donors, belief(fit))


def lacking(fit: Fit, X: Array) -> bool:
    """Whether any value is missing."""
    return fit.donors is not None and bool(fit.donors.holes.missing(X).any())


def lacked(fit: Fit) -> tuple[Array, Array]:
    """(n, columns): which values the rows of a fit lacked, before something stood for them; and which they
    may have lacked, as far as the fit knows."""
    assert fit.donors is not None
    holes, X = fit.donors.holes, fit.posterior.problem.X
    found = holes.missing(fit.scaling.original(X))  # where the fit is told
    untold = np.array([hole.flag is not None and not hole.told for hole in holes.columns], dtype=bool)
    if len(fit.donors.X) < fit.rows:
        weights = fit.counts if fit.weights is None else fit.weights
        return found, (weights < fit.counts)[:, None] & untold  # rows that lack something weigh less
    before, known = _before(fit.donors, fit.scaling.inputs(fit.donors.whole(fit.donors.X)), X)
    return found | before, ~known[:, None] & untold


def _before(donors: Donors, theirs: Array, X: Array) -> tuple[Array, Array]:
    """(n, columns): what rows lacked that are all among donors, where something else may stand for it, and of
    which rows that is known. Each is the donor that agrees with it in all it has, and lacks least: of two
    that do, one has a value more that agrees."""
    found, known = np.zeros((len(X), len(donors.holes.columns)), dtype=bool), np.zeros(len(X), dtype=bool)
    flags = [hole.flag for hole in donors.holes.columns if hole.flag is not None]
    patterns, which = np.unique(donors.missing, axis=0, return_inverse=True)
    for k in np.argsort(patterns.sum(axis=1), kind="stable"):
        absent = [*flags, *(j for hole in donors.holes.of(patterns[k]) for j in hole.values)]
        here = {row.tobytes() for row in np.delete(theirs[which == k], absent, axis=1)}
        rest = np.flatnonzero(~known)
        agree = [row.tobytes() in here for row in np.delete(X[rest], absent, axis=1)]
        found[rest[agree]], known[rest[agree]] = patterns[k], True
    return found, known


def refuse_outside(holes: Holes, X: Array) -> None:
    wrong = holes.outside(X)
    if wrong.size:
        raise InputError(
            f"X has NaN in row {wrong[0]} where no value can be missing: in an input that says whether one "
            "is. Expected 0 or 1."
        )


def belief(fit: Fit) -> tuple[Function, Function]:
    """The mean of the function, and the variance of an observation, in scaled units."""

    def mean(X: Array) -> Array:
        return marginals(fit.process, fit.scaling.inputs(X), batch(fit), False)[0]

    def variance(X: Array) -> Array:
        Z = fit.scaling.inputs(X)
        found = marginals(fit.process, Z, batch(fit), True)[1]
        assert found is not None
        return found + fit.noise_at(Z)

    return mean, variance
