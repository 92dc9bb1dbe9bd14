"""How much each feature matters to a fit."""

from dataclasses import dataclass

import numpy as np

from itergp.data.spread import centre_and_spread
from itergp.fitted.first_rows import constant
from itergp.fitted.fit import Fit
from itergp.linalg.gram import Gram
from itergp.prior.parameters import parameters


@dataclass(frozen=True)
class Relevance:
    """Of one feature: 1 for the most relevant one."""

    feature: int  # its number
    value: float
    lengthscale: float | None  # in scaled units, where the kernel has one for each feature
    unit: float  # of the feature, in its own units
    told: float | None = None  # the lengthscale of the input that says whether it is missing, if there is one

    @property
    def inverse(self) -> float | None:
        """1 / lengthscale, in scaled units."""
        known = [one for one in (self.lengthscale, self.told) if one is not None]
        return None if self.lengthscale is None else 1.0 / min(known)

    @property
    def own_lengthscale(self) -> float | None:
        """In the units of the feature."""
        return None if self.lengthscale is None else self.lengthscale * self.unit


def relevances(fit: Fit) -> list[Relevance]:
    """The most relevant feature first. An input that says whether a column is missing belongs to that column,
    which is at least as relevant."""
    scaled = bool((fit.scaling.x_scale != 1.0).any())
    found, lengthscales = _values(fit.posterior.problem.gram, scaled)
    flags, told = {} if fit.donors is None else fit.donors.holes.flags, {}
    for flag, hole in flags.items():
        if hole.told:
            most = max(hole.values, key=lambda j: found[j])
            found[most], told[most] = max(found[most], found[flag]), flag
    return [
        Relevance(
            int(j),
            float(found[j]),
            None if lengthscales is None else float(lengthscales[j]),
            float(fit.scaling.x_scale[j]),
            None if lengthscales is None or j not in told else float(lengthscales[told[j]]),
        )
        for j in np.argsort(-found, kind="stable")
        if j not in flags
    ]


def _values(gram: Gram, scaled: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Spread / lengthscale where the kernel has one for each feature, the largest 1; and these lengthscales.

    Else the variance of the function's change when a feature moves by one standard deviation from the median.
    """
    kernel, X = gram.kernel, gram.X
    scales = [value for path, value in parameters(kernel).items() if path.endswith("lengthscale")]
    d = X.shape[1]
    if len(scales) == 1 and np.size(scales[0]) == d:
        lengthscales = np.atleast_1d(np.asarray(scales[0], dtype=np.float64))
        if scaled:
            return (1.0 / lengthscales) * lengthscales.min(), lengthscales
        spread = centre_and_spread(X - np.median(X, axis=0))[1]  # far from the origin, all looks constant
        found = np.where(constant(X), 0.0, spread) / lengthscales
        return found / found.max() if found.max() > 0 else np.ones(d), lengthscales
    centre = np.median(X, axis=0)[None, :]
    moved = np.repeat(centre, d, axis=0) + np.diag(X.std(axis=0))
    k = gram.dense(centre, moved)[0]
    change = np.maximum(float(kernel.diagonal(centre)[0]) + np.asarray(kernel.diagonal(moved)) - 2 * k, 0.0)
    return change / change.max() if change.max() > 0 else np.ones(d), None
