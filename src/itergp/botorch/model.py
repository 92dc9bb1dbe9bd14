"""IterGPModel: a BoTorch model whose steps take about as long after 5,000 evaluations as after 100."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from itergp.botorch.autograd import array
from itergp.botorch.base import Moments, ProcessModel
from itergp.botorch.outputs import Output
from itergp.errors import InputError
from itergp.estimator import IterGPRegressor
from itergp.posterior.around import LIMIT
from itergp.solver.policies import UnitVector

REFIT = 0.25  # hyper-parameters are learned again when there are more rows by this share


def default_regressor() -> IterGPRegressor:
    """Matern 5/2 with a lengthscale for each input, as is usual for optimisation.

    Beyond 2,048 rows the shared actions are on a few of them: the others do not enter the time of a
    prediction.
    """
    return IterGPRegressor(kernel="matern52", policy=UnitVector("pivoted", block_size=128))


class IterGPModel(ProcessModel):
    """Independent Gaussian processes for each output, with the interface of BoTorch's models.

    Parameters
    ----------
    train_X, train_Y : (n, d) and (n, m).
    train_Yvar : known noise variances, (n, m); learned if they are not given.
    regressor : an `IterGPRegressor` that says how each output is fitted: kernel, noise, budget, neighbours.
    input_transform, outcome_transform : as for BoTorch's models. Inputs and outcomes are standardised in any
        case.

    The posterior is exact up to 2,048 rows, and as long as rows are added to it. Beyond, there are 512
    actions for all points, and each point has its 60 most telling near rows. Which rows these are changes
    from place to place, so that means have small jumps: `around(X)` gives a model that has none, and
    `itergp.botorch.optimise` uses it.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        *,
        regressor: IterGPRegressor | None = None,
        input_transform: Any = None,
        outcome_transform: Any = None,
    ) -> None:
        super().__init__()
        _check(train_X, train_Y, train_Yvar)
        self.regressor = default_regressor() if regressor is None else regressor
        if input_transform is not None:
            self.input_transform = input_transform.to(train_X).train()
        with torch.no_grad():
            Z = self.transform_inputs(train_X)
        Y, Yvar = train_Y, train_Yvar
        if outcome_transform is not None:
            Y, Yvar = outcome_transform.train()(Y, Yvar, X=Z)
            self.outcome_transform = outcome_transform
        self.train_inputs, self.train_targets = (train_X,), _columns(train_Y)
        self._Yvar, self._kept = train_Yvar, len(train_X)
        X, y = array(Z), array(Y)
        noise: Any = [None] * y.shape[1] if Yvar is None else array(Yvar).T
        self.outputs = tuple(Output.of(self.regressor, X, y[:, i], noise[i]) for i in range(y.shape[1]))
        self.eval()

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    @property
    def batch_shape(self) -> Size:
        return Size()

    def latent(self, X: Tensor) -> Moments:
        if X.ndim < 2 or X.shape[-1] != self.outputs[0].fit.features:
            raise InputError(
                f"X has shape {tuple(X.shape)}; expected (..., q, {self.outputs[0].fit.features}): as many "
                "features as the training inputs."
            )
        groups = X.reshape(-1, *X.shape[-2:])
        found = [output.moments(groups) for output in self.outputs]
        mean, cov = (torch.stack(parts, dim=1) for parts in zip(*found, strict=True))
        return mean.reshape(*X.shape[:-2], *mean.shape[1:]), cov.reshape(*X.shape[:-2], *cov.shape[1:])

    def noise_at(self, X: Tensor) -> Tensor:
        return torch.stack([output.noise(X) for output in self.outputs], dim=-2)

    def around(self, X: Tensor, neighbours: int = 60, limit: int = LIMIT) -> "IterGPModel":
        """The same model with actions on the rows near X, (..., d), shared by all points and held fixed: a
        smooth function, sharpest around X. Where the posterior is exact it is the model itself."""
        points = array(self.transform_inputs(X)).reshape(-1, X.shape[-1])
        return self._with([output.around(points, neighbours, limit) for output in self.outputs])

    def observe(
        self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None, refit: float = REFIT
    ) -> "IterGPModel":
        """The model after more evaluations, (n', d) and (n', m): hyper-parameters are learned again if the
        rows have grown by the share `refit` since they were learned. Otherwise it acts on the new rows."""
        _check(X, Y, Yvar)
        if (Yvar is None) != (self._Yvar is None):
            raise InputError("Yvar must be given if and only if the model has train_Yvar.")
        if len(self.train_inputs[0]) + len(X) < (1.0 + refit) * self._kept:
            noise = Yvar
            if Yvar is not None and hasattr(self, "outcome_transform"):
                noise = self.outcome_transform(Y, Yvar, X=self.transform_inputs(X))[1]
            more = self.condition_on_observations(X, Y, noise)
            assert isinstance(more, IterGPModel)
            more._Yvar = _joined(self._Yvar, Yvar)
            return more
        old = self.train_inputs[0], self._rows_of_targets(), self._Yvar
        data: Any = [_joined(before, new) for before, new in zip(old, (X, Y, Yvar), strict=True)]
        transforms = {
            name: deepcopy(getattr(self, name))  # those of this model keep what they have learned
            for name in ("input_transform", "outcome_transform")
            if hasattr(self, name)
        }
        return IterGPModel(*data, regressor=self.regressor, **transforms)

    def _conditioned(self, X: Tensor, Z: Tensor, Y: Tensor, noise: Tensor | None) -> ProcessModel:
        """One more batch of plain data is a longer posterior; batches and fantasies are conditioned on."""
        tracked = any(values is not None and values.requires_grad for values in (Z, Y, noise))
        if X.ndim != 2 or Y.ndim != 2 or tracked or not len(X):
            return super()._conditioned(X, Z, Y, noise)
        rows, y = array(Z), array(Y).T
        N = [None] * self.num_outputs if noise is None else array(noise.expand(Y.shape)).T
        longer = self._with(
            [output.extended(rows, *new) for output, *new in zip(self.outputs, y, N, strict=True)]
        )
        longer.train_inputs = (torch.cat([self.train_inputs[0], X.detach()]),)
        original = (
            self.outcome_transform.untransform(Y, None, X=Z)[0] if hasattr(self, "outcome_transform") else Y
        )
        longer.train_targets = torch.cat([self.train_targets, _columns(original.detach())], dim=-1)
        return longer

    def _with_outputs(self, idcs: list[int]) -> "IterGPModel":
        some = self._with([self.outputs[i] for i in idcs])
        some.train_targets = _columns(self._rows_of_targets()[:, idcs])
        some._Yvar = None if self._Yvar is None else self._Yvar[:, idcs]
        return some

    def _with(self, outputs: Sequence[Output]) -> "IterGPModel":
        """The same data and transforms; nothing is learned."""
        new = IterGPModel.__new__(IterGPModel)
        ProcessModel.__init__(new)
        new.regressor, new.outputs = self.regressor, tuple(outputs)
        new.train_inputs, new.train_targets = self.train_inputs, self.train_targets
        new._Yvar, new._kept = self._Yvar, self._kept
        new.share_transforms(self)
        return new.eval()

    def _rows_of_targets(self) -> Tensor:
        """(n, m)"""
        targets = self.train_targets
        return targets.unsqueeze(-1) if targets.ndim == 1 else targets.T


def _joined(before: Tensor | None, new: Tensor | None) -> Tensor | None:
    return None if before is None or new is None else torch.cat([before, new])


def _columns(Y: Tensor) -> Tensor:
    """Targets as BoTorch keeps them: (n,), or (m, n)."""
    return Y[:, 0] if Y.shape[1] == 1 else Y.T


def _check(X: Tensor, Y: Tensor, Yvar: Tensor | None) -> None:
    if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y) or not Y.shape[1]:
        raise InputError(
            f"X and Y have the shapes {tuple(X.shape)} and {tuple(Y.shape)}; expected (n, d) and (n, m), "
            "without batches."
        )
    if Yvar is not None and Yvar.shape != Y.shape:
        raise InputError(f"Yvar has shape {tuple(Yvar.shape)}; expected that of Y, {tuple(Y.shape)}.")
    if not np.isfinite(array(Y)).all():
        raise InputError("Y has entries that are not finite; expected numbers. Drop those rows.")
