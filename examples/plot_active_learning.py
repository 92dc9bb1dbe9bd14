"""
Active learning
===============

Which ten places should be measured next? Those whose outcomes are most uncertain, together: two places side
by side tell little more than one of them. That takes the covariance of all candidates.

Here there are 2,000 measurements already, and 32 global actions: far too few to resolve the function, so that
most of the variance of the global posterior is computational. A choice by it sends the instrument to places
that have been measured and not been computed. With local actions the covariance knows the data near every
candidate, and what is left of the uncertainty is where data are missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import Matern52, MaxActions, Posterior, Prior, PseudoInput, condition
from itergp.metrics import rmse

rng = np.random.default_rng(0)
NOISE = 0.05**2


def truth(X):
    return np.sin(30 * X[:, 0]) * np.cos(20 * X[:, 1]) + X[:, 1]


def measure(X):
    return truth(X) + np.sqrt(NOISE) * rng.standard_normal(len(X))


# most of the data are on the left
X = np.concatenate([rng.uniform(0, [0.6, 1], (1950, 2)), rng.uniform(0, 1, (50, 2))])
pool, places = rng.uniform(0, 1, (300, 2)), rng.uniform(0, 1, (1000, 2))
prior = Prior(0.5 * Matern52(lengthscale=0.1))
first = condition(prior, X, measure(X), NOISE, PseudoInput(block_size=32), MaxActions(32))

# %%
# Candidates are chosen one after the other: each lowers the covariance of all others, whatever its outcome
# will be. `append` adds the measurements without any computation, and local actions see them at once; the
# global posterior has to act on the new rows, which is `extend`.


def most_uncertain(C, number=10):
    """The candidates with the largest variance, each given those before it."""
    C, chosen = C.copy(), []
    for _ in range(number):
        chosen.append(int(np.argmax(np.diag(C))))
        C -= np.outer(C[:, chosen[-1]], C[chosen[-1]]) / (C[chosen[-1], chosen[-1]] + NOISE)
    return chosen


def learn(choose, more=Posterior.append, rounds=12):
    """The places measured, and the error of the local predictions elsewhere along the way."""
    posterior, errors = first, []
    for _ in range(rounds):
        errors.append(rmse(truth(places), posterior.local(20).mean(places)))
        X = pool[choose(posterior)]
        posterior = more(posterior, X, measure(X))
    return posterior.problem.X[len(first.problem.X) :], errors


WAYS = {
    "local actions": (lambda posterior: most_uncertain(posterior.local(20).cov(pool)),),
    "global actions alone": (lambda posterior: most_uncertain(posterior.cov(pool)), Posterior.extend),
    "at random": (lambda posterior: rng.integers(len(pool), size=10),),
}
found = {name: learn(*way) for name, way in WAYS.items()}
for name, (_, errors) in found.items():
    print(f"{name}: RMSE {errors[-1]:.3f}, before it {errors[0]:.3f}")

# %%
# Where they measured, and the error.

COLOURS = dict(zip(WAYS, ("#9467bd", "#d62728", "grey"), strict=True))
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for axis, name in zip(axes, ("local actions", "global actions alone"), strict=False):
    axis.scatter(*X.T, s=1, color="lightgrey")
    axis.scatter(*found[name][0].T, s=16, color=COLOURS[name])
    axis.set(title=name, xlabel="first input", ylabel="second input")
for name, (_, errors) in found.items():
    style = "--" if name == "at random" else "-"
    axes[2].plot(10 * np.arange(len(errors)), errors, style, color=COLOURS[name], label=name)
axes[2].set(title="error at 1,000 other places", xlabel="more measurements", ylabel="RMSE", ylim=0)
axes[2].legend(frameon=False)
