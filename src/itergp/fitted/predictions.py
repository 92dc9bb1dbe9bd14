"""Predictions of a fit, in the units of the data."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from itergp.fitted.batches import batch
from itergp.fitted.filling import filled_in, known
from itergp.fitted.fit import Fit
from itergp.fitted.scores import calibrated
from itergp.fitted.shares import mathematical_factors
from itergp.fitted.units import Parts, Unscaled
from itergp.posterior.at import At, LocalAt
from itergp.posterior.spread import marginals
from itergp.posterior.uncertainty import Certificate, Decomposition, taken_apart, variance_by
from itergp.validate import Array


def mean(fit: Fit, X: Array) -> Array:
    """(m,) or (m, t)"""
    return fit.scaling.mean(_marginals(fit, known(fit, X)[0], False)[0])


def mean_and_std(fit: Fit, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
    """Each (m,) or (m, t); of a new observation, or of the latent function. What a missing value could be is
    in both."""
    return _mean_std_and_noise(fit, X, include_noise)[:2]


def mean_std_and_noise(fit: Fit, X: Array) -> tuple[Array, Array, Array]:
    """Of new observations: the third is the standard deviation of what is noise; each (m,) or (m, t)."""
    return _mean_std_and_noise(fit, X, include_noise=True)


def _mean_std_and_noise(fit: Fit, X: Array, include_noise: bool) -> tuple[Array, Array, Array]:
    X, extra = known(fit, X)
    mean, variance = _marginals(fit, X, True)
    assert variance is not None
    noise = _noise(fit, X, include_noise)
    each = np.sqrt(np.broadcast_to(noise, (len(X), *np.shape(fit.noise))))
    return fit.scaling.mean(mean), fit.size(np.sqrt(variance + noise + extra)), fit.size(each)


def conformal_ends(fit: Fit, level: float, name: str = "level") -> tuple[Fit, tuple[Array, Array]]:
    """The fit with its calibration, and where intervals end, in standard deviations from the mean."""
    fit = calibrated(fit)
    assert fit.calibration is not None
    return fit, fit.calibration.reach(level, name)


def score_quantiles(fit: Fit, levels: Array, method: str, name: str = "levels") -> tuple[Fit, Array]:
    """The fit, with its calibration if held-out rows are asked, and quantiles in standard deviations from the
    mean: (levels,), or (levels, t)."""
    if method == "gaussian":
        return fit, ndtri(levels)
    fit = calibrated(fit)
    assert fit.calibration is not None
    return fit, fit.calibration.quantiles(levels, name)


def at_quantiles(mean: Array, std: Array, scores: Array) -> Array:
    """(m, levels), or (m, t, levels)"""
    return mean[..., None] + std[..., None] * np.moveaxis(scores, 0, -1)


def mean_and_cov(fit: Fit, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
    """Of all points together: the same means and variances as of each alone."""
    X, extra = filled_in(fit, X)
    Z = fit.scaling.inputs(X)
    covariance = fit.process.cov(Z)
    covariance[np.diag_indices(len(X))] += _noise(fit, Z, include_noise) + extra
    return fit.scaling.mean(_marginals(fit, Z, False)[0]), fit.variance(covariance)


def sample(fit: Fit, X: Array, number: int, rng: np.random.RandomState, include_noise: bool = True) -> Array:
    """Joint draws (m, number) or (m, t, number)."""
    Z, extra = known(fit, X)
    draws = fit.process.sample(Z, number, seed=int(rng.randint(2**31 - 1)))
    noise = np.asarray(_noise(fit, Z, include_noise) + extra)
    if fit.noise_function is not None and noise.ndim == 1 and draws.ndim == 3:
        noise = noise[:, None]  # the same for all targets
    draws = draws + np.sqrt(noise) * rng.standard_normal(draws.shape)
    return np.moveaxis(fit.scaling.mean(draws), 0, -1)


def decompose(fit: Fit, X: Array, passes: int | None = None) -> Parts:
    """The variance of a new observation, taken apart."""
    X, extra = known(fit, X)
    return _parts(fit, X, fit.process.decompose(X, passes=passes), extra)


def exact_factor(fit: Fit) -> Array | None:
    """L L^T = K_hat of a fit with one target, if the exact GP is needed and possible to take variances apart:
    made once, for any number of points."""
    factors = mathematical_factors([fit.shared])
    return None if factors is None else factors[0]


def mean_std_and_parts(fit: Fit, X: Array, passes: int, factor: Array | None) -> tuple[Array, Array, Parts]:
    """What `mean_and_std` and `decompose` say of a fit with one target, computed once for both."""
    Z, extra = known(fit, X)
    at = fit.process.at(Z)
    assert isinstance(at, At | LocalAt)
    mean, variance = at.marginals
    if factor is None:
        found = at.decompose(passes=passes)
    else:
        exact = variance_by(factor, fit.shared, Z)
        found = taken_apart(variance, exact, exact, "exact")
    std = fit.size(np.sqrt(variance + _noise(fit, Z, include_noise=True) + extra))
    return fit.scaling.mean(mean), std, _parts(fit, Z, found, extra)


def _parts(fit: Fit, Z: Array, parts: Decomposition, extra: Array | float) -> Parts:
    """In the units of the data; Z is in scaled ones. What missing values add is mathematical: the data do not
    say what they are, and no computation finds out."""
    return Parts(
        mathematical=fit.variance(parts.mathematical + extra),
        computational=fit.variance(parts.computational),
        noise=fit.variance(np.broadcast_to(fit.noise_at(Z), (len(Z), *np.shape(fit.noise)))),
        computational_lower=fit.variance(parts.computational_lower),
        computational_upper=fit.variance(parts.computational_upper),
        exact=parts.exact,
        method=parts.method,
        neighbours=parts.neighbours,
    )


def certify(fit: Fit, X: Array) -> Certificate:
    """Guaranteed bounds on the exact GP, in units of y squared and of y. Its variance is the mathematical
    one, with what missing values could be."""
    X, extra = known(fit, X)
    found = fit.process.certify(X)
    lower, upper = (fit.variance(one + extra) for one in (found.variance_lower, found.variance_upper))
    return Certificate(lower, upper, fit.size(found.mean_error))


def noise(fit: Fit) -> Any:
    """The noise variance in units of y squared: where it varies, as a function of X in those of the data."""
    if fit.noise_function is None:
        return fit.variance(np.array(fit.noise))
    return lambda X: fit.variance(np.asarray(fit.noise_at(fit.scaling.inputs(X))))


def as_process(fit: Fit) -> Unscaled:
    """The fit as a Gaussian process in the units of the data."""
    return Unscaled(fit.process, fit.scaling, fit.own_variances)


def _marginals(fit: Fit, X: Array, with_variance: bool) -> tuple[Array, Array | None]:
    """Means, and latent variances if asked; all in scaled units."""
    return marginals(fit.process, X, batch(fit), with_variance)


def _noise(fit: Fit, X: Array, include_noise: bool) -> float | Array:
    """At inputs in scaled units."""
    return fit.noise_at(X) if include_noise else 0.0
