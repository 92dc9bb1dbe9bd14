"""In which units a fit is: those of the data, or standardised."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from itergp import brief
from itergp.data.spread import centre_and_spread
from itergp.errors import LearningWarning
from itergp.estimator.names import in_units_of_inputs, translate_kernel
from itergp.fitted.first_rows import constant
from itergp.fitted.units import Scaling
from itergp.prior.kernel import Kernel, Term
from itergp.prior.stationary import Periodic
from itergp.validate import Array

FAR = 1e3  # between a lengthscale and the standard deviation of its feature: nobody means that


def scaling_for(asked: Mapping[str, Any], X: Array, y: Array, weights: Array | None) -> Scaling:
    """Inputs are standardised for a kernel by name. One that is given has lengthscales and periods in their
    units, where a year is a year."""
    if not asked["normalize"]:
        return Scaling.none(X, y)
    scaling = Scaling.of(X, y, weights)
    if in_units_of_inputs(asked["kernel"]):
        spread = np.where(constant(X), np.nan, scaling.x_scale)
        warn_of_units(translate_kernel(asked["kernel"], X.shape[1]).kernel, spread)
        return scaling.keeping_inputs()
    return scaling


def equally_spread(asked: Mapping[str, Any], X: Array) -> Array:
    """Inputs as distances between rows need them, where no kernel has a say: in the units of X, a feature in
    metres would count for nothing beside one in pascals."""
    own_units = asked["normalize"] and in_units_of_inputs(asked["kernel"])
    return X / centre_and_spread(X)[1] if own_units else X


def warn_of_units(kernel: Kernel, spread: Array) -> None:
    """Say where a lengthscale or a period is so far from the spread of its feature that its unit is
    probably another. That of a constant feature is NaN: any lengthscale suits it."""
    for term in kernel.terms():
        for name, values in _lengths(term):
            own = spread if term.columns is None else spread[list(term.columns)]
            ratio = np.where(np.isnan(own), 1.0, np.asarray(values, dtype=np.float64) / own)
            worst = int(np.argmax(np.abs(np.log(ratio))))
            if 1 / FAR <= ratio[worst] <= FAR:
                continue
            column = worst if term.columns is None else term.columns[worst]
            given = float(np.broadcast_to(values, own.shape)[worst])
            warnings.warn(
                f"kernel: the {name} of {type(term.kernel).__name__} is {brief.number(given)}, but feature "
                f"{column} has a standard deviation of {own[worst]:.3g}. Lengthscales and periods of a given "
                "kernel are in the units of X. Give them in these units (one per feature, if the units "
                "differ), or name the kernel (kernel='matern32'): then inputs are standardised first.",
                LearningWarning,
                stacklevel=6,
            )
            return


def _lengths(term: Term) -> list[tuple[str, Array]]:
    """The parameters of a leaf that are in the units of the inputs."""
    names = ("period",) if isinstance(term.kernel, Periodic) else ("lengthscale",)
    return [(name, getattr(term.kernel, name)) for name in names if hasattr(term.kernel, name)]
