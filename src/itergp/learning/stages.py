"""The methods of learning: each is a generator of stages, created when the previous one has ended."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.learning.endings import Ending
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import Objective, is_composite
from itergp.learning.run import Run, Stage
from itergp.learning.starts import ITERATIONS, MOST_ITERATIONS, STARTS, TOLERANCE, candidates
from itergp.learning.wide import MOST_ROWS, is_wide, stages as wide_stages
from itergp.limits import EXACT_LIKELIHOOD_ROWS
from itergp.linalg.compute import Compute
from itergp.linalg.neighbours import TREE_FEATURES

SMALL_BATCH, NEIGHBOURS = 3000, 30
SUBSET, INDUCING_POINTS, BLOCK = 2000, 512, 256
FEW_ROWS, FEWEST_ROWS, FEW_EXACT_ROWS = 1000, 100, 250  # rows to begin with if time is short
EVALUATIONS = 20  # evaluations of an objective in some 15 iterations
PROBE, POOL = 256, 20_000  # rows timed beforehand, and the fewest among which a batch has its neighbours
SEARCH_SHARE = 0.25  # share of the remaining time for finding the neighbours of a batch
ALL_ROWS, MANY_ROWS = (
    150_000,
    (100_000, 30_000),
)  # beyond, batches: if neighbours are found by a tree, and if not
MOST = 4_000_000  # rows: of more, a random part is learned from, so that memory and time stop to grow
FULL_BATCH = 10_000  # rows with many rows in their conditioning sets: an evaluation is 20 times as long
ROUNDS = 6  # rounds of updating the neighbours, at most
FEWEST = 0.25  # of a batch, with many neighbours
SETTLED = 1e-3  # nats per observation that updating the neighbours must still gain


def stages(method: str, rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The stages of a method, each created when the previous one has ended, to start from its result."""
    if method in ("auto", "exact", "subset") and run.space.whole and is_wide(run.kernel, rows):
        return wide_stages(rows, run, seed, rows.n if method == "exact" else MOST_ROWS)
    if method == "auto":
        method = "exact" if rows.n <= EXACT_LIKELIHOOD_ROWS else "neighbours"
    return STAGES[method](rows, run, seed, compute) if method in STAGES else iter(())


def _exact(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.exact import exact

    def of(some: Rows) -> Objective:
        return run.summed(some, lambda of: exact(of, compute=compute, tick=run.tick))

    if run.seconds is not None and rows.n > 2 * FEW_EXACT_ROWS:
        few = of(_few(rows, FEW_EXACT_ROWS, seed))
        if EVALUATIONS * run.seconds_of(few) * (rows.n / FEW_EXACT_ROWS) ** 3 > 0.5 * run.left:
            yield "exact, a few rows", few, 15
    given, all_rows = run.theta, of(rows)
    if not is_composite(run.kernel):
        yield "exact", all_rows, 200
        return
    run.tolerance = TOLERANCE
    yield "exact", all_rows, MOST_ITERATIONS
    yield from _restarts(all_rows, run, list(candidates(run.space, given, rows, seed)))


def _restarts(objective: Objective, run: Run, points: list[np.ndarray]) -> Iterator[Stage]:
    """After the given values: the first steps from the best of other points, and the best of these to the
    end. Where the objective is not lower than before, nothing changes."""
    values = [run.value(objective, theta) for theta in points]
    ended = []
    for i, j in enumerate(np.argsort(values, kind="stable")[:STARTS]):
        run.restart(points[j])
        yield f"exact, start {i + 2} of {STARTS + 1}", objective, ITERATIONS
        ended.append((run.objective, i, run.theta))
        run.settle()
    _, i, theta = min(ended)
    run.restart(theta)
    yield f"exact, start {i + 2}", objective, MOST_ITERATIONS
    run.settle()


def _subset(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.exact import subset

    how: dict[str, Any] = {"seed": seed, "compute": compute, "tick": run.tick}
    yield "subset", run.summed(rows, lambda of: subset(of, SUBSET, **how)), 50


def _iterative(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The likelihood of all rows by products with K, starting from the result on a subset."""
    from itergp.learning.iterative import iterative

    yield from _subset(rows, run, seed, compute)
    how: dict[str, Any] = {"seed": seed, "compute": compute, "tick": run.tick}
    yield "iterative", run.summed(rows, lambda of: iterative(of, **how)), 30


def _sgpr(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.inducing import sgpr

    how: dict[str, Any] = {"seed": seed, "compute": compute}
    yield (
        "inducing points",
        run.summed(rows, lambda of: sgpr(of, INDUCING_POINTS, **how)),
        100,
    )


def _elbo(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The computation-aware ELBO of pseudo-inputs, after the neighbours; actions are renewed twice."""
    from itergp.learning.actions import elbo
    from itergp.posterior.combined import condition
    from itergp.prior.gp import Prior
    from itergp.solver.policies import PseudoInput
    from itergp.solver.stopping import MaxActions

    def with_actions() -> Objective:
        kernel, noise = run.space.values(run.theta)
        block, N = PseudoInput(block_size=BLOCK), rows.N(float(np.min(noise)))
        Q = condition(
            Prior(kernel), rows.X, rows.Y, N, block, MaxActions(min(BLOCK, rows.n)), compute, seed
        ).actions
        return run.summed(rows, lambda of: elbo(of, Q, compute=compute, tick=run.tick))

    yield from _neighbours(rows, run, seed, compute)
    for _ in range(3):
        yield "computation-aware ELBO", with_actions(), 10


def _neighbours(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """A small batch while the metric is still inaccurate, then all rows, updating the neighbours between
    rounds."""
    steps = Neighbours(rows, run, seed, compute)
    yield from steps.first()
    if rows.n > SMALL_BATCH:
        yield from steps.batch()
    yield from steps.all_rows()


def _full_scale(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """After the neighbours, each row given some rows of all the data too, with neighbours updated once."""
    from itergp.learning.full_scale import GLOBAL, FullScaleLikelihood

    def at() -> Objective:
        how = (NEIGHBOURS, GLOBAL, FULL_BATCH, seed, compute, run.tick)
        given = FullScaleLikelihood.at(run.kernel, rows, *how)
        return run.summed(given.rows, lambda of: replace(given, rows=of))

    yield from _neighbours(rows, run, seed, compute)
    for _ in range(2):
        yield "full scale", at(), 15


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The stages that maximise the likelihood of rows given their neighbours.

    Within a time limit, a batch has its neighbours among as many rows as can be searched in a share of the
    time: it is the likelihood of those rows.
    """

    rows: Rows
    run: Run
    seed: int
    compute: Compute
    m: int = NEIGHBOURS

    def at(self, batch: int | None, m: int, pool: int | None = None) -> Objective:
        """The likelihood of a batch (None: all rows), with the neighbours in the metric learned so far."""
        rows, run, began = self.rows, self.run, time.perf_counter()
        some = rows if pool is None or pool >= rows.n else _few(rows, pool, self.seed)
        found = NeighbourLikelihood.at(run.kernel, some, m, batch, self.seed, self.compute, run.tick)
        run.batch = found.batch
        run.per_pair = 2.0 * (time.perf_counter() - began) / (run.batch * some.n)
        # all targets share the neighbours
        return run.summed(found.rows, lambda of: replace(found, rows=of))

    def first(self) -> Iterator[Stage]:
        """A small batch. If even that might take too long, a few rows come first, so that something is
        learned in any case. Otherwise they do not, since few rows can mislead if there are many features."""
        n, run, m = self.rows.n, self.run, self.m // 2
        if run.seconds is not None and n > FEW_ROWS:
            few = _in_a_hurry(n, run, self.at(PROBE, m, POOL))
            if few:
                yield "neighbours, a few rows", self.at(None, m, few), 15
        if n > SMALL_BATCH:
            small = self.at(SMALL_BATCH // 2, m, _searchable(SMALL_BATCH // 2, run))
            yield "neighbours, a small batch", small, 15

    @property
    def size(self) -> int:
        """Rows of a batch: fewer with more neighbours, whose work grows with their cube."""
        return int(SMALL_BATCH * max(FEWEST, (NEIGHBOURS / self.m) ** 2))

    def batch(self) -> Iterator[Stage]:
        yield "neighbours, a batch", self.at(self.size, self.m, _searchable(self.size, self.run)), 15

    def all_rows(self) -> Iterator[Stage]:
        """All rows, or as many as the time allows, until new neighbours gain no more."""
        n, run, before = self.rows.n, self.run, np.inf
        batch, pool = _affordable(self.rows, run, rounds=2) if n > SMALL_BATCH else (None, None)
        if self.m > NEIGHBOURS:  # without a clock too
            batch = min(n, 2 * self.size, n if batch is None else batch)
        for _ in range(ROUNDS):
            name = "neighbours, all rows" if batch is None else "neighbours, a large batch"
            yield name, self.at(batch, self.m, pool), 15
            if before - run.objective >= SETTLED:
                before = run.objective
                continue
            run.ended = Ending.CONVERGED
            larger, wider = _affordable(self.rows, run, rounds=1)
            more = batch is not None and (larger is None or larger >= 1.5 * batch)
            if not more or self.m > NEIGHBOURS:
                return
            batch, pool, before = larger, wider, np.inf  # there is time for more rows


def a_sample(rows: Rows, seed: int, groups: np.ndarray | None = None) -> tuple[Rows, np.ndarray | None]:
    """The rows to learn from, and their groups: all, or as many random ones as are enough."""
    if rows.n <= MOST:
        return rows, groups
    chosen = np.sort(np.random.default_rng([seed, rows.n]).choice(rows.n, MOST, replace=False))
    return rows.some(chosen), None if groups is None else groups[chosen]


def _few(rows: Rows, count: int, seed: int) -> Rows:
    return rows.some(np.random.default_rng([seed, count]).permutation(rows.n)[:count])


def _in_a_hurry(n: int, run: Run, probe: Objective) -> int:
    """The number of rows to begin with; 0 if the first batch takes less than half of the time left."""
    per_row, batch = run.seconds_of(probe) / run.batch, min(n, SMALL_BATCH // 2)
    search = 0.5 * run.per_pair * batch * n
    if EVALUATIONS * per_row * batch + search < 0.5 * run.left:
        return 0
    return int(min(FEW_ROWS, max(FEWEST_ROWS, 0.5 * run.left / (EVALUATIONS * per_row))))


def _searchable(batch: int, run: Run) -> int | None:
    """Among how many rows a batch's neighbours can be searched in a share of the time left; None: any."""
    if run.seconds is None:
        return None
    return max(POOL, int(2.0 * SEARCH_SHARE * run.left / (batch * max(run.per_pair, 1e-12))))


def _affordable(rows: Rows, run: Run, rounds: int) -> tuple[int | None, int | None]:
    """A batch for which the remaining time allows this many rounds of 15 iterations, each with its search,
    and the rows among which its neighbours are searched; None: all rows."""
    n = rows.n
    pool = min(n, _searchable(SMALL_BATCH, run) or n)
    per_row = rounds * (15.0 * max(run.per_evaluation, 1e-6) / run.batch + 0.5 * run.per_pair * pool)
    batch, most = min(n, run.left / per_row), _most(rows)
    if batch >= n <= min(pool, most):
        return None, None
    return min(pool, most, max(SMALL_BATCH, int(batch))), pool


def _most(rows: Rows) -> int:
    """Rows of a batch, at most: without a clock too, so that learning is linear in n beyond a size."""
    few_features = rows.X.shape[1] <= TREE_FEATURES
    return rows.n if rows.n <= ALL_ROWS else MANY_ROWS[0 if few_features else 1]


# The methods of learning by name; a new method only needs an entry here.
STAGES: dict[str, Callable[[Rows, Run, int, Compute], Iterator[Stage]]] = {
    "neighbours": _neighbours,
    "exact": _exact,
    "iterative": _iterative,
    "sgpr": _sgpr,
    "elbo": _elbo,
    "full-scale": _full_scale,
    "subset": _subset,
}
METHODS = ("auto", *STAGES, "none")
