"""Draws from a model as functions, for Thompson sampling: BoTorch's `draw_matheron_paths` finds them."""

from typing import Any

import torch
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from torch import Size, Tensor

from itergp.botorch.autograd import Draws
from itergp.botorch.model import IterGPModel

FEATURES = 4096


class SampledFunctions(SamplePath):
    """Functions drawn from a model: called at X (..., n, d) they have the shape of `sample_shape`, broadcast
    with the batches of X, and n; of several outputs, these come before n."""

    def __init__(self, model: IterGPModel, sample_shape: Size, seed: int | None = None) -> None:
        super().__init__()
        self.model, self.sample_shape = model, Size(sample_shape)
        drawn = torch.randint(2**53, ()) if seed is None else seed
        size, first = self.sample_shape.numel(), int(drawn)
        self.draws = [
            output.process.sample_function(size, seed=first + i, features=FEATURES)
            for i, output in enumerate(model.outputs)
        ]
        self.input_transform, self.output_transform = None, None

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """There is no ensemble."""

    def forward(self, X: Tensor) -> Tensor:
        several = self.model.num_outputs > 1
        Z = self.model.transform_inputs(X.squeeze(-3) if several and X.ndim > 2 and X.shape[-3] == 1 else X)
        found = [self._one(i, Z) for i in range(self.model.num_outputs)]
        values = torch.stack(found, dim=-1)  # (..., n, m)
        if hasattr(self.model, "outcome_transform"):
            values = self.model.outcome_transform.untransform(values, None, X=Z)[0]
        return values.transpose(-1, -2) if several else values.squeeze(-1)

    def _one(self, i: int, Z: Tensor) -> Tensor:
        """The draws of an output: all at the same points, or each at its own if the batches of Z say so."""
        output, (n, d), dims = self.model.outputs[i], Z.shape[-2:], len(self.sample_shape)
        batch = torch.broadcast_shapes(Z.shape[:-2], self.sample_shape)
        outer, size = batch[: len(batch) - dims], self.sample_shape.numel()
        shared = all(extent == 1 for extent in Z.shape[:-2][-dims:]) if dims else True
        points = Z if shared else Z.expand(*batch, n, d)
        every = Draws.apply(output.scaled(points).reshape(-1, d), self.draws[i])
        if shared:
            own = every.reshape(size, outer.numel(), n).transpose(0, 1)
        else:
            each = torch.arange(size, device=Z.device)
            own = every.reshape(size, outer.numel(), size, n)[each, :, each].transpose(0, 1)
        return float(output.scaling.y_mean) + float(output.scaling.y_scale) * own.reshape(*batch, n)


@DrawMatheronPaths.register(IterGPModel)
def _draw_matheron_paths(model: IterGPModel, *, sample_shape: Size, **_: Any) -> SampledFunctions:
    return SampledFunctions(model, sample_shape)
