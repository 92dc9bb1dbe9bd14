"""How much each feature matters to a fit."""

from dataclasses import dataclass

import numpy as np

from itergp.data.spread import centre_and_spread
from itergp.fitted.batches import batch
from itergp.fitted.first_rows import constant
from itergp.fitted.fit import Fit
from itergp.linalg.gram import Gram
from itergp.posterior.spread import marginals
from itergp.prior.parameters import parameters

POINTS = 1024  # at which a function is asked how far it moves


@dataclass(frozen=True)
class Relevance:
    """Of one feature: 1 for the most relevant one."""

    feature: int  # its number
    value: float
    lengthscale: float | None  # in scaled units, where the kernel has one for each feature
    unit: float  # of the feature, in its own units
    varies: bool = True  # whether training rows differ in it: else they say nothing about it

    @property
    def inverse(self) -> float | None:
        """1 / lengthscale, in scaled units; 0 for a feature that does not vary."""
        if not self.varies:
            return None if self.lengthscale is None else 0.0
        return None if self.lengthscale is None else 1.0 / self.lengthscale

    @property
    def own_lengthscale(self) -> float | None:
        """In the units of the feature."""
        return None if self.lengthscale is None else self.lengthscale * self.unit


def relevances(fit: Fit) -> list[Relevance]:
    """The most relevant feature first: all that are counted, so also inputs that say whether a column is
    missing, where they are in use. A column that is constant in the training rows has no relevance, whatever
    its lengthscale: that may be short, for the sake of values that nobody has seen."""
    scaled, varies = bool((fit.scaling.x_scale != 1.0).any()), varying(fit)
    told = _by_lengthscales(fit.posterior.problem.gram, scaled) if fit.flat else None
    found, lengthscales = told or (_by_movement(fit), None)
    found = _of_largest(np.where(varies, found, 0.0), varies)
    return [
        Relevance(
            int(j),
            float(found[j]),
            None if lengthscales is None else float(lengthscales[j]),
            float(fit.scaling.x_scale[j]),
            bool(varies[j]),
        )
        for j in np.argsort(-found, kind="stable")
        if j not in fit.idle
    ]


def varying(fit: Fit) -> np.ndarray:
    """(d,): which features differ between training rows, by more than rounding."""
    X = fit.posterior.problem.X
    # centred, a column that is constant but for rounding looks like any other
    return ~constant(fit.scaling.original(np.stack([X.min(axis=0), X.max(axis=0)])))


def _by_lengthscales(gram: Gram, scaled: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Spread / lengthscale where the kernel has one for each feature, and these lengthscales."""
    kernel, X = gram.kernel, gram.X
    scales = [value for path, value in parameters(kernel).items() if path.endswith("lengthscale")]
    d = X.shape[1]
    if len(scales) != 1 or np.size(scales[0]) != d:
        return None
    lengthscales = np.atleast_1d(np.asarray(scales[0], dtype=np.float64))
    if scaled:
        return 1.0 / lengthscales, lengthscales
    spread = centre_and_spread(X - np.median(X, axis=0))[1]  # far from the origin, all looks constant
    return spread / lengthscales, lengthscales


def _by_movement(fit: Fit) -> np.ndarray:
    """How far the mean of the function moves when a feature moves by one standard deviation, towards its
    median, where there are data: the root mean square over some rows and all targets.

    The kernel does not say it: a linear part has one lengthscale, and the data tell the slopes. Nor does it
    where the prior mean depends on the inputs."""
    X = fit.posterior.problem.X
    n, d = X.shape
    rows = X[np.linspace(0, n - 1, min(n, max(1, POINTS // d))).astype(int)]
    steps = np.where(rows > np.median(X, axis=0), -1.0, 1.0) * X.std(axis=0)
    moved = rows[:, None] + steps[:, :, None] * np.eye(d)
    asked = np.concatenate([rows, moved.reshape(-1, d)])
    means = marginals(fit.process, asked, batch(fit), False)[0].reshape(len(asked), -1)
    change = means[len(rows) :].reshape(len(rows), d, -1) - means[: len(rows), None]
    return np.sqrt(np.mean(change**2, axis=(0, 2)))


def _of_largest(found: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """Relative to the largest; where all are 0, features that vary are equally relevant."""
    return found / found.max() if found.max() > 0 else varies.astype(np.float64)
