"""Scores for the calibration of a fit: observations are held out without a refit, and predicted by others."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from itergp.errors import InputError
from itergp.fitted.calibration import Calibration
from itergp.fitted.fit import Fit
from itergp.fitted.observed import MOST, SEED, Sample, turns
from itergp.fitted.points import FOLD_WORK, FOLDS, chosen_rows
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import (
    NONE,
    WithoutFold,
    exact_without,
    exact_without_each,
    inverse_factor,
    with_targets,
    with_the_others,
    without_folds,
    without_observation,
)
from itergp.posterior.targets import TargetPosterior
from itergp.validate import Array

FOLD_ROWS = 4096  # that are held out together: their kernel matrix is formed
APART = 0.01  # of the rows may be held out together, where folds are random
FEW = 100  # rows at once, between which the clock is read
FEWEST = 2  # units: one alone says nothing about the others


def calibrated(fit: Fit) -> Fit:
    """The fit with its calibration: that which it has, or that of its held-out rows."""
    return fit if fit.calibration is not None else replace(fit, calibration=learned(fit))


def learned(fit: Fit) -> Calibration:
    if fit.observed is None:
        raise InputError(
            "This model has no calibration, and cannot learn it: its file is of an earlier version, or was "
            "saved with refinable=False before there was one. Fit it again, or do without what held-out rows "
            "say: conformal intervals and quantiles, and calibrated standard deviations."
        )
    if isinstance(fit.posterior, TargetPosterior):
        posteriors: tuple[Posterior, ...] = fit.posterior.each
    else:
        posteriors = (with_targets(fit.posterior),)
    grouped = fit.observed.groups is not None
    scores = _of_groups(fit, posteriors) if grouped else _of_rows(fit, posteriors)
    if scores.units < FEWEST:
        raise InputError(
            f"This model has {scores.units} {'group' if grouped else 'row'}; at least {FEWEST} are needed to "
            "learn its calibration from those that are held out. Fit it to more, or use Gaussian intervals."
        )
    return scores


def _of_rows(fit: Fit, posteriors: tuple[Posterior, ...]) -> Calibration:
    """Single observations. One of several at the same place is predicted with the others there; with local
    actions, by the same rows as a new one: so copies of a record have the score of a new copy."""
    n, observed = posteriors[0].problem.n, fit.observed
    assert observed is not None
    rows = chosen_rows(n, MOST) if observed.sample is None else observed.sample.rows
    distinct = np.unique(rows)
    exact, number = posteriors[0].rank == n, max(FOLDS, math.ceil(distinct.size / (APART * n)))
    folds = [] if exact else _random_folds(distinct, min(number, _affordable_folds(posteriors)))
    share, factor, found, first = *_shares(fit, rows, observed.sample), [], 0
    for posterior in posteriors:
        own = _columns(posterior.problem.y[rows])
        y = own if observed.sample is None else _columns(observed.sample.y)[:, first : first + own.shape[1]]
        mean, latent = _without_each(posterior, folds, rows, y, share, fit.neighbours)
        found.append(_standardised(y - mean, latent + posterior.problem.N[rows] / (share * factor)))
        first += own.shape[1]
    return Calibration.of(_shaped(found, fit))


def errors_of(fit: Fit, rows: Array, tick: Callable[[], None] = lambda: None) -> tuple[Array, Array]:
    """Errors of rows of a fit with one target, and latent variances, each row predicted by others. `tick` is
    called between parts of the work."""
    posterior = with_targets(fit.shared)
    number = min(FOLDS, _affordable_folds((posterior,)))
    if posterior.rank == posterior.problem.n:
        mean, latent = _each_exactly(posterior, rows, tick)
    else:
        mean, latent = _held_out(posterior, _random_folds(rows, number), rows, fit.neighbours, tick)
    return _columns(posterior.problem.y[rows])[:, 0] - mean[:, 0], latent


def _without_each(
    posterior: Posterior, folds: list[Array], rows: Array, y: Array, share: Array, neighbours: int
) -> tuple[Array, Array]:
    """Means (m, t) and latent variances (m,) at the rows of observations y, each without that observation."""
    distinct, place = np.unique(rows, return_inverse=True)
    mean, latent = _held_out(posterior, folds, distinct, neighbours)
    own, N = _columns(posterior.problem.y[rows]), posterior.problem.N[rows]
    mean, variance = with_the_others(mean[place], latent[place, None], own, y, share, N[:, None])
    latent = variance[:, 0]
    several = np.flatnonzero(1.0 - share > NONE)
    if folds and neighbours and several.size:
        noise = (N / share)[several]
        one, own_variance, known = without_observation(
            posterior, rows[several], y[several], noise, neighbours
        )
        mean[several[known]], latent[several[known]] = one[known], own_variance[known]
    return mean, latent


def _of_groups(fit: Fit, posteriors: tuple[Posterior, ...]) -> Calibration:
    """Some rows of each group, from which all of its rows are held out."""
    assert fit.observed is not None
    assert fit.observed.groups is not None
    n, groups = posteriors[0].problem.n, fit.observed.groups
    rng = np.random.default_rng([SEED, 3])
    exact = posteriors[0].rank == n
    folds = _group_folds(groups, rng, groups.size if exact else min(FOLDS, _affordable_folds(posteriors)))
    out, sample = np.sort(np.concatenate(folds)), fit.observed.sample
    if sample is None:
        each = math.ceil(MOST / np.unique(groups[out]).size)
        shuffled = rng.permutation(out)
        rows = np.sort(shuffled[turns(groups[shuffled], np.arange(out.size)) < each])
    else:
        sample = sample.some(np.isin(sample.rows, out))
        rows = sample.rows
    distinct, place = np.unique(rows, return_inverse=True)
    share, factor, found, first = *_shares(fit, rows, sample), [], 0
    for posterior in posteriors:
        mean, latent = _held_out(posterior, folds, distinct, fit.neighbours)
        own = _columns(posterior.problem.y[rows])
        y = own if sample is None else _columns(sample.y)[:, first : first + own.shape[1]]
        noise = posterior.problem.N[rows] / (share * factor)
        found.append(_standardised(y - mean[place], latent[place] + noise))
        first += own.shape[1]
    return Calibration.of(_shaped(found, fit), groups[rows])


def _held_out(
    posterior: Posterior,
    folds: list[Array],
    rows: Array,
    neighbours: int,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Array, Array]:
    """Means (m, t) and latent variances (m,) of rows, each from those outside its fold; without folds, the
    exact GP from all others."""
    if not folds:
        mean, latent = exact_without_each(posterior, rows)
        return _columns(mean), latent
    exact = posterior.rank == posterior.problem.n
    predicted: Iterable[WithoutFold | tuple[Array, Array]] = (
        _exact_folds(posterior, folds) if exact else without_folds(posterior, folds)
    )
    means, latent = np.empty((rows.size, posterior.problem.targets)), np.empty(rows.size)
    for F, found in zip(folds, predicted, strict=True):
        tick()
        asked = np.flatnonzero(np.isin(rows, F))
        which = np.searchsorted(F, rows[asked])
        if isinstance(found, WithoutFold):
            mean, latent[asked] = found.predicted(neighbours, which)
        else:
            mean, latent[asked] = found[0][which], found[1][which]
        means[asked] = _columns(mean)
    return means, latent


def _each_exactly(posterior: Posterior, rows: Array, tick: Callable[[], None]) -> tuple[Array, Array]:
    """Those of the exact GP, each from all others, some at a time."""
    found = []
    for start in range(0, rows.size, FEW):
        tick()
        found.append(exact_without_each(posterior, rows[start : start + FEW]))
    means, latent = zip(*found, strict=True)
    return _columns(np.concatenate(means)), np.concatenate(latent)


def _exact_folds(posterior: Posterior, folds: list[Array]) -> Iterator[tuple[Array, Array]]:
    """Mean and latent variance at each fold; one triangular solve serves many of them."""
    batch = np.cumsum([F.size for F in folds]) // FOLD_ROWS
    for number in np.unique(batch):
        some = [folds[k] for k in np.flatnonzero(batch == number)]
        E = inverse_factor(posterior, np.concatenate(some))
        for F, end in zip(some, np.cumsum([F.size for F in some]), strict=True):
            yield exact_without(posterior, F, E[:, end - F.size : end])


def _shares(fit: Fit, rows: Array, sample: Sample | None) -> tuple[Array, Array]:
    """w / W, the share of each observation in the precision of its row, so its noise is N W / w; and by what
    factor that is larger than the noise of a new one, as an outlier's is. Scores are in units of the latter:
    new outliers are not known to be any."""
    one = np.ones(rows.size)
    if sample is None:
        return one, one
    counts, factor = fit.counts[rows], one if sample.factors is None else sample.factors
    if sample.weights is None:
        return 1.0 / counts, factor
    return np.where(counts > 1, np.minimum(sample.weights / fit.data.precision[rows], 1.0), 1.0), factor


def _affordable_folds(posteriors: tuple[Posterior, ...]) -> int:
    """So that their factorisations take a second or two."""
    work = len(posteriors) * max(1, posteriors[0].rank) ** 3
    return max(2, int(FOLD_WORK / work))


def _random_folds(rows: Array, number: int) -> list[Array]:
    fold = np.random.default_rng([SEED, 1]).permutation(np.arange(rows.size) % number)
    return [rows[fold == k] for k in range(min(number, rows.size))]


def _group_folds(groups: Array, rng: np.random.Generator, number: int) -> list[Array]:
    """Whole groups in random order, in at most so many folds: each goes where there are the fewest rows, as
    long as there is room. In as many folds as there are groups, each has its own."""
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if sizes.min() > FOLD_ROWS:
        raise InputError(
            f"groups have at least {sizes.min():,} rows; at most {FOLD_ROWS:,} can be held out together "
            "without a refit. Use smaller groups, or Gaussian intervals and calibrated=False."
        )
    number = min(number, names.size)
    fold, filled = np.full(names.size, -1), np.zeros(number, dtype=np.intp)
    for k in rng.permutation(names.size):
        emptiest = int(filled.argmin())
        if filled[emptiest] + sizes[k] > FOLD_ROWS:
            continue
        fold[k], filled[emptiest] = emptiest, filled[emptiest] + sizes[k]
    return [np.flatnonzero(fold[group] == k) for k in range(number) if filled[k]]


def _standardised(errors: Array, variance: Array) -> Array:
    return errors / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))[:, None]


def _shaped(found: list[Array], fit: Fit) -> Array:
    """Scores of all targets, in the shape of y."""
    scores = np.concatenate(found, axis=1)
    return scores.reshape(len(scores), *fit.scaling.y_mean.shape)


def _columns(values: Array) -> Array:
    return values[:, None] if values.ndim == 1 else values
