"""Optimising an acquisition function of a model whose points have actions of their own.

Which rows a point acts on changes from place to place, and with it the function has small jumps, at which
line searches fail. So the rows near the points of all restarts are held fixed as actions that all of them
share: then it is smooth. Far from these points it knows less, which would attract a search for uncertainty.
So each search is short, the next one has the rows near where the last one ended, and what is returned is the
best of all points that were met, by the model itself.
"""

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.optim.initializers import initialize_q_batch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from itergp.botorch.model import IterGPModel

ROUNDS = 3  # of short searches
STEPS = 40  # of a search, at most; of one for an exact posterior, five times as many
SPREAD = (1e-3, 1e-2, 1e-1)  # of starts around given points, in units of the box


def optimise(
    acquisition: Callable[[IterGPModel], AcquisitionFunction],
    model: IterGPModel,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 10,
    raw_samples: int = 512,
    near: Tensor | None = None,
    search: Callable[..., Any] = optimize_acqf,
) -> tuple[Tensor, Tensor]:
    """The q points within `bounds`, (2, d), at which `acquisition(model)` is largest, and its value.

    Starts are the best of `raw_samples` random points; of these, every second one is around one of the points
    `near`, (m, d), if they are given: the best evaluations so far, for example. `search` is
    `botorch.optim.optimize_acqf`, or a partial of it with constraints or fixed features: then only what it
    returns is taken, since starts need not obey these.
    """
    function = acquisition(model)
    with torch.no_grad():
        raw = raw_points(bounds, q, raw_samples, near)
        starts, _ = initialize_q_batch(raw, function(raw), n=num_restarts)
    how: dict[str, Any] = {"bounds": bounds, "q": q, "num_restarts": num_restarts, "return_best_only": False}
    exact = all(output.exact for output in model.outputs)
    met = [starts]
    for _ in range(1 if exact else ROUNDS):
        smooth = function if exact else acquisition(model.around(met[-1]))
        options = {"maxiter": 5 * STEPS if exact else STEPS}
        met.append(search(smooth, batch_initial_conditions=met[-1], options=options, **how)[0].detach())
    with torch.no_grad():
        points = torch.cat(met if search is optimize_acqf else met[1:])
        values = function(points)
        best = values.argmax()
    return points[best], values[best]


def raw_points(bounds: Tensor, q: int, number: int, near: Tensor | None) -> Tensor:
    """Groups of points in a box, (number, q, d)."""
    raw = draw_sobol_samples(bounds, n=number, q=q)
    if near is not None:
        some = raw[::2]
        of = near.to(raw)[torch.randint(len(near), some.shape[:-1])]
        spread = raw.new_tensor(SPREAD)[torch.randint(len(SPREAD), (*some.shape[:-1], 1))]
        moved = of + spread * (bounds[1] - bounds[0]) * torch.randn_like(of)
        raw[::2] = torch.minimum(torch.maximum(moved, bounds[0]), bounds[1])
    return raw
