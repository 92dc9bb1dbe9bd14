"""All that a fit does counts against its seconds: a clock that only moves where a test says so shows what is
planned for, and how far past the end any piece of work can lead."""

import time

import numpy as np
import pytest

from helpers import make_data
from itergp import IterGPRegressor, Matern32, UnitVector
from itergp.data.rows import unmerged
from itergp.estimator import fitting, hyperparameters
from itergp.estimator.budgets import LEARNING_SHARE
from itergp.learning import choosing
from itergp.learning.endings import Ending
from itergp.learning.training import learn_rows
from itergp.linalg import gram, products
from itergp.linalg.compute import Compute
from itergp.linalg.gram import Gram
from itergp.solver.problem import Problem

ROWS, SECONDS = 150, 60.0


class Stopped:
    """A clock that stands still until time is spent."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, function):
        """The function, as if it took so long."""

        def slow(*arguments, **options):
            self.now += seconds
            return function(*arguments, **options)

        return slow


@pytest.fixture
def clock(monkeypatch):
    stopped = Stopped()
    monkeypatch.setattr(time, "perf_counter", stopped)
    return stopped


def test_scaling_merging_learning_and_the_problem_leave_the_rest_to_acting(clock, monkeypatch):
    given = {}
    for name, seconds in {"scaling_for": 3.0, "merge_rows": 4.0, "translate_mean": 1.0}.items():
        monkeypatch.setattr(fitting, name, clock.takes(seconds, getattr(fitting, name)))
    monkeypatch.setattr(Problem, "of", clock.takes(2.0, Problem.of))
    learn, policy = hyperparameters.learn_rows, fitting.policy_by_the_clock

    def learning(*arguments, seconds, **options):
        given["learning"] = seconds
        clock.now += 5.0
        return learn(*arguments, seconds=None, **options)

    def chosen(problem, left, checkpoint):
        given["acting"] = left.seconds
        return policy(problem, left, checkpoint)

    monkeypatch.setattr(hyperparameters, "learn_rows", learning)
    monkeypatch.setattr(fitting, "policy_by_the_clock", chosen)
    data = make_data(ROWS)
    model = IterGPRegressor("matern32", budget=f"{SECONDS:.0f}s").fit(data.X, data.y)
    end = SECONDS - 0.2  # kept for what follows the last step
    assert given["learning"] == pytest.approx(LEARNING_SHARE * (end - 8.0))
    assert given["acting"] == pytest.approx(end - 8.0 - 5.0 - 2.0)
    assert model.timings_ == pytest.approx({"prepare": 8.0, "learn": 5.0, "act": 2.0, "total": 15.0})


def test_acting_ends_within_a_slab_of_rows(clock, monkeypatch):
    """A step of many rows is cut off inside: what it had done is dropped, and steps before it are kept."""
    slabs = 0

    def slow(self, X0, support, W, tick=None, multiply=Gram.multiply_points):
        nonlocal slabs
        slabs += 1
        clock.now += 1.0
        return multiply(self, X0, support, W)

    for name, value in {"LEAN_ROWS": 100, "LEAST": 25, "ENTRIES": 1}.items():
        monkeypatch.setattr(products, name, value)
    monkeypatch.setattr(Gram, "multiply_points", slow)
    data, policy = make_data(ROWS), UnitVector("random", block_size=16)
    model = IterGPRegressor("matern32", learn=False, noise=0.05, policy=policy, budget="10s")
    model.fit(data.X, data.y)
    assert slabs == clock.now == 9  # of which a step has 6: the next one would end after the 9.8 seconds
    assert model.posterior_.rank == 16
    assert np.isfinite(model.predict(data.X_new)).all()


def test_learning_ends_within_a_step_of_growing_a_tree(clock, monkeypatch):
    native = pytest.importorskip("itergp.linalg.engines.native.local", reason="needs the native engine")

    class Slow:
        """A search tree, each step of whose growth takes a second."""

        def __init__(self, F):
            self.tree = tree(F)
            self.nearest = self.tree.nearest

        def grow(self, points):
            clock.now += 1.0
            return self.tree.grow(points)

    tree = native._tiles.SearchTree
    monkeypatch.setattr(native._tiles, "SearchTree", Slow)
    monkeypatch.setattr(native, "GROWN", 500)
    monkeypatch.setattr(gram, "TREES", (10, 20))
    data = make_data(3000)
    found = learn_rows(
        unmerged(data.X, data.y), Matern32(1.0), 0.1, method="neighbours", seconds=5.0, compute=Compute()
    )
    assert found.ended is Ending.BUDGET
    assert clock.now == pytest.approx(5.0)


@pytest.mark.parametrize(("taken", "times"), [(0.15, 2), (0.4, 1)])
def test_held_out_rows_are_predicted_only_where_there_is_time_for_it(taken, times, clock, monkeypatch):
    """To predict them takes a tenth of the time at most. After a prediction that took longer there is only
    the last one, about intervals, unless that would take too much of the time, too."""
    asked = []

    def slow(self, kernel, noise, neighbours=60, scores=choosing.HeldOut.scores):
        asked.append(clock.now)
        clock.now += taken * SECONDS
        return scores(self, kernel, noise, neighbours)

    monkeypatch.setattr(choosing.HeldOut, "scores", slow)
    monkeypatch.setattr(choosing, "EXACT_LIKELIHOOD_ROWS", 100)
    data = make_data(400)
    choosing.choose_rows(unmerged(data.X, data.y), 0.1, seconds=SECONDS)
    assert len(asked) == times
    assert clock.now == pytest.approx(times * taken * SECONDS)
