"""From torch to NumPy and back: means, covariances and draws as functions that torch can differentiate."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from itergp.posterior.groups import grouped


def array(X: Tensor) -> np.ndarray:
    return X.detach().cpu().double().numpy()


class Moments(torch.autograd.Function):
    """Mean (b, q) and covariance (b, q, q) of a process at groups of points, (b, q, d)."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, process: Any) -> tuple[Tensor, Tensor]:
        ctx.process, ctx.points, ctx.like = process, array(X), X
        mean, cov = grouped(process, ctx.points)
        return torch.as_tensor(mean).to(X), torch.as_tensor(cov).to(X)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, mean: Tensor, cov: Tensor) -> tuple[Tensor, None]:
        found = ctx.process.pullback(ctx.points, array(mean), array(cov))
        return torch.as_tensor(found).to(ctx.like), None


class Draws(torch.autograd.Function):
    """Draws of a process as functions, at points (m, d): (size, m)."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, draws: Any) -> Tensor:
        ctx.draws, ctx.points, ctx.like = draws, array(X), X
        return torch.as_tensor(draws(ctx.points)).to(X)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        return torch.as_tensor(ctx.draws.pullback(ctx.points, array(slopes))).to(ctx.like), None
