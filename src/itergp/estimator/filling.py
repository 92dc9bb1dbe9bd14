"""Rows with missing values in a fit: each has more noise than the others, by what its values could be.

A small fit to rows that lack nothing says what the function is roughly, and what the noise N. A row whose
observation becomes more uncertain by s^2, since values of it are made up, has the noise N + s^2: the weight
N / (N + s^2).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from itergp.data.donors import Donors, filled, filled_alike, looked_at
from itergp.data.holes import Holes
from itergp.data.rows import places
from itergp.errors import InputError
from itergp.estimator.budgets import Budget
from itergp.estimator.clock import Clock
from itergp.estimator.fitting import fit_rows, refine
from itergp.estimator.names import AUTO
from itergp.estimator.progress import Watch
from itergp.estimator.widening import optimism, widened, with_factors, with_more
from itergp.fitted.filling import belief, refuse_outside
from itergp.fitted.fit import Fit
from itergp.fitted.scores import errors_of
from itergp.solver.state import Status
from itergp.validate import Array

ROWS = 1000  # of the first fit
ENOUGH, EACH = 50, 2  # rows that lack nothing: so many, and so many for each input
SHARE = 0.2  # of a time budget
KERNEL = "matern32"  # of the first fit, where that is to be chosen
CHECKED = 500  # rows that are held out
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
        return X, weights, with_factors(donors, 1.0)
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
    given = np.ones(len(X)) if weights is None else weights
    some, W = looked_at(missing), given.copy()
    if not enough:
        some = np.union1d(some, rows[lacks[rows] > 0])
    for known in [complete] if enough else [rows, rows]:
        Z = filled(X[known], donors)[0]
        first = _first(asked, Z, y[known], W[known], clock, watch)
        untold, extra = filled(X[some], _untold(donors), belief(first))
        W[some] = first.noise / (first.noise / given[some] + extra)
    if enough:
        mean, variance = (of(untold) for of in belief(first))
        z = (first.scaling.targets(y[some]) - mean) / np.sqrt(variance + first.noise * (1 / W[some] - 1))
        donors = replace(donors, holes=holes.telling(_tells(z, missing[some])))
        donors = widened(donors, z**2, missing[some])
    else:
        donors = checked(first, Z, X[rows], donors)
    Z, extra = filled_alike(X, some, extra, donors)
    return Z, first.noise / (first.noise / given + extra), donors


def _plain(donors: Donors) -> Donors:
    return replace(donors, holes=donors.holes.widened(np.ones(len(donors.holes.columns))))


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


class _OutOfTimeError(Exception):
    """The check ends here."""


def checked(fit: Fit, X: Array, holed: Array, donors: Donors, clock: Clock | None = None) -> Donors:
    """Donors with the factors of rows that are held out from the fit; as they were if the clock does not
    allow it. X is what stands for rows with holes."""
    missing = donors.holes.missing(holed)
    which = np.flatnonzero(missing.any(axis=1))
    if not which.size:
        return with_factors(donors, optimism(fit))
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
    noise = fit.noise_at(fit.scaling.inputs(X[which]))
    return widened(donors, errors**2 / (latent + noise + extra), missing[which], optimism(fit))


def _extra(fit: Fit, X: Array, donors: Donors, tick: Callable[[], None]) -> Array:
    """The variance of observations that missing values add by themselves."""
    donors, found = _plain(donors), []
    for start in range(0, len(X), AT_ONCE):
        tick()
        found.append(filled(X[start : start + AT_ONCE], donors, belief(fit))[1])
    return np.concatenate(found)


def _first(asked: Mapping[str, Any], X: Array, y: Array, weights: Array, clock: Clock, watch: Watch) -> Fit:
    how = {
        **asked,
        "kernel": KERNEL if isinstance(asked["kernel"], str) and asked["kernel"] == AUTO else asked["kernel"],
        "noise": "learn" if isinstance(asked["noise"], str) else asked["noise"],
        "policy": "cholesky",
        "neighbours": 0,  # it is asked about many points, and few actions are left to it
        "checkpoint": None,
        "engine": "auto",
    }
    seconds = clock.budget.seconds
    own = Clock(Budget(None if seconds is None else SHARE * seconds))
    quiet = Watch(watch.estimator, watch.interrupts)
    found = fit_rows(how, None, X, y, own, quiet, weights=None if (weights == 1).all() else weights)
    return refine(found, Clock(Budget()), quiet) if found.status is Status.BUDGET else found


def more_rows(
    fit: Fit, X: Array, y: Array, weights: Array | None
) -> tuple[Array, Array | None, Donors | None]:
    """Rows that are added to a fit, without NaN, and their weights; and donors, with these rows among them.
    The fit has not seen them, so their errors tell how far it is off."""
    if fit.donors is None:
        return X, weights, None
    refuse_outside(fit.donors.holes, X)
    donors, missing = fit.donors.joined(X, fit.rows), fit.donors.holes.missing(X)
    if not missing.any():
        return X, weights, donors
    some, plain = looked_at(missing), _plain(fit.donors)
    Z, extra = filled(X[some], plain, belief(fit))
    mean, variance = (of(Z) for of in belief(fit))
    z2 = (fit.scaling.targets(y[some]) - mean) ** 2 / (variance + extra)
    Z, extra = filled_alike(X, some, extra, plain)
    noise = np.maximum(fit.noise, np.finfo(np.float64).tiny)
    less = noise / (noise + extra)
    donors = with_more(donors, z2, missing[some])
    return Z, less if weights is None else weights * less, donors


def with_donors(fit: Fit, donors: Donors | None) -> Fit:
    """The fit, with those of its rows."""
    return replace(fit, donors=None if donors is None else with_factors(donors, optimism(fit)))
