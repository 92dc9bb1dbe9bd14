"""
A first fit and its uncertainty
===============================

Why is a prediction uncertain? Because there are few data nearby, because the measurements are noisy, or
because the computation stopped early. `decompose` computes the contribution of each, at every point.

This example has one input and 600 measurements of a sine plus a linear trend, with a gap. The budget of 8
actions is deliberately far too small.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import IterGPRegressor

rng = np.random.default_rng(0)
x = rng.permutation(np.concatenate([rng.uniform(-3, 0.5, 420), rng.uniform(1.5, 3, 180)]))
y = np.sin(4 * x) + 0.5 * x + 0.2 * rng.standard_normal(600)

# %%
# The estimator learns lengthscale, scale and noise, and then takes actions. With `policy="cholesky"` each
# action looks at one row. `neighbours=0` turns off the local actions, which would solve this problem
# immediately and leave nothing to see.

model = IterGPRegressor(policy="cholesky", budget="8 actions", neighbours=0).fit(x[:, None], y)
grid = np.linspace(-3.5, 3.5, 300)
mean, std = model.predict(grid[:, None], return_std=True)
parts = model.decompose(grid[:, None])
print(f"{model.status_.name}: {model.status_.advice}")

# %%
# The parts add up to the variance of a new observation, point by point.

print("largest difference:", np.abs(parts.mathematical + parts.computational + parts.noise - std**2).max())
share = parts.computational.sum() / parts.combined.sum()
print(f"computational share of the latent variance: {share:.0%}")

# %%
# Blue is the uncertainty left by the data: wide in the gap and at the ends. Green is the uncertainty left by
# the computation: it lies where there *are* data, but none of the 8 rows that were acted on. More compute
# removes the green, but never the blue.


def draw(axis, title):
    """The latent function: mean, and two standard deviations of each kind."""
    mean, parts = model.predict(grid[:, None]), model.decompose(grid[:, None])
    inner, outer = 2 * np.sqrt(parts.mathematical), 2 * np.sqrt(parts.combined)
    axis.plot(x, y, ".", color="lightgrey", ms=3, zorder=0)
    axis.fill_between(
        grid, mean - outer, mean + outer, color="#2ca02c", alpha=0.35, lw=0, label="computational"
    )
    axis.fill_between(grid, mean - inner, mean + inner, color="white", lw=0)
    axis.fill_between(
        grid, mean - inner, mean + inner, color="#1f77b4", alpha=0.35, lw=0, label="mathematical"
    )
    axis.plot(grid, mean, color="#9467bd", label="mean")
    axis.set(title=title, xlabel="x", ylim=(-4, 4))


figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
draw(axes[0], f"{model.posterior_.rank} actions")
model.refine("200 actions")
draw(axes[1], f"{model.posterior_.rank} actions")
axes[0].legend(frameon=False, fontsize=8)
