"""What BoTorch asks of a model, written once for all of ours: `posterior`, transforms, fantasies.

A model says what it knows at groups of points, in the units that its transforms lead to (`latent`,
`noise_at`). More data that come in batches, or with gradients, or as fantasies, are conditioned on in torch:
given the joint covariance of old and new points this is a small, dense and differentiable formula.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator import to_linear_operator
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Size, Tensor

from itergp.errors import InputError

Moments = tuple[Tensor, Tensor]  # mean (..., m, q) and covariance (..., m, q, q)


class ProcessModel(Model, FantasizeMixin):
    """A model with independent outputs."""

    likelihood: Any = None  # BoTorch asks whether it has fixed noise
    input_transform: Any
    outcome_transform: Any

    @abstractmethod
    def latent(self, X: Tensor) -> Moments:
        """Of the latent functions at (..., q, d), in transformed units."""

    @abstractmethod
    def noise_at(self, X: Tensor) -> Tensor:
        """The variance of an observation in transformed units, (..., m, q)."""

    @abstractmethod
    def _with_outputs(self, idcs: list[int]) -> "ProcessModel": ...

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Joint over the q points of each batch, differentiable in X: (..., q, d)."""
        if output_indices is not None:
            some = self.subset_output(list(output_indices))
            return some.posterior(X, None, observation_noise, posterior_transform)
        if self.training:  # as BoTorch's models do: transforms would learn from X otherwise
            self.eval()
        Z = self.transform_inputs(X)
        mean, cov = self.latent(Z)
        if observation_noise is not False:
            given = isinstance(observation_noise, Tensor)
            noise = observation_noise.transpose(-1, -2) if given else self.noise_at(Z)  # type: ignore[union-attr]
            cov = cov + torch.diag_embed(noise.expand(mean.shape))
        found: Posterior = GPyTorchPosterior(_distribution(mean, cov))
        if hasattr(self, "outcome_transform"):
            found = self.outcome_transform.untransform_posterior(found, X=Z)
        return found if posterior_transform is None else posterior_transform(found, X=X)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> "ProcessModel":
        """With more observations X (..., n', d) and Y (..., n', m), hyper-parameters unchanged.

        `noise` has their variances, in the units of transformed outcomes; by default they are those of the
        model. Gradients flow through X and Y.
        """
        if Y.shape[-2:] != (X.shape[-2], self.num_outputs):
            raise InputError(
                f"Y has shape {tuple(Y.shape)}; expected (..., {X.shape[-2]}, {self.num_outputs}): a row for "
                "each row of X, a column for each output."
            )
        Z = self.transform_inputs(X)
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y, None, X=Z)
        return self._conditioned(X, Z, Y, noise)

    def _conditioned(self, X: Tensor, Z: Tensor, Y: Tensor, noise: Tensor | None) -> "ProcessModel":
        """All in transformed units, but X."""
        return Conditioned(self, Z, Y, noise)

    def subset_output(self, idcs: Sequence[int]) -> "ProcessModel":
        """The model of some outputs."""
        wanted = [int(i) for i in idcs]
        if not wanted or not all(-self.num_outputs <= i < self.num_outputs for i in wanted):
            raise InputError(f"idcs is {list(idcs)}; expected numbers of the {self.num_outputs} outputs.")
        some = self._with_outputs([i % self.num_outputs for i in wanted])
        if hasattr(self, "outcome_transform"):
            some.outcome_transform = self.outcome_transform.subset_output(wanted)
        return some

    def share_transforms(self, other: Model) -> None:
        for name in ("input_transform", "outcome_transform"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

    def _set_transformed_inputs(self) -> None:
        """Rows are stored as they were transformed, once."""

    def _revert_to_original_inputs(self) -> None:
        """See above."""

    def forward(self, X: Tensor) -> Any:
        """The latent distribution, in transformed units."""
        return _distribution(*self.latent(self.transform_inputs(X)))


class Conditioned(ProcessModel):
    """A model given more observations: those of each batch are its own, so it has a batch shape.

    f | Y = mean + C_xZ (C_ZZ + N)^{-1} (Y - mean_Z), where C is the covariance of the model.
    """

    def __init__(self, base: ProcessModel, X: Tensor, Y: Tensor, noise: Tensor | None) -> None:
        super().__init__()
        self.base, self.X, self.Y = base, X, Y.transpose(-1, -2)
        self.noise = None if noise is None else noise.transpose(-1, -2)
        self.share_transforms(base)
        self.eval()

    @property
    def num_outputs(self) -> int:
        return self.base.num_outputs

    @property
    def batch_shape(self) -> Size:
        return torch.broadcast_shapes(self.X.shape[:-2], self.Y.shape[:-2], self.base.batch_shape)

    def latent(self, X: Tensor) -> Moments:
        q, n = X.shape[-2], self.X.shape[-2]
        batch = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)
        both = torch.cat([X.expand(*batch, -1, -1), self.X.expand(*batch, -1, -1)], dim=-2)
        mean, cov = self.base.latent(both)
        noise = self.base.noise_at(self.X) if self.noise is None else self.noise
        among = cov[..., q:, q:] + torch.diag_embed(noise.expand(*batch, -1, n))
        L = psd_safe_cholesky(among)
        W = torch.linalg.solve_triangular(L, cov[..., q:, :q], upper=False)
        z = torch.linalg.solve_triangular(L, (self.Y - mean[..., q:]).unsqueeze(-1), upper=False)
        return mean[..., :q] + (W.mT @ z).squeeze(-1), cov[..., :q, :q] - W.mT @ W

    def noise_at(self, X: Tensor) -> Tensor:
        return self.base.noise_at(X)

    def _with_outputs(self, idcs: list[int]) -> "Conditioned":
        noise = None if self.noise is None else self.noise[..., idcs, :].transpose(-1, -2)
        return Conditioned(
            self.base.subset_output(idcs), self.X, self.Y[..., idcs, :].transpose(-1, -2), noise
        )


def _distribution(mean: Tensor, cov: Tensor) -> MultivariateNormal:
    """Factorised where it is needed, and with jitter: of many or close points a covariance has no factor."""
    parts = zip(mean.unbind(-2), cov.unbind(-3), strict=True)
    each = [MultivariateNormal(of, to_linear_operator(its)) for of, its in parts]
    return each[0] if len(each) == 1 else MultitaskMultivariateNormal.from_independent_mvns(each)
