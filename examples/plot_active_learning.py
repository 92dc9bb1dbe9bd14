"""
Active learning
===============

Which point should be measured next? The one whose outcome is most uncertain. Each measurement is appended
with `extend`: nothing is computed again, and the variance reflects everything computed so far. Because
combined variance is mathematical *plus* computational, a point may also be selected because little
computation, rather than little data, covers it.

This example learns a function of two inputs from a pool of 1,000 candidate points. It compares measuring
where the variance is largest with measuring at random.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import Matern52, MaxActions, Prior, UnitVector, condition
from itergp.metrics import rmse

rng = np.random.default_rng(0)
pool = rng.uniform(0, 1, (1000, 2))


def measure(X):
    """A measurement, with noise of standard deviation 0.05."""
    bumps = np.sin(14 * X[:, 0]) * np.exp(-6 * ((X - 0.15) ** 2).sum(axis=1))
    return bumps + 0.5 * X[:, 1] + 0.05 * rng.standard_normal(len(X))


places = rng.uniform(0, 1, (1000, 2))
truth = np.sin(14 * places[:, 0]) * np.exp(-6 * ((places - 0.15) ** 2).sum(axis=1)) + 0.5 * places[:, 1]
prior = Prior(0.3 * Matern52(lengthscale=[0.15, 0.3]))


# %%
# The loop: `extend` appends the rows and acts on them. After each round the posterior is exact for all data
# so far, at the cost of the new columns alone.


def learn(choose, rounds=20, at_once=5):
    """The posterior after some rounds of measurements, and the errors along the way."""
    posterior = condition(prior, pool[:5], measure(pool[:5]), 0.05**2, UnitVector(), MaxActions(5))
    errors = [rmse(truth, posterior.mean(places))]
    for _ in range(rounds):
        X = pool[choose(posterior, at_once)]
        posterior = posterior.extend(X, measure(X))
        errors.append(rmse(truth, posterior.mean(places)))
    return posterior, errors


def most_uncertain(posterior, number):
    """Points are chosen one after the other: choosing a point lowers the variance at its neighbours,
    whatever its outcome will be."""
    chosen = []
    for _ in range(number):
        chosen.append(int(np.argmax(posterior.var(pool))))
        # an imagined outcome, equal to the mean, so that the mean does not change
        posterior = posterior.extend(pool[chosen[-1:]], posterior.mean(pool[chosen[-1:]]))
    return chosen


active, active_errors = learn(most_uncertain)
_, random_errors = learn(lambda posterior, number: rng.integers(len(pool), size=number))
print(
    f"RMSE after {active.problem.n} measurements: {active_errors[-1]:.4f}, at random {random_errors[-1]:.4f}"
)

# %%
# The measured points, and the error.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
X = active.problem.X
left.scatter(*pool.T, s=3, color="lightgrey")
points = left.scatter(*X.T, c=np.arange(len(X)), s=18, cmap="viridis")
figure.colorbar(points, ax=left, label="order of the measurements")
left.set(title="where it measured", xlabel="first input", ylabel="second input")
count = 5 + 5 * np.arange(len(active_errors))
right.plot(count, active_errors, color="#9467bd", label="largest variance")
right.plot(count, random_errors, color="grey", ls="--", label="at random")
right.set(title="error at 1,000 other places", xlabel="measurements", ylabel="RMSE", yscale="log")
right.legend(frameon=False)
