"""
Bayesian optimisation
=====================

Where is the minimum of a function that takes a day to evaluate? Thompson sampling draws a function from the
posterior, and evaluates next where the draw is smallest. A draw made with Matheron's rule is a function: it
can be evaluated anywhere, is the same function each time, and has a gradient, so that it can be minimised.

Here 2,000 evaluations are known already, and the function has many valleys. With 32 global actions, draws of
the global posterior go where little has been computed. Draws with local actions know the data near every
point at which they are evaluated, so what they are uncertain about is the function itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from itergp import ConstantMean, Matern52, MaxActions, Prior, PseudoInput, condition

rng = np.random.default_rng(0)
CENTRE, NOISE = np.array([0.37, 0.62]), 0.1**2


def valleys(X):
    """Many of them; the lowest has the value 0."""
    away = X - CENTRE
    return 2 + 6 * (away**2).sum(axis=1) - np.cos(60 * away).sum(axis=1)


def evaluate(X):
    return valleys(X) + np.sqrt(NOISE) * rng.standard_normal(len(X))


X = rng.uniform(0, 1, (2000, 2))
prior = Prior(2.0 * Matern52(lengthscale=0.05), ConstantMean(3.0))
first = condition(prior, X, evaluate(X), NOISE, PseudoInput(block_size=32), MaxActions(32))

# %%
# In each round there are four draws. Each is minimised over random candidates, then by L-BFGS from the best
# one: the sum over the draws, each at its own point, is one function of all four points, and `pullback` turns
# slopes in its values into slopes in the points. The function is evaluated at the minima, and the results are
# appended.


def smallest(draws, candidates=1000):
    """The minimum of each draw."""
    some = rng.uniform(0, 1, (candidates, 2))
    start = some[draws(some).argmin(axis=1)]
    own = np.eye(len(start))

    def total(x):
        points = x.reshape(start.shape)
        return np.trace(draws(points)), draws.pullback(points, own).ravel()

    found = minimize(total, start.ravel(), jac=True, bounds=[(0, 1)] * start.size, options={"maxiter": 30})
    return found.x.reshape(start.shape)


def optimise(draw, more, rounds=8):
    """Evaluated points, and how far above the minimum they are."""
    posterior, points = first, np.zeros((0, 2))
    for step in range(rounds):
        new = smallest(draw(posterior, step))
        posterior, points = more(posterior, new, evaluate(new)), np.concatenate([points, new])
    return points, valleys(points)


WAYS = {
    "local actions": (
        lambda posterior, step: posterior.local(60).sample_function(4, seed=step, features=1024),
        lambda posterior, X, y: posterior.append(X, y),
    ),
    "global actions alone": (
        lambda posterior, step: posterior.sample_function(4, seed=step, features=1024),
        lambda posterior, X, y: posterior.extend(X, y),  # it must act on the new rows to see them
    ),
}
found = {name: optimise(*way) for name, way in WAYS.items()}
for name, (points, regret) in found.items():
    print(f"{name}: {len(points)} evaluations, {regret.min():.4f} above the minimum at best")

# %%
# The evaluated points, and the distance to the minimum.

COLOURS = {"local actions": "#9467bd", "global actions alone": "#d62728"}
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
a, b = np.meshgrid(np.linspace(0, 1, 200), np.linspace(0, 1, 200))
values = valleys(np.column_stack([a.ravel(), b.ravel()])).reshape(a.shape)
for axis, (name, (points, _)) in zip(axes, found.items(), strict=False):
    axis.contour(a, b, values, levels=8, colors="lightgrey", linewidths=0.6)
    shown = axis.scatter(*points.T, c=np.arange(len(points)), s=18, cmap="viridis")
    axis.set(title=name, xlabel="first input", ylabel="second input")
figure.colorbar(shown, ax=axes[1], label="order of the evaluations")
for name, (_, regret) in found.items():
    count = 1 + np.arange(len(regret))
    axes[2].plot(count, np.minimum.accumulate(regret), color=COLOURS[name], label=name)
    axes[2].plot(count, np.cumsum(regret) / count, "--", color=COLOURS[name])
axes[2].set(
    title="above the minimum",
    xlabel="more evaluations",
    ylabel="best so far, and mean (dashed)",
    yscale="log",
)
axes[2].legend(frameon=False, loc="center right")
