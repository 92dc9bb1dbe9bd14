"""Threads that go on from one posterior: each ends where it would have ended alone, to the bit."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from itergp import Compute, Matern32, MaxActions, MaxPasses, Prior, condition

RNG = np.random.default_rng(0)
N, TOGETHER = 2500, 8
X = RNG.standard_normal((N, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(N)
X_NEW = RNG.standard_normal((20, 2))


class Drawn:
    """Gaussian actions of a seed."""

    def __init__(self, seed, block_size):
        self.seed, self.block_size = seed, block_size

    def __call__(self, state):
        drawn = np.random.default_rng([self.seed, state.counter])
        return drawn.standard_normal((state.problem.n, self.block_size))


def refined(parent, k):
    return parent.refine(Drawn(k, 16), MaxActions(32))


def for_two_passes(parent, k):
    return parent.refine(Drawn(k, 4), MaxPasses(2))


def extended(parent, k):
    X = np.random.default_rng(k).standard_normal((3, 2))
    return parent.extend(X, np.cos(X[:, 1]))


def facts(posterior):
    state = posterior.state
    return {
        "mean": posterior.mean(X_NEW),
        "variance": posterior.var(X_NEW),
        "Q": state.basis.dense(0, state.basis.size),
        "KQ": state.basis.KQ.between(0, state.basis.size),
        "L": state.factor.L(),
        "rounding": state.tau,
        "work": np.array([state.progress.passes, state.progress.entries]),
    }


@pytest.fixture
def eager_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("goes_on", [refined, for_two_passes, extended])
def test_threads_that_go_on_from_one_posterior_end_as_if_alone(goes_on, eager_threads):
    parent = condition(
        Prior(Matern32(1.0)),
        X,
        Y,
        0.1,
        policy=Drawn(0, 4),
        stop=MaxActions(4),
        compute=Compute(dtype="float64", cache=0, threads=1),
    )
    parent = extended(parent, 1000)  # so that there is room for rows
    copies = [pickle.loads(pickle.dumps(parent)), copy.deepcopy(parent), *[None] * (TOGETHER - 2)]
    alone = [facts(goes_on(one or pickle.loads(pickle.dumps(parent)), k)) for k, one in enumerate(copies)]
    for _ in range(3):
        shared = pickle.loads(pickle.dumps(parent))
        with ThreadPoolExecutor(TOGETHER) as threads:
            found = list(threads.map(lambda k: facts(goes_on(shared, k)), range(TOGETHER)))  # noqa: B023
        for one, other in zip(alone, found, strict=True):
            for name, value in one.items():
                np.testing.assert_array_equal(value, other[name], err_msg=name)
        total = sum(one["work"][0] - parent.state.progress.passes for one in alone)
        if goes_on is not extended:  # which has a Gram of its own
            assert shared.problem.gram.passes - parent.problem.gram.passes == total
