"""From torch to NumPy and back: means, covariances and draws as functions that torch can differentiate."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from itergp.posterior.groups import grouped


def array(X: Tensor) -> np.ndarray:
    return X.detach().cpu().double().numpy()


class _Once(torch.autograd.Function):
    """A gradient that cannot be differentiated: it says so, where the graph would say that it is constant."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, *of: Tensor) -> Tensor:
        return found.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(
            "IterGPModel has no second derivatives in X: its gradients cannot be differentiated. Use an "
            "optimiser that takes first derivatives alone."
        )


def _once(found: np.ndarray, X: Tensor, *slopes: Tensor) -> Tensor:
    """The gradient in X, which depends on X and on the slopes that came in."""
    gradient = torch.as_tensor(found).to(X)
    return _Once.apply(gradient, X, *slopes) if torch.is_grad_enabled() else gradient


class Moments(torch.autograd.Function):
    """Mean (b, q) and covariance (b, q, q) of a process at groups of points, (b, q, d)."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, process: Any) -> tuple[Tensor, Tensor]:
        ctx.process, ctx.points = process, array(X)
        ctx.save_for_backward(X)
        mean, cov = grouped(process, ctx.points)
        return torch.as_tensor(mean).to(X), torch.as_tensor(cov).to(X)

    @staticmethod
    def backward(ctx: Any, mean: Tensor, cov: Tensor) -> tuple[Tensor, None]:
        found = ctx.process.pullback(ctx.points, array(mean), array(cov))
        return _once(found, *ctx.saved_tensors, mean, cov), None


class Draws(torch.autograd.Function):
    """Draws of a process as functions, at points (m, d): (size, m)."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, draws: Any) -> Tensor:
        ctx.draws, ctx.points = draws, array(X)
        ctx.save_for_backward(X)
        return torch.as_tensor(draws(ctx.points)).to(X)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        return _once(ctx.draws.pullback(ctx.points, array(slopes)), *ctx.saved_tensors, slopes), None
