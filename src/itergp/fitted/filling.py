"""Rows with missing values, as a fit predicts them."""

from itergp.data.donors import Function, filled
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
    if not fit.donors.holes.missing(X).any():
        return X, 0.0
    return filled(X, fit.donors, belief(fit))


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
