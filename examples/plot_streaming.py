"""
Streaming: data that arrive in batches
======================================

`partial_fit` adds rows without starting over. The first call is a `fit`, which learns scaling and
hyper-parameters. Later calls keep them, append the rows, and act on the new rows alone. (A stream that
begins with fewer than 100 rows is refitted each time their number has doubled.)

In this example, the daily course of a quantity is measured on six days, at 100 random hours each. Every day
is predicted before it is seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from itergp import IterGPRegressor
from itergp.metrics import coverage, rmse

rng = np.random.default_rng(0)


def measure(number=100):
    """Random hours of one day, and the measurements at these hours."""
    hours = np.sort(rng.uniform(0, 24, number))
    course = (
        10 + 4 * np.sin(2 * np.pi * hours / 24) + np.exp(-0.5 * (hours - 18) ** 2) * 5 * np.sin(3 * hours)
    )
    return hours[:, None], course + 0.8 * rng.standard_normal(number)


# %%
# Predict, then learn. The mean standard deviation of the latent function falls with each day; that of a new
# observation cannot fall below the noise.

X, y = measure()
model = IterGPRegressor().fit(X, y)
grid = np.linspace(0, 24, 400)
days, courses = [(X, y)], [model.predict(grid[:, None], return_std=True, include_noise=False)]
for day in range(2, 7):
    X, y = measure()
    mean, std = model.predict(X, return_std=True)
    inside, error = coverage(y, mean, std**2), rmse(y, mean)
    model.partial_fit(X, y)
    days.append((X, y))
    courses.append(model.predict(grid[:, None], return_std=True, include_noise=False))
    known = courses[-1][1].mean()
    print(
        f"day {day}: {inside:4.0%} inside the 95 % interval, RMSE {error:.2f}; after it the course is "
        f"known to {known:.2f}"
    )

# %%
# The hyper-parameters are those learned on the first day. If later data look different, call `fit` again: it
# discards everything learned before.

print(f"{model.posterior_.problem.n} rows, {model.posterior_.rank} actions, status {model.status_.name}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for axis, number in zip(axes, (1, 3, 6), strict=True):
    mean, std = courses[number - 1]
    for X, y in days[:number]:
        axis.plot(X[:, 0], y, ".", color="lightgrey", ms=3)
    axis.plot(grid, mean, color="#9467bd")
    axis.fill_between(grid, mean - 2 * std, mean + 2 * std, color="#9467bd", alpha=0.3, lw=0)
    axis.set(title=f"after {number} day{'s' if number > 1 else ''}", xlabel="hour")
