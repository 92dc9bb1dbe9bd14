"""
Writing your own kernel, policy and criterion
=============================================

Each takes a few lines, and works everywhere in the library: tiled products, refinement, decomposition,
certificates, files. The public interface tests report whether a rule is broken, and which one.
"""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from itergp import Kernel, MaxActions, Prior, Status, StoppingCriterion, condition
from itergp.plots import plot_posterior
from itergp.testing import check_kernel, check_policy

# %%
# **A kernel** is a formula, written against the array namespace of its input, so that the same code runs in
# NumPy, in JAX and under automatic differentiation. This one is Brownian motion that starts at -4.


@dataclass(frozen=True, eq=False)
class Brownian(Kernel):
    """variance * min(x + 4, x' + 4), of the first input"""

    variance: Any = 1.0

    def __call__(self, X0, X1):
        xp = X0.__array_namespace__()
        return self.variance * xp.minimum(X0[:, :1] + 4.0, X1[:, 0] + 4.0)


check_kernel(Brownian(0.5))

# %%
# **A policy** is a function of the state. This one acts on the row where the mean is furthest off.


def steepest_row(state):
    e = np.zeros(state.problem.n)
    e[abs(state.residual).sum(axis=1).argmax()] = 1.0
    return e


check_policy(lambda: steepest_row)

# %%
# **A criterion** is a class with a method `reached`. This one ends the run when every row is off by less than
# a given amount.


@dataclass(frozen=True)
class NoRowOff(StoppingCriterion):
    by: float
    status = Status.CONVERGED

    def reached(self, begun, state):
        return bool(abs(state.residual).max() < self.by)


# %%
# All three together. Criteria can be combined with `|` and `&`.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3, 3, 120))
y = np.abs(x) + 0.1 * rng.standard_normal(120)
posterior = condition(
    Prior(Brownian(0.5)), x[:, None], y, 0.01, steepest_row, NoRowOff(0.15) | MaxActions(100)
)
print(f"{posterior.status.name} after {posterior.rank} actions on {posterior.problem.n} rows")

# %%
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
plot_posterior(posterior, axis=axis)
acted = posterior.actions.any(axis=1)
axis.plot(x[acted], y[acted], "o", mfc="none", mec="#d62728", label="acted on")
axis.legend(frameon=False, fontsize=8)
