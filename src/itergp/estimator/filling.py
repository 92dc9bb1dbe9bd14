"""Rows with missing values in a fit: each has more noise than the others, by what its values could be.

A small fit to rows that lack nothing says what the function is roughly, and what the noise N. A row whose
observation becomes more uncertain by s^2, since values of it are made up, has the noise N + s^2: the weight
N / (N + s^2).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from itergp.data.donors import Donors, filled
from itergp.data.holes import Holes
from itergp.data.rows import places
from itergp.errors import InputError
from itergp.estimator.budgets import Budget
from itergp.estimator.clock import Clock
from itergp.estimator.fitting import fit_rows
from itergp.estimator.names import AUTO
from itergp.estimator.progress import Watch
from itergp.fitted.filling import belief, filled_in, refuse_outside
from itergp.fitted.fit import Fit
from itergp.fitted.scores import errors_of
from itergp.validate import Array

ROWS = 1000  # of the first fit
ENOUGH, EACH = 50, 2  # rows that lack nothing: so many, and so many for each input
SHARE = 0.2  # of a time budget
KERNEL = "matern32"  # of the first fit, where that is to be chosen
CHECKED = 500  # rows that are held out
AS_EXPECTED = 2  # more, whose errors are
AT_ONCE = 50  # of them, between which the clock is read
RESERVED = 0.05  # of a time budget, for them
SURE = 2.0  # standard errors
LEAST = 8  # rows: fewer cannot teach a function of their own
SEED = 0


def filled_rows(
    asked: Mapping[str, Any],
    X: Array,
    y: Array,
    weights: Array | None,
    holes: Holes,
    clock: Clock,
    watch: Watch,
) -> tuple[Array, Array | None, Donors]:
    """X without NaN, the weight of each row, None if all are 1; and what new rows need. The first fit says
    how far its intervals of rows with missing values are off: that holds until the fit itself is checked."""
    refuse_outside(holes, X)
    donors, missing = Donors.among(holes, X), holes.missing(X)
    if not missing.any():
        return X, weights, donors
    if not isinstance(asked["noise"], str) and not np.all(asked["noise"]):
        raise InputError(
            "noise is 0, so rows with missing values would be taken for exact; expected a variance above 0, "
            "or 'learn'."
        )
    lacks = missing.sum(axis=1)
    order = np.random.default_rng([SEED, len(X)]).permutation(len(X))
    rows = order[np.argsort(lacks[order], kind="stable")][:ROWS]
    complete = rows[lacks[rows] == 0]
    enough = len(complete) >= max(ENOUGH, EACH * X.shape[1])
    Z, given = filled(X, donors)[0], np.ones(len(X)) if weights is None else weights
    W = given
    for some in [complete] if enough else [rows, rows]:
        first = _first(asked, Z[some], y[some], W[some], clock, watch)
        untold, extra = filled(X, _untold(donors), belief(first))
        W = first.noise / (first.noise / given + extra)
    if not enough:
        return Z, W, checked(first, Z[rows], X[rows], donors)
    mean, variance = (of(untold) for of in belief(first))
    z = (first.scaling.targets(y) - mean) / np.sqrt(variance + first.noise / W)
    donors = replace(donors, holes=holes.telling(_tells(z, missing)))
    Z = filled(X, donors)[0]
    return Z, W, _widened(donors, z**2, missing)


def _untold(donors: Donors) -> Donors:
    return replace(donors, holes=donors.holes.telling(np.zeros(len(donors.holes.columns))))


def _tells(z: Array, missing: Array) -> Array:
    """Of which columns it says something about y that a value is missing: where rows that the first fit has
    not seen are not as it expects. A flag that says nothing is worse than none: where it is rare, the few
    rows that have it are far from all others."""
    told = np.zeros(missing.shape[1], dtype=bool)
    for j, rows in enumerate(missing.T):
        root = np.sqrt(max(rows.sum(), 1))
        off = abs(z[rows].sum()) > SURE * root or (z[rows] ** 2 - 1).sum() > SURE * np.sqrt(2) * root
        told[j] = off and rows.sum() >= LEAST
    return told


def _widened(donors: Donors, z2: Array, missing: Array) -> Donors:
    """Donors with the factors by which squared errors of rows that lack values are larger than they should
    be. A few rows say little: they are counted beside some that are as they should be."""
    factors = (z2 @ missing + AS_EXPECTED) / (missing.sum(axis=0) + AS_EXPECTED)
    return replace(donors, holes=donors.holes.widened(np.maximum(factors, 1.0)))


class _OutOfTimeError(Exception):
    """The check ends here."""


def checked(fit: Fit, X: Array, holed: Array, donors: Donors, clock: Clock | None = None) -> Donors:
    """Donors with the factors of rows that are held out from the fit; as they were if the clock does not
    allow it. X is what stands for rows with holes."""
    missing = donors.holes.missing(holed)
    which = np.flatnonzero(missing.any(axis=1))
    if not which.size:
        return donors
    which = np.sort(np.random.default_rng([SEED, which.size]).permutation(which)[:CHECKED])
    merged = fit.posterior.problem.n < len(X)
    rows, at = np.unique(places(fit.scaling.inputs(X))[which] if merged else which, return_inverse=True)

    def tick() -> None:
        if clock is not None and clock.over:
            raise _OutOfTimeError

    try:
        errors, latent = (part[at] for part in errors_of(fit, rows, tick))
        extra = _extra(fit, holed[which], donors, tick)
    except _OutOfTimeError:
        return donors
    return _widened(donors, errors**2 / (latent + fit.noise + extra), missing[which])


def _extra(fit: Fit, X: Array, donors: Donors, tick: Callable[[], None]) -> Array:
    """The variance of observations that missing values add by themselves."""
    donors, found = _widened(donors, np.zeros(0), np.zeros((0, len(donors.holes.columns)))), []
    for start in range(0, len(X), AT_ONCE):
        tick()
        found.append(filled(X[start : start + AT_ONCE], donors, belief(fit))[1])
    return np.concatenate(found)


def _first(asked: Mapping[str, Any], X: Array, y: Array, weights: Array, clock: Clock, watch: Watch) -> Fit:
    how = {
        **asked,
        "kernel": KERNEL if isinstance(asked["kernel"], str) and asked["kernel"] == AUTO else asked["kernel"],
        "noise": "learn" if isinstance(asked["noise"], str) else asked["noise"],
        "checkpoint": None,
        "engine": "auto",
    }
    seconds = clock.budget.seconds
    own = Clock(Budget(None if seconds is None else SHARE * seconds))
    quiet = Watch(watch.estimator, watch.interrupts)
    return fit_rows(how, None, X, y, own, quiet, weights=None if (weights == 1).all() else weights)


def more_rows(fit: Fit, X: Array, weights: Array | None) -> tuple[Array, Array | None]:
    """Rows that are added to a fit, without NaN, and their weights."""
    X, extra = filled_in(fit, X)
    if not np.any(extra):
        return X, weights
    noise = np.maximum(fit.noise, np.finfo(np.float64).tiny)
    less = noise / (noise + extra)
    return X, less if weights is None else weights * less
