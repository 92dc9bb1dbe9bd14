"""Within a time limit learning begins with little, so that it gets somewhere on any machine and with any
number of rows."""

from dataclasses import dataclass

import numpy as np
import pytest

from itergp import Matern32
from itergp.learning import learn, stages, training
from itergp.learning.endings import Ending
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import Evaluation
from itergp.linalg.gram import Earlier

START = 1.0 * Matern32([3.0, 3.0])
BEST = np.log([0.5, 2.0, 1.5])  # lengthscales and scale, where the made-up likelihood is best


class Clock:
    """Time goes by the work that is asked for: so much for a pair that is searched, so much for a row that
    is evaluated."""

    def __init__(self, monkeypatch, per_pair, per_row):
        self.now, self.work = 0.0, []
        clock = self

        def at(kernel, rows, neighbours, batch, seed, compute, tick):
            size = rows.n if batch is None else min(batch, rows.n)
            clock.spend(per_pair * size * rows.n / 2, tick)
            clock.work.append((size, rows.n))
            given = Earlier(None, rows.X, np.arange(size), np.zeros((size, 1)), np.arange(rows.n), None)
            return Timed(rows, given, tick=tick, seconds=per_row * size, clock=clock)

        monkeypatch.setattr(NeighbourLikelihood, "at", staticmethod(at))
        monkeypatch.setattr(stages.time, "perf_counter", lambda: clock.now)
        monkeypatch.setattr(training, "shorter", lambda *_: None)  # it has a share of the time of its own

    def spend(self, seconds, tick):
        for _ in range(10):
            self.now += seconds / 10
            tick()


@dataclass(frozen=True, eq=False)
class Timed(NeighbourLikelihood):
    seconds: float = 0.0
    clock: Clock | None = None

    def __call__(self, kernel, noise):
        self.clock.spend(self.seconds, self.tick)
        theta = np.log([*kernel.kernel.lengthscale, kernel.scale])
        slope = 2.0 * (theta - BEST)
        gradient = {
            "kernel.lengthscale": slope[:2] / kernel.kernel.lengthscale,
            "scale": slope[2] / kernel.scale,
        }
        return Evaluation(float(((theta - BEST) ** 2).sum()), gradient, 0.0)


def made_up(n):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 2)), rng.standard_normal(n)


@pytest.mark.parametrize("n", [1500, 20_000, 150_000])
@pytest.mark.parametrize("slow", [1.0, 30.0])
@pytest.mark.parametrize("seconds", [2.0, 12.0, 36.0])
def test_a_small_limit_gets_somewhere(monkeypatch, n, slow, seconds):
    """As on two cores in 6 or, if slow, in 200 dimensions: 2 and 60 ns for a pair, 20 and 600 us for a
    row."""
    Clock(monkeypatch, slow * 2e-9, slow * 2e-5)
    found = learn(*made_up(n), START, 0.1, learn_noise=False, seconds=seconds)
    assert found.trace
    learned = np.log([*found.kernel.kernel.lengthscale, found.kernel.scale])
    assert np.abs(learned - BEST).max() < 0.2 * np.abs(np.log([3.0, 3.0, 1.0]) - BEST).max()


@pytest.mark.parametrize("n", [20_000, 150_000])
def test_more_time_goes_into_more_rows_and_a_wider_search(monkeypatch, n):
    most = []
    for seconds in (3.0, 12.0, 48.0, 4000.0):
        clock = Clock(monkeypatch, 2e-9, 2e-5)
        learn(*made_up(n), START, 0.1, learn_noise=False, seconds=seconds)
        assert clock.now < 1.1 * seconds
        most.append(max(clock.work))
    assert most == sorted(most)
    assert most[-1] == (n, n)


def test_what_is_counted_has_no_such_stages(monkeypatch):
    clock = Clock(monkeypatch, 1.0, 1.0)
    found = learn(*made_up(20_000), START, 0.1, learn_noise=False)
    assert clock.work[0] == (1500, 20_000)
    assert found.stages[0] == "neighbours, a small batch"
    assert clock.work[-1] == (20_000, 20_000)


def test_the_exact_likelihood_begins_with_a_few_rows_where_time_is_short(monkeypatch):
    X = made_up(600)[0]
    for seconds_of_few, expected in ((0.1, ("exact, a few rows", "exact")), (1e-3, ("exact",))):
        monkeypatch.setattr(stages.Run, "seconds_of", lambda run, objective, taken=seconds_of_few: taken)
        found = learn(X, np.sin(X[:, 0]), START, 0.1, seconds=30.0)
        assert found.stages == expected
        assert found.ended in (Ending.CONVERGED, Ending.BUDGET)


def test_with_time_enough_no_few_rows_mislead(monkeypatch):
    clock = Clock(monkeypatch, 2e-9, 2e-5)
    found = learn(*made_up(150_000), START, 0.1, learn_noise=False, seconds=20.0)
    assert found.stages[0] == "neighbours, a small batch"
    assert clock.work[0] == (stages.PROBE, stages.POOL)
    assert clock.work[1] == (1500, 150_000)
