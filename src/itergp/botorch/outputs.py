"""One output of a model: a fit of the estimator, as a process of torch tensors in the units of the data."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from itergp.botorch.autograd import Moments, array
from itergp.errors import InputError
from itergp.estimator import IterGPRegressor
from itergp.fitted.fit import Fit
from itergp.fitted.units import Scaling
from itergp.posterior.combined import Posterior
from itergp.posterior.local import NEIGHBOURS

SMALLEST = 1e-10  # of the variance of y: known noise is at least this


@dataclass(frozen=True, eq=False)
class Output:
    """A fit, the posterior that may have more data since, and the process that is asked."""

    fit: Fit
    posterior: Posterior
    process: Any

    @staticmethod
    def of(regressor: IterGPRegressor, X: np.ndarray, y: np.ndarray, noise: np.ndarray | None) -> "Output":
        """Learn from y (n,), whose noise variances are known if they are given."""
        regressor, weights = clone(regressor), None
        if noise is not None:
            regressor, weights = _with_noise(regressor, X, y, noise)
        fit = regressor.fit(X, y, sample_weight=weights).fit_
        return Output(fit, fit.posterior, fit.process)  # type: ignore[arg-type]  # y is a vector

    @property
    def scaling(self) -> Scaling:
        return self.fit.scaling

    @property
    def exact(self) -> bool:
        """Whether there are as many actions as rows: then predictions need no rows of their own."""
        return self.posterior.rank == self.posterior.problem.n

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (b, q) and covariance (b, q, q) at groups of points, (b, q, d)."""
        mean, cov = Moments.apply(self.scaled(X), self.process)
        y_mean, y_scale = float(self.scaling.y_mean), float(self.scaling.y_scale)
        return y_mean + y_scale * mean, y_scale**2 * cov

    def scaled(self, X: Tensor) -> Tensor:
        centre, scale = (torch.as_tensor(a).to(X) for a in (self.scaling.x_mean, self.scaling.x_scale))
        return (X - centre) / scale

    def noise(self, X: Tensor) -> Tensor:
        """The variance of an observation at these points, (b, q)."""
        Z = self.scaling.inputs(array(X).reshape(-1, X.shape[-1]))
        values = self.scaling.variance(np.broadcast_to(self.fit.noise_at(Z), len(Z)))
        return torch.as_tensor(np.array(values)).to(X).reshape(X.shape[:-1])

    def extended(self, X: np.ndarray, y: np.ndarray, noise: np.ndarray | None) -> "Output":
        """With more rows, in the units of the data: no hyper-parameter changes.

        A posterior that all points share acts on the new rows. Where each point acts on the rows near it, the
        new ones are among these, so that the number of actions, and the time of a step, stay as they are.
        """
        Z, scale = self.scaling.inputs(X), float(self.scaling.y_scale)
        variances = np.broadcast_to(self.fit.noise_at(Z), len(Z)) if noise is None else noise / scale**2
        shared = isinstance(self.process, Posterior)
        more = self.posterior.extend if shared else self.posterior.append
        posterior = more(Z, self.scaling.targets(y), variances)
        return replace(self, posterior=posterior, process=_like(self.process, posterior))

    def around(self, X: np.ndarray, neighbours: int, limit: int) -> "Output":
        """With actions that all points share, held fixed; as it is, if it is exact."""
        if self.exact:
            return self
        return replace(self, process=self.posterior.around(self.scaling.inputs(X), neighbours, limit))


def _like(process: Any, posterior: Posterior) -> Any:
    """The posterior with more data, asked in the same way; actions around some points are chosen anew."""
    if isinstance(process, Posterior):
        return posterior
    return posterior.local(getattr(process, "neighbours", NEIGHBOURS))


def _with_noise(
    regressor: IterGPRegressor, X: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> tuple[IterGPRegressor, np.ndarray]:
    """The same regressor with known noise: its level, in scaled units, and weights for its ratios."""
    if (noise < 0).any():
        raise InputError("train_Yvar has negative entries; expected noise variances.")
    noise = np.maximum(noise, max(SMALLEST * float(np.var(y)), np.finfo(float).tiny))
    level = float(np.exp(np.log(noise).mean()))
    weights = level / noise
    scaling = Scaling.of(X, y, weights) if regressor.normalize else Scaling.none(X, y)
    return regressor.set_params(noise=level / float(scaling.y_scale) ** 2), weights
