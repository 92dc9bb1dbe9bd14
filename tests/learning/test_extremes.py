"""No NaN leaves an objective: at the edges of every range, without noise, and for kernels that overflow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import RBF, Kernel
from itergp.data.rows import Rows
from itergp.learning.actions import elbo, projected
from itergp.learning.evaluation import WORST
from itergp.learning.exact import exact, subset
from itergp.learning.inducing import sgpr, svgp
from itergp.learning.iterative import iterative
from itergp.learning.parameters import Space

DATA = make_data(80)
Q = np.linalg.qr(np.random.default_rng(0).standard_normal((80, 9)))[0]
OBJECTIVES = {
    "exact": lambda X, y: exact(Rows.of(X, y)),
    "subset": lambda X, y: subset(Rows.of(X, y), 40),
    "sgpr": lambda X, y: sgpr(Rows.of(X, y), 15),
    "iterative": lambda X, y: iterative(Rows.of(X, y), probes=3, rank=15, max_iterations=30),
    "elbo": lambda X, y: elbo(Rows.of(X, y), Q),
    "projected": lambda X, y: projected(Rows.of(X, y), Q),
}


def is_finite(found):
    return all(np.isfinite(number).all() for number in (found.value, found.noise, *found.kernel.values()))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_corners_of_the_space_are_finite(objective, kernel):
    """All parameters at an end of their range at once; lengths and the rest at opposite ends; then noise
    below its range."""
    space = Space.of(KERNELS[kernel], 0.1, Rows.of(DATA.X, DATA.y))
    low, high = space.lower.copy(), space.upper.copy()
    mixed = np.where(np.arange(low.size) % 2, low, high)
    evaluate = OBJECTIVES[objective](DATA.X, DATA.y)
    for theta in (low, high, mixed, low + high - mixed):
        assert is_finite(evaluate(*space.values(theta)))
    for noise in (1e-12, 0.0):
        assert is_finite(evaluate(KERNELS[kernel], noise))


def test_the_stochastic_bound_is_finite_and_goes_on():
    objective = svgp(Rows.of(DATA.X, DATA.y), 15, batch=20)
    good = objective(RBF(0.5), 0.1)
    assert is_finite(good)
    for kernel, noise in ((RBF(1e3), 1e-6), (RBF(1e-3), 1e-6), (RBF(0.5), 0.0)):
        assert is_finite(objective(kernel, noise))
    assert objective(RBF(0.5), 0.1).value < 100.0


@pytest.mark.parametrize("objective", ["exact", "sgpr"])
def test_the_least_noise_is_really_computed(objective):
    """At noise 1e-6 of the variance of a target that has none, values are no excuse: they change with the
    parameters."""
    y = np.sin(DATA.X.sum(axis=1))
    evaluate = OBJECTIVES[objective](DATA.X, y)
    found = [evaluate(RBF(lengthscale), 1e-6) for lengthscale in (0.5, 1.0, 2.0, 20.0)]
    assert all(one.value < WORST / 100 for one in found)
    assert len({one.value for one in found}) == 4
    assert all(one.noise != 0.0 for one in found)


@dataclass(frozen=True, eq=False)
class Overflows(Kernel):
    """exp(x x' rate): a kernel, and infinite for large rates."""

    rate: Any = 1.0

    def __call__(self, X0, X1):
        return X0.__array_namespace__().exp(self.rate * (X0 @ X1.T))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_cannot_be_computed_is_bad_and_flat(objective):
    evaluate = OBJECTIVES[objective](DATA.X, DATA.y)
    found = evaluate(Overflows(1e6), 0.1)
    assert found.value == WORST
    assert found.noise == 0.0
    assert found.kernel == {"rate": 0.0}
    assert evaluate(Overflows(0.5), 0.1).value < WORST
