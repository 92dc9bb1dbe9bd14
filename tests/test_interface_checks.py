"""The published interface tests accept everything in the tables, and refuse what is wrong with a clear
sentence."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, make_data
from itergp import Kernel, MaxActions, Prior, RandomAction, condition
from itergp.linalg import engines
from itergp.testing import check_engine, check_gp, check_kernel, check_policy


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_of_the_table_passes(name):
    check_kernel(KERNELS[name])


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_of_the_table_passes(name):
    check_policy(POLICIES[name])


def built(name):
    try:
        return bool(engines.get(name))
    except ImportError:
        return False


@pytest.mark.parametrize("name", [name for name in ("numpy", "jax", "native") if built(name)])
def test_every_engine_passes(name):
    check_engine(engines.get(name))


def test_an_engine_of_a_plain_function_passes():
    check_engine(engines.from_function(lambda kernel, X0, X1, V: kernel(X0, X1) @ V))


@pytest.mark.parametrize("targets", [None, 3])
def test_prior_and_posterior_pass(targets):
    data, prior = make_data(30, targets=targets), Prior(KERNELS["sum"])
    check_gp(prior)
    check_gp(condition(prior, data.X, data.y, 0.1, RandomAction(block_size=3), MaxActions(7)))


@dataclass(frozen=True, eq=False)
class Broken(Kernel):
    fault: Any = "none"

    def __call__(self, X0, X1):
        K = np.exp(-abs(X0[:, :1] - X1[:, :1].T))
        if self.fault == "shape":
            return K[:-1]
        if self.fault == "finite":
            return K * np.nan
        if self.fault == "symmetric":
            return K * (1.0 + 0.1 * X0[:, :1])
        if self.fault == "semi-definite":
            return -K
        return K

    def diagonal(self, X):
        return np.ones(len(X)) * (
            -1.0 if self.fault == "semi-definite" else 2.0 if self.fault == "diagonal" else 1.0
        )

    @property
    def stationary(self):
        return self.fault == "stationary"


@pytest.mark.parametrize("fault", ["shape", "finite", "symmetric", "semi-definite", "diagonal"])
def test_a_broken_kernel_is_refused_by_name_of_its_fault(fault):
    with pytest.raises(AssertionError, match=f"Broken.*{fault}"):
        check_kernel(Broken(fault))


def test_a_policy_with_hidden_randomness_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(AssertionError, match="same seed"):
        check_policy(lambda: lambda state: rng.standard_normal(state.problem.n))


def test_a_policy_that_counts_its_own_calls_is_refused():
    class Counting:
        calls = 0

        def __call__(self, state):
            self.calls += 1
            return np.cos(np.arange(state.problem.n) * self.calls) if self.calls < 4 else None

    shared = Counting()
    with pytest.raises(AssertionError):
        check_policy(lambda: shared)


def test_a_gaussian_process_whose_parts_disagree_is_refused():
    class Half(Prior):
        def var(self, X):
            return 0.5 * super().var(X)

    with pytest.raises(AssertionError, match="not the diagonal"):
        check_gp(Half(KERNELS["rbf"]))


def test_an_engine_that_is_wrong_or_cannot_be_stopped_is_refused():
    with pytest.raises(AssertionError, match="product"):
        check_engine(engines.from_function(lambda kernel, X0, X1, V: 1.01 * kernel(X0, X1) @ V))
    deaf = engines.from_function(lambda kernel, X0, X1, V: kernel(X0, X1) @ V)
    type(deaf).symmetric = lambda self, kernel, X, V, dtype, cache, first, tick: kernel(X, X) @ V
    with pytest.raises(AssertionError, match="tick"):
        check_engine(deaf)
