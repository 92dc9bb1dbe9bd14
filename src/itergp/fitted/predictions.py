"""Predictions of a fit, in the units of the data."""

import numpy as np

from itergp.fitted.calibration import calibrated
from itergp.fitted.fit import Fit
from itergp.fitted.units import Parts, Unscaled
from itergp.posterior.uncertainty import Certificate
from itergp.validate import Array

BATCH_BYTES = 2**29  # of weights at test points, at once
MOST = 2**15  # test points at once: the rows near them take 30 MB, and Ctrl-C takes effect in between


def mean(fit: Fit, X: Array) -> Array:
    """(m,) or (m, t)"""
    return fit.scaling.mean(_marginals(fit, X, False)[0])


def mean_and_std(fit: Fit, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
    """Each (m,) or (m, t); of a new observation, or of the latent function."""
    mean, variance = _marginals(fit, X, True)
    assert variance is not None
    return fit.scaling.mean(mean), fit.size(np.sqrt(variance + _noise(fit, include_noise)))


def conformal_ends(fit: Fit, level: float) -> tuple[Fit, tuple[Array, Array]]:
    """The fit with its calibration, and where intervals end, in standard deviations from the mean."""
    fit = calibrated(fit)
    assert fit.calibration is not None
    return fit, fit.calibration.reach(level)


def mean_and_cov(fit: Fit, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
    """Of all points together, from the actions that they share: without the local ones."""
    X = fit.scaling.inputs(X)
    covariance = fit.posterior.cov(X)
    covariance[np.diag_indices(len(X))] += _noise(fit, include_noise)
    return fit.scaling.mean(fit.posterior.mean(X)), fit.variance(covariance)


def sample(fit: Fit, X: Array, number: int, rng: np.random.RandomState, include_noise: bool = True) -> Array:
    """Joint draws (m, number) or (m, t, number), from the actions that all points share."""
    draws = fit.posterior.sample(fit.scaling.inputs(X), number, seed=int(rng.randint(2**31 - 1)))
    draws = draws + np.sqrt(_noise(fit, include_noise)) * rng.standard_normal(draws.shape)
    return np.moveaxis(fit.scaling.mean(draws), 0, -1)


def decompose(fit: Fit, X: Array, passes: int | None = None) -> Parts:
    """The variance of a new observation, taken apart."""
    parts = fit.process.decompose(fit.scaling.inputs(X), passes=passes)
    return Parts(
        mathematical=fit.variance(parts.mathematical),
        computational=fit.variance(parts.computational),
        noise=fit.variance(np.full((len(X), *np.shape(fit.noise)), fit.noise)),
        computational_lower=fit.variance(parts.computational_lower),
        computational_upper=fit.variance(parts.computational_upper),
        exact=parts.exact,
        method=parts.method,
        neighbours=parts.neighbours,
    )


def certify(fit: Fit, X: Array) -> Certificate:
    """Guaranteed bounds on the exact GP, in units of y squared and of y."""
    found = fit.process.certify(fit.scaling.inputs(X))
    return Certificate(
        fit.variance(found.variance_lower), fit.variance(found.variance_upper), fit.size(found.mean_error)
    )


def as_process(fit: Fit) -> Unscaled:
    """The fit as a Gaussian process in the units of the data."""
    return Unscaled(fit.process, fit.scaling, fit.own_variances)


def batch(fit: Fit) -> int:
    """How many points are handled at once, so that their weights fit in memory."""
    return min(MOST, max(256, BATCH_BYTES // (24 * max(1, fit.posterior.rank))))


def _marginals(fit: Fit, X: Array, with_variance: bool) -> tuple[Array, Array | None]:
    """Means, and latent variances if asked, in scaled units."""
    X, process, size = fit.scaling.inputs(X), fit.process, batch(fit)
    batches = (process.at(X[i : i + size]) for i in range(0, len(X), size))
    if not with_variance:
        return np.concatenate([some.mean for some in batches]), None
    means, variances = zip(*(some.marginals for some in batches), strict=True)
    return np.concatenate(means), np.concatenate(variances)


def _noise(fit: Fit, include_noise: bool) -> float | Array:
    return fit.noise if include_noise else 0.0
