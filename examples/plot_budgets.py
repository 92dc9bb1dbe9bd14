"""
Budgets, and the effect of larger ones
======================================

A budget may be a time (`"30s"`), a number of actions or of passes over the kernel matrix, or a criterion.
When it is used up, the model is valid and reports what is missing. `refine` continues from there, and
nothing is computed twice.

This example uses 2,000 points of the paper's synthetic function, in three dimensions, and 16 to 512 actions.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import (
    ConjugateGradient,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    ResidualNorm,
    Schedule,
    condition,
)
from itergp.datasets import synthetic
from itergp.metrics import nll, rmse

X, y = synthetic(n=2200, d=3)
X, y, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
prior = Prior(1.0 * Matern32(lengthscale=1.0))

# %%
# First, blocks of pseudo-inputs: 16 actions for each pass over the kernel matrix. After each doubling of the
# budget, the example prints the computational share of the variance and the quality of the predictions.

posterior = condition(prior, X, y, 0.01, PseudoInput(block_size=16), MaxActions(16))
measured = []
while True:
    parts, variance = posterior.decompose(X_test), posterior.predictive_var(X_test)
    mean, step = posterior.mean(X_test), posterior.trace[-1]
    share = parts.computational.sum() / parts.combined.sum()
    measured.append((step.actions, step.passes, share, rmse(y_test, mean), nll(y_test, mean, variance)))
    print("{:3d} actions, {:2d} passes: {:4.0%} computational, RMSE {:.3f}, NLL {:.2f}".format(*measured[-1]))
    if posterior.rank >= 512:
        break
    posterior = posterior.refine(stop=MaxActions(posterior.rank))  # as many again

# %%
# All stages in one prediction: `path` gives mean and variance after every prefix of the actions.

path = posterior.path(X_test, ranks=[0, 16, 128, 512])
for rank, variance in zip(path.ranks, path.var, strict=True):
    print(f"after {rank:3d} actions the mean latent variance is {variance.mean():.4f}")

# %%
# A criterion may also end the run: here a small residual, or at most 300 actions. `status` says which one
# applied.

policy = Schedule((PseudoInput(128, block_size=128), 128), (ConjugateGradient(), None))
by_residual = condition(prior, X, y, 0.01, policy, ResidualNorm(rtol=1e-2) | MaxActions(300))
print(f"{by_residual.status.name} after {by_residual.rank} actions, in {by_residual.trace[-1].passes} passes")

# %%
actions, _, shares, errors, _ = np.array(measured).T
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(actions, shares, "o-", color="#2ca02c")
left.set(title="computational share of the variance", xlabel="actions", xscale="log", ylim=(0, 1))
right.plot(actions, errors, "o-", color="#9467bd")
right.axhline(0.1, color="grey", ls="--", lw=1, label="standard deviation of the noise")
right.set(title="RMSE", xlabel="actions", xscale="log", ylim=(0, None))
right.legend(frameon=False)
for axis in (left, right):
    axis.set_xticks(actions, [f"{number:.0f}" for number in actions], minor=False)
    axis.minorticks_off()
