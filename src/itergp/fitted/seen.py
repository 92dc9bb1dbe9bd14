"""A fit, looked at where it predicts: at test data, or at held-out rows. The report, the notebook card and
the command line say what is measured here, so they say the same."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.fitted.filling import known, lacked
from itergp.fitted.fit import Fit
from itergp.fitted.forecast import Forecast, forecast
from itergp.fitted.points import LEADING, EachTarget, Points, from_folds, from_test_data
from itergp.fitted.price import seconds_for
from itergp.fitted.shares import Parts, Share, mathematical_factors, parts
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import with_targets
from itergp.posterior.targets import TargetPosterior
from itergp.validate import as_float64, finite

POSITIONS = 24  # of the path, beside no computation and local actions
TARGETS = 8  # that are looked at
EXTRA = 0.5  # of the seconds of a fit, that may be taken for the computational share
# which values rows lack, and which they may lack, (n, columns) each; None: nothing can be missing
Lacks: TypeAlias = tuple[np.ndarray, np.ndarray] | None
_SHARES: "WeakKeyDictionary[Fit, Share]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Seen:
    """Means and variances of the latent function at some points along the computation, in scaled units; the
    last position is the fit as it predicts, whose variance is taken apart."""

    fit: Fit
    posteriors: tuple[Posterior, ...]  # one for all targets, or one for each
    points: Points
    factors: list[np.ndarray] | None  # L L^T = K_hat of each, where that is known
    ranks: np.ndarray
    means: np.ndarray  # (K, m, t)
    variances: np.ndarray  # (K, m)
    parts: Parts
    lacks: Lacks = None  # of the points

    @property
    def posterior(self) -> Posterior:
        return self.posteriors[0]

    @cached_property
    def share(self) -> Share:
        """The computational share of the fit as it predicts."""
        return self.parts.share

    @cached_property
    def shared_share(self) -> Share | None:
        """The same before the local actions of each point; None where there are none."""
        return self.parts.of_variances(self.variances[-2]).share if self.fit.neighbours else None

    @cached_property
    def forecast(self) -> Forecast:
        return forecast(self.parts, self.fit.neighbours)

    def share_along(self) -> list[float]:
        """The computational share at each position."""
        mathematical = self.parts.mathematical
        totals = np.maximum(self.variances[:, self.parts.chosen], mathematical).sum(axis=1)
        return [1.0 - float(mathematical.sum()) / float(total) if total > 0 else 0.0 for total in totals]


def look(fit: Fit, X_test: ArrayLike | None = None, y_test: ArrayLike | None = None) -> Seen:
    """At test data in the units of the data, or by held-out folds without a refit."""
    posteriors = _posteriors(fit)
    held_out_lack = None if fit.donors is None or X_test is not None else lacked(fit)
    points = _points(fit, posteriors, X_test, y_test, held_out_lack)
    ranks, factors = positions(posteriors[0]), mathematical_factors(posteriors)
    means, variances = points.path(ranks, fit.neighbours)
    found = parts(points, variances[-1], fit.neighbours, factors, seconds_for(fit, EXTRA))
    lacks = _lacks(fit, points.rows, X_test, held_out_lack)
    seen = Seen(fit, posteriors, points, factors, ranks, means, variances, found, lacks)
    if X_test is None:
        _SHARES[fit] = seen.share
    return seen


def known_share(fit: Fit) -> Share | None:
    """The share at held-out rows, where it was measured before."""
    return _SHARES.get(fit)


def positions(posterior: Posterior) -> np.ndarray:
    """The prefixes of the computation that are looked at: denser at its beginning, where most happens."""
    r = posterior.rank
    last = min(r, LEADING) if r == posterior.problem.n else r
    ranks = np.round(last * (np.arange(POSITIONS + 1) / POSITIONS) ** 2).astype(int)
    return np.unique(np.append(ranks, r))


def _posteriors(fit: Fit) -> tuple[Posterior, ...]:
    if isinstance(fit.posterior, TargetPosterior):
        return fit.posterior.each[:TARGETS]
    return (with_targets(fit.posterior),)


def _lacks(fit: Fit, rows: np.ndarray, X_test: ArrayLike | None, held_out: Lacks) -> Lacks:
    if fit.donors is None:
        return None
    if X_test is None or held_out is not None:
        assert held_out is not None
        found, perhaps = held_out
        return found[rows], perhaps[rows]
    found = fit.donors.holes.missing(as_float64("X_test", X_test))[rows]
    return found, np.zeros_like(found)


def _extra(fit: Fit, lack: Lacks) -> float | np.ndarray:
    """(n,): how much of the noise of training rows is what their missing values could be."""
    if lack is None or fit.own_variances:
        return 0.0
    lacking, X = (lack[0] | lack[1]).any(axis=1), fit.posterior.problem.X
    noise = fit.noise_at(X) / fit.counts
    return np.where(lacking, np.maximum(fit.posterior.problem.N - noise, 0.0), 0.0)


def _points(
    fit: Fit,
    posteriors: tuple[Posterior, ...],
    X_test: ArrayLike | None,
    y_test: ArrayLike | None,
    held_out_lack: Lacks = None,
) -> Points:
    if (X_test is None) != (y_test is None):
        given, missing = ("X_test", "y_test") if y_test is None else ("y_test", "X_test")
        raise InputError(
            f"{given} is given and {missing} is not; pass both, or neither to use held-out folds."
        )
    if X_test is None or y_test is None:
        extra = _extra(fit, held_out_lack)
        held = [from_folds(one, fit.counts, fit.neighbours, fit.learned, extra) for one in posteriors]
        return held[0] if len(held) == 1 else EachTarget(tuple(held))
    X, y = as_float64("X_test", X_test), finite("y_test", as_float64("y_test", y_test))
    if X.ndim != 2 or X.shape[1] != fit.features:
        raise InputError(
            f"X_test has shape {X.shape}; expected (m, {fit.features}): the features of the fit."
        )
    expected = (len(X), *fit.scaling.y_mean.shape)
    if y.shape != expected:
        raise InputError(
            f"y_test has shape {y.shape}; expected {expected}: one row per row of X_test, targets as in fit."
        )
    (X, extra), y = known(fit, X if fit.donors is not None else finite("X_test", X)), fit.scaling.targets(y)
    if len(posteriors) == 1:
        return from_test_data(posteriors[0], X, y, fit.noise_at(X), extra)
    noise = np.broadcast_to(fit.noise_at(X), (len(X), fit.targets))
    return EachTarget(
        tuple(from_test_data(one, X, y[:, t], noise[:, t], extra) for t, one in enumerate(posteriors))
    )
