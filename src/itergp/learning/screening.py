"""All candidates, learned by the exact likelihood of a few rows: each from a point that is near its own."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from itergp.data.rows import Rows
from itergp.learning.candidates import (
    AFTER,
    FACTORS,
    FIRST,
    LENGTHS,
    LINEAR,
    NOISIER,
    ONE,
    Candidate,
    each_its_own,
    one_lengthscale,
    smoothed,
    start_of,
    with_linear,
    with_one,
)
from itergp.learning.run import Run, Stage
from itergp.learning.search import Search, Stages
from itergp.learning.stages import stages
from itergp.learning.wide import MOST_ROWS, is_wide, stages as wide_stages

SCREENED, FEWEST = 500, 250  # rows on which all candidates are learned, and the fewest that tell them apart
ITERATIONS = 40  # of a smoothness that begins where another has ended
TOLERANCE = 1e-5  # nats per observation, at which a candidate has converged: far less than they differ by
SHARE, EVALUATIONS = 0.4, 250  # of the time, and the evaluations that it takes
# how often held-out rows are predicted to choose; if rows are many, each takes so many times as long as to
# hold them out
PREDICTIONS, LONGER = 8, 3


def a_few(search: Search, rows: Rows) -> Rows | None:
    """As many rows as a share of the time allows; None if they are too few to choose by."""
    if search.seconds is None:
        return few_of(rows, SCREENED, search.seed)
    if PREDICTIONS * LONGER * search.scoring > SHARE * search.seconds:
        return None
    probe = few_of(rows, FEWEST, search.seed)
    objective, kernel = search.likelihood(probe, search.noise), start_of(FIRST, search.d)
    objective(kernel, search.noise)  # the first one wakes threads
    began = time.perf_counter()
    objective(kernel, search.noise)
    all_of_it = max(1e-6, EVALUATIONS * (time.perf_counter() - began))
    # the work grows with a power of the rows between the second and the third
    size = int(min(SCREENED, probe.n * (SHARE * search.left / all_of_it) ** 0.4))
    return few_of(rows, size, search.seed) if size >= min(FEWEST, rows.n) else None


def near_each_other(search: Search, rows: Rows, few: Rows) -> Rows:
    """As many rows that show short lengthscales: these, if they lie close enough."""
    assert search.shorter is not None
    if search.shorter.shown_by(few.X):
        return few
    return rows.some(search.shorter.near(rows.X, few.n, search.seed))


def few_of(rows: Rows, count: int, seed: int) -> Rows:
    if rows.n <= count:
        return rows
    return rows.some(np.sort(np.random.default_rng([seed, rows.n]).permutation(rows.n)[:count]))


def screen(search: Search, few: Rows) -> None:
    """Every smoothness, and the best of them with one lengthscale that all features share."""
    shared = search.enter(_with_one_lengthscale(search, few))
    first = shared
    if search.d > 1:
        first = search.enter(_with_each_its_own(search, shared, few))
    found = {FIRST: first}
    for name, near in AFTER.items():
        search.tick()
        found[name] = search.enter(_smoothed(search, found[near], name, few))
    best = min(found, key=lambda name: found[name].objective)
    if search.d > 1 and best != FIRST:
        search.enter(_smoothed(search, shared, best, few))
    _linear(search, few)


def _linear(search: Search, few: Rows) -> None:
    """The best of them with a linear part; not for wide tables, which choose their features."""
    best = min(search.candidates.values(), key=lambda one: one.objective)
    if not is_wide(best.kernel, few):
        start = replace(best, name=best.name + LINEAR, kernel=with_linear(best.kernel))
        search.enter(search.learned(start, few, exactly(search, few, ITERATIONS), TOLERANCE))


def _with_one_lengthscale(search: Search, few: Rows) -> Candidate:
    """From short and from long ones: the best optimum of three parameters."""
    kernels = [one_lengthscale(FIRST, search.d, factor) for factor in LENGTHS]
    starts = [Candidate(FIRST + ONE, kernel, search.noise) for kernel in kernels]
    if search.shorter is not None and search.shorter.shared:
        one = search.elsewhere(FIRST + ONE)
        starts.append(replace(one, kernel=with_one(one.kernel)))
    found = [search.learned(start, few, exactly(search, few), TOLERANCE) for start in starts]
    return min(found, key=lambda one: one.objective)


def _with_each_its_own(search: Search, shared: Candidate, few: Rows) -> Candidate:
    """From the shared one, and from the start: where one lengthscale serves only some of the targets, the
    others are noise there, and stay so."""
    own = replace(shared, name=FIRST, kernel=each_its_own(shared.kernel, search.d))
    starts = [own]
    if not is_wide(own.kernel, few):
        starts.append(Candidate(FIRST, start_of(FIRST, search.d), search.noise))
    if search.shorter is not None:
        starts.append(search.elsewhere(FIRST))
    found = [search.learned(start, few, exactly(search, few), TOLERANCE) for start in starts]
    return min(found, key=lambda one: one.objective)


def _smoothed(search: Search, other: Candidate, profile: str, few: Rows) -> Candidate:
    """Another smoothness from where `other` is: the best factors on lengthscales and noise first."""
    objective = search.likelihood(few, other.noise)
    name = profile + ONE if other.shares else profile
    starts = [
        Candidate(name, smoothed(other.kernel, profile, factor), more * other.noise)
        for factor in FACTORS
        for more in (NOISIER if search.learn_noise else (1.0,))
    ]
    values = [objective(start.kernel, start.noise).value for start in starts]
    start = starts[int(np.argmin(values))]
    return search.learned(start, few, exactly(search, few, ITERATIONS), TOLERANCE)


def exactly(search: Search, rows: Rows, iterations: int | None = None) -> Stages:
    """By the exact likelihood; `iterations` where only the smoothness is new."""

    def make(run: Run) -> Iterator[Stage]:
        if iterations is None:
            yield from stages("exact", rows, run, search.seed, search.compute)
        elif is_wide(run.kernel, rows):
            yield from wide_stages(rows, run, search.seed, MOST_ROWS, choose=False)
        else:
            yield "exact", search.likelihood(rows, run.space.noise), iterations

    return make
