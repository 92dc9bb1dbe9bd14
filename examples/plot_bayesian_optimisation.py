"""
Bayesian optimisation
=====================

Where is the minimum of a function that takes a day to evaluate? Thompson sampling draws a function from the
posterior, and evaluates next where the draw is smallest. A draw made with Matheron's rule is a function: it
can be evaluated and minimised anywhere, and the millionth point costs as much as the first. Draws from the
combined posterior account for missing data and for missing computation.

This example uses four draws at a time on Branin's function, whose three minima have the value 0.3979.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import ConstantMean, Matern52, MaxActions, Prior, UnitVector, condition

rng = np.random.default_rng(0)
low, high = np.array([-5.0, 0.0]), np.array([10.0, 15.0])


def branin(X):
    a, b = X[:, 0], X[:, 1]
    return (
        (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
        + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a)
        + 10
    )


def anywhere(number):
    return rng.uniform(low, high, (number, 2))


# %%
# In each round there are four draws. Each is minimised over random candidates, and then over smaller boxes
# around the best one. The function is evaluated at their minima, and the results are appended with `extend`.


def smallest(draws, rounds=3, candidates=500):
    """The minimum of each draw."""
    X = anywhere(candidates)
    best = X[draws(X).argmin(axis=1)]
    for shrink in 0.1 ** np.arange(1, rounds):
        for j in range(len(best)):
            near = np.clip(best[j] + shrink * (high - low) * rng.uniform(-1, 1, (100, 2)), low, high)
            best[j] = near[draws(near)[j].argmin()]
    return best


X = anywhere(8)
y = branin(X)
prior = Prior(5000.0 * Matern52(lengthscale=[4.0, 8.0]), ConstantMean(50.0))
posterior = condition(prior, X, y, 1e-2, UnitVector(), MaxActions(len(X)))
found = [y.min()]
for step in range(12):
    X_new = smallest(posterior.sample_function(4, seed=step, features=1024))
    posterior = posterior.extend(X_new, branin(X_new))
    found.append(posterior.problem.y.min())
at_random = np.minimum.accumulate(branin(anywhere(8 + 4 * 12)))[7::4]
print(
    f"after {posterior.problem.n} evaluations: {found[-1]:.4f}; at random: {at_random[-1]:.4f}; the "
    "minimum: 0.3979"
)

# %%
# The evaluated points, and the distance to the minimum.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
a, b = np.meshgrid(np.linspace(low[0], high[0], 100), np.linspace(low[1], high[1], 100))
values = branin(np.column_stack([a.ravel(), b.ravel()])).reshape(a.shape)
left.contour(a, b, np.log(values), levels=12, colors="lightgrey", linewidths=0.8)
points = left.scatter(*posterior.problem.X.T, c=np.arange(posterior.problem.n), s=18, cmap="viridis")
figure.colorbar(points, ax=left, label="order of the evaluations")
left.set(title="where it evaluated", xlabel="first input", ylabel="second input")
count = 8 + 4 * np.arange(len(found))
right.plot(count, np.array(found) - 0.397887, color="#9467bd", label="Thompson's rule")
right.plot(count, at_random - 0.397887, color="grey", ls="--", label="at random")
right.set(title="above the minimum", xlabel="evaluations", yscale="log")
right.legend(frameon=False)
