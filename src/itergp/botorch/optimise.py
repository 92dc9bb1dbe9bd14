"""Optimising an acquisition function of a model whose points have actions of their own."""

from collections.abc import Callable
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.optim.initializers import gen_batch_initial_conditions
from torch import Tensor

from itergp.botorch.model import IterGPModel

Acquisition = Callable[[IterGPModel], AcquisitionFunction]


def optimise(
    acquisition: Acquisition,
    model: IterGPModel,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 10,
    raw_samples: int = 512,
    **options: Any,
) -> tuple[Tensor, Any]:
    """`botorch.optim.optimize_acqf` of `acquisition(model)`: candidates (q, d), and their value.

    If the posterior is exact, that is all. Otherwise starts are found with the near rows of each point, then
    the rows near all starts are held fixed as actions that all points share, so that the function is smooth.
    """
    how: dict[str, Any] = {"q": q, "num_restarts": num_restarts, **options}
    if all(output.exact for output in model.outputs):
        return optimize_acqf(acquisition(model), bounds, raw_samples=raw_samples, **how)
    starts = gen_batch_initial_conditions(
        acquisition(model), bounds, q=q, num_restarts=num_restarts, raw_samples=raw_samples
    )
    held = acquisition(model.around(starts))
    return optimize_acqf(held, bounds, batch_initial_conditions=starts, **how)
