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

    @property
    def own_lengthscale(self) -> float | None:
        """In the units of the feature."""
        return None if self.lengthscale is None else self.lengthscale * self.unit


def relevances(fit: Fit) -> list[Relevance]:
    """The most relevant feature first."""
    scaled = bool((fit.scaling.x_scale != 1.0).any())
    found, lengthscales = _values(fit.posterior.problem.gram, scaled)
    return [
        Relevance(
            int(j),
            float(found[j]),
            None if lengthscales is None else float(lengthscales[j]),
            float(fit.scaling.x_scale[j]),
        )
        for j in np.argsort(-found, kind="stable")
    ]


def _values(gram: Gram, scaled: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Spread / lengthscale where the kernel has one for each feature, the largest 1; and these lengthscales.

    Else how far the correlation falls when a feature moves by one standard deviation from the median.
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
    size = np.sqrt(float(kernel.diagonal(centre)[0]) * np.asarray(kernel.diagonal(moved)))
    fall = 1.0 - np.divide(k, size, out=np.ones(d), where=size > 0)
    return fall / fall.max() if fall.max() > 0 else np.ones(d), None
