"""The model chosen by the data: candidates are learned on a few rows, the best go on to more, and held-out
rows, predicted as `predict` will, choose between them.

A stage of learning is a candidate too: what makes held-out predictions worse is dropped, whatever its
objective says. So a bad optimum, too few neighbours or a noise that collapsed cost time, not the answer.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.learning.candidates import (
    AFTER,
    FACTORS,
    FIRST,
    LENGTHS,
    NOISIER,
    ONE,
    Candidate,
    chosen,
    considered,
    each_its_own,
    one_lengthscale,
    rescaled,
    smoothed,
    start_of,
)
from itergp.learning.endings import Ending
from itergp.learning.evaluation import summed
from itergp.learning.exact import exact
from itergp.learning.heldout import HeldOut, LeaveOut
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import NOISE_FREE, RANGES, Objective, Ranges, Space
from itergp.learning.run import Enough, Learned, OutOfTime, Record, Run, Stage
from itergp.learning.stages import NEIGHBOURS, Neighbours, stages
from itergp.learning.wide import MOST_ROWS, is_wide, stages as wide_stages
from itergp.limits import EXACT_LIKELIHOOD_ROWS
from itergp.linalg.compute import Compute
from itergp.linalg.libraries import require_working_room

SCREENED = 500  # rows on which all candidates are learned
FINALISTS = 2  # that go on to all rows, and the best of the other kind (one lengthscale, or one per feature)
ITERATIONS = 40  # of a smoothness that begins where another has ended
TOLERANCE = 1e-5  # nats per observation, at which a candidate has converged: far less than they differ by
PROBED, MOST_NEIGHBOURS = 300, 120  # rows and neighbours, to see how many neighbours it takes
SETTLED = 0.02  # nats per observation that more neighbours may change
SCREENING, EVALUATIONS = 0.4, 250  # of the time, for all candidates on a few rows; evaluations it takes
FEWEST = 250  # rows on which candidates can be told apart
SHORT = 60.0  # seconds: below, fewer rows are held out
LATER = 0.6  # of the time, that the last stage should have
SCORING = 0.1  # of the time, for one prediction of held-out rows: otherwise the likelihood chooses
Stages = Callable[[Run], Iterator[Stage]]


def choose_rows(
    rows: Rows,
    noise: Any,
    learn_noise: bool = True,
    method: str = "auto",
    *,
    groups: np.ndarray | None = None,
    seconds: float | None = None,
    seed: int = 0,
    callback: Callable[[Record], Any] | None = None,
    compute: Compute = Compute(),
) -> Learned:
    """As `learn_rows`, with the kernel chosen too. `groups` says which rows are held out together."""
    require_working_room()
    task = Choosing(rows, noise, learn_noise, groups, seconds, seed, callback, compute)
    try:
        task.choose(method)
    except OutOfTime:
        task.ended = Ending.BUDGET
    except Enough:
        task.ended = Ending.STOPPED
    except KeyboardInterrupt:
        task.ended = Ending.INTERRUPTED
    return task.result()


@dataclass(eq=False)
class Choosing:
    """Candidates by name, each at the best point found so far; the clock and the trace of all."""

    rows: Rows
    noise: Any
    learn_noise: bool
    groups: np.ndarray | None
    seconds: float | None
    seed: int
    callback: Callable[[Record], Any] | None
    compute: Compute
    began: float = field(default_factory=lambda: time.perf_counter())
    candidates: dict[str, Candidate] = field(default_factory=dict)
    best: Candidate | None = None  # chosen so far
    trace: list[Record] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    at_bounds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scoring: float = 0.0  # seconds of the last predictions of held-out rows
    ended: Ending = Ending.CONVERGED

    @property
    def left(self) -> float:
        return np.inf if self.seconds is None else self.seconds - (time.perf_counter() - self.began)

    def tick(self) -> None:
        if self.left <= 0:
            raise OutOfTime

    @property
    def d(self) -> int:
        return self.rows.X.shape[1]

    def enter(self, candidate: Candidate) -> Candidate:
        self.candidates[candidate.name] = candidate
        return candidate

    def result(self) -> Learned:
        """The chosen candidate; if there was no time to choose, the best of those that there are."""
        start = Candidate(FIRST, each_its_own(one_lengthscale(FIRST, self.d), self.d), self.noise)
        scored = [one for one in self.candidates.values() if one.densities is not None]
        there = [chosen(scored)] if scored else sorted(self.candidates.values(), key=lambda c: c.objective)
        best = self.best or (there or [start])[0]
        return Learned(
            best.kernel,
            best.noise,
            best.objective,
            tuple(self.trace),
            tuple(self.stages),
            self.at_bounds.get(best.name, ()),
            self.ended,
            considered(list(self.candidates.values()), best),
        )

    def choose(self, method: str) -> None:
        small = method != "auto" or self.rows.n <= EXACT_LIKELIHOOD_ROWS
        quick = self.seconds is not None and self.seconds < SHORT
        held = None if small else HeldOut.split(self.rows, self.groups, self.seed, self.compute, quick)
        few = self.few(self.rows if held is None else held.known)
        if few is None:  # no time to choose: one smoothness, learned as if it had been asked for
            start = Candidate(FIRST, start_of(FIRST, self.d), self.noise)
            self.best = self.enter(self.learned(start, self.rows, self.named(method)))
        elif method != "auto":
            self.by(method, few)
        elif held is None:
            self.small(few)
        else:
            self.large(held, few)

    # The parts of it.

    def learned(
        self,
        candidate: Candidate,
        rows: Rows,
        make: Stages,
        share: float = 1.0,
        tolerance: float | None = None,
        ranges: Ranges = RANGES,
    ) -> Candidate:
        """The candidate after these stages on these rows, within a share of the time that is left."""
        space = Space.of(candidate.kernel, candidate.noise, rows, self.learn_noise, ranges=ranges)
        limit = None if self.seconds is None else self.seconds - (1.0 - share) * self.left
        run = Run(space, space.vector(candidate.kernel, candidate.noise), limit, self.callback, self.began)
        run.trace, run.stages = self.trace, self.stages
        run.tolerance = run.tolerance if tolerance is None else tolerance
        try:
            for name, objective, iterations in make(run):
                run.minimise(f"{candidate.name}: {name}", objective, iterations)
            self.ended = run.ended
        except OutOfTime:
            self.ended = Ending.BUDGET
            self.enter(self.reached(candidate, run, rows))
            self.tick()
        except (Enough, KeyboardInterrupt):
            self.enter(self.reached(candidate, run, rows))
            raise
        return self.reached(candidate, run, rows)

    def reached(self, candidate: Candidate, run: Run, rows: Rows) -> Candidate:
        kernel, noise, self.at_bounds[candidate.name] = run.found()
        price = 0.5 * run.space.lower.size * np.log(rows.total) / rows.total  # BIC
        return replace(candidate, kernel=kernel, noise=noise, objective=run.objective + price, held=None)

    def scored(self, candidate: Candidate, held: HeldOut | LeaveOut) -> Candidate:
        """With predictions of held-out rows, unless they take too much of the time; a candidate that fails
        numerically has none."""
        self.tick()
        if self.seconds is not None and self.scoring > SCORING * self.seconds:
            return replace(candidate, held=None)
        began = time.perf_counter()
        try:
            found = held.scores(candidate.kernel, candidate.noise)
        except (np.linalg.LinAlgError, ArithmeticError):
            return replace(candidate, held=None)
        finally:
            self.scoring = time.perf_counter() - began
        return replace(candidate, held=found)

    def likelihood(self, rows: Rows, noise: Any) -> Objective:
        return summed(rows, noise, lambda of: exact(of, compute=self.compute, tick=self.tick))

    # All candidates, on a few rows.

    def few(self, rows: Rows) -> Rows | None:
        """Rows for all candidates: as many as a share of the time allows; none if that is very few."""
        if self.seconds is None:
            return few_of(rows, SCREENED, self.seed)
        probe = few_of(rows, FEWEST, self.seed)
        objective, kernel = self.likelihood(probe, self.noise), start_of(FIRST, self.d)
        objective(kernel, self.noise)  # the first one wakes threads
        began = time.perf_counter()
        objective(kernel, self.noise)
        all_of_it = max(1e-6, EVALUATIONS * (time.perf_counter() - began))
        # between the second and the third power of the rows
        size = int(min(SCREENED, probe.n * (SCREENING * self.left / all_of_it) ** 0.4))
        return few_of(rows, size, self.seed) if size >= min(FEWEST, rows.n) else None

    def screen(self, few: Rows) -> None:
        """Every smoothness by the exact likelihood, and the best of them with one lengthscale."""
        shared = self.enter(self.with_one_lengthscale(few))
        first = shared
        if self.d > 1:
            own = replace(shared, name=FIRST, kernel=each_its_own(shared.kernel, self.d))
            first = self.enter(self.learned(own, few, self.exactly(few), tolerance=TOLERANCE))
        found = {FIRST: first}
        for name, near in AFTER.items():
            found[name] = self.enter(self.smoothed(found[near], name, few))
        best = min(found, key=lambda name: found[name].objective)
        if self.d > 1 and best != FIRST:
            self.enter(self.smoothed(shared, best, few))

    def with_one_lengthscale(self, few: Rows) -> Candidate:
        """From short and from long ones: the best optimum of three parameters."""
        starts = [
            Candidate(FIRST + ONE, one_lengthscale(FIRST, self.d, factor), self.noise) for factor in LENGTHS
        ]
        found = [self.learned(start, few, self.exactly(few), tolerance=TOLERANCE) for start in starts]
        return min(found, key=lambda one: one.objective)

    def smoothed(self, other: Candidate, profile: str, few: Rows) -> Candidate:
        """Another smoothness from where `other` is: the best factors on lengthscales and noise first."""
        objective = self.likelihood(few, other.noise)
        name = profile + ONE if other.shares else profile
        starts = [
            Candidate(name, smoothed(other.kernel, profile, factor), more * other.noise)
            for factor in FACTORS
            for more in (NOISIER if self.learn_noise else (1.0,))
        ]
        values = [objective(start.kernel, start.noise).value for start in starts]
        start = starts[int(np.argmin(values))]
        return self.learned(start, few, self.exactly(few, ITERATIONS), tolerance=TOLERANCE)

    def exactly(self, rows: Rows, iterations: int | None = None) -> Stages:
        """By the exact likelihood; `iterations` where only the smoothness is new."""

        def make(run: Run) -> Iterator[Stage]:
            if iterations is None:
                yield from stages("exact", rows, run, self.seed, self.compute)
            elif is_wide(run.kernel, rows):
                yield from wide_stages(rows, run, self.seed, MOST_ROWS, choose=False)
            else:
                yield "exact", self.likelihood(rows, run.space.noise), iterations

        return make

    # The best of them, on more rows.

    def finalists(self) -> list[Candidate]:
        ranked = sorted(self.candidates.values(), key=lambda one: one.objective)
        best = ranked[:FINALISTS]
        other = [one for one in ranked if one.shares != best[0].shares]
        return best + [one for one in other[:1] if one not in best]

    def small(self, few: Rows) -> None:
        """Up to a thousand rows: by the exact likelihood, and by rows left out in turn."""
        rows, held = self.rows, LeaveOut(self.rows, self.groups, self.compute, self.tick)
        self.screen(few)
        found = list(self.candidates.values())
        if few.n < rows.n:
            found = [self.enter(self.learned(one, rows, self.exactly(rows))) for one in self.finalists()]
        self.best = chosen([self.enter(self.scored(one, held)) for one in found])
        self.without_noise(held, [self.exactly(rows)])
        self.rescale()

    def large(self, held: HeldOut, few: Rows) -> None:
        """Beyond: by the likelihood of rows given their neighbours, and by held-out rows."""
        self.screen(few)
        if self.d > 1 and is_wide(self.candidates[FIRST].kernel, self.rows):
            self.best = chosen([self.enter(self.scored(one, held)) for one in self.finalists()])
            self.go_on(held, lambda run: wide_stages(self.rows, run, self.seed, MOST_ROWS))
        else:
            self.best = self.by_a_batch(held)
            self.go_on(held, self.all_rows(self.enough(held.known)))
        self.without_noise(held, [self.batch(held.known), self.batch(held.known, MOST_NEIGHBOURS)])
        self.rescale()

    def by_a_batch(self, held: HeldOut) -> Candidate:
        """The best of a few candidates after a batch, while there is time for more than one."""
        found: list[Candidate] = []
        for one in self.finalists():
            if found and self.seconds is not None and self.left < LATER * self.seconds:
                break
            self.best = self.scored(one, held)
            found.append(self.go_on(held, self.batch(held.known)))
        return chosen(found)

    def go_on(self, held: HeldOut | LeaveOut, make: Stages, ranges: Ranges = RANGES) -> Candidate:
        """More stages from the best point; where held-out rows say that it was better before, it stays."""
        best = self.best
        assert best is not None
        rows = held.rows if isinstance(held, LeaveOut) else self.rows
        more = self.scored(self.learned(best, rows, make, ranges=ranges), held)
        self.best = self.enter(chosen([more, replace(best, objective=more.objective)]))
        return self.best

    def without_noise(self, held: HeldOut | LeaveOut, makes: list[Stages]) -> None:
        """Where the noise has reached the end of its range there may be none: wider ranges."""
        best = self.best
        assert best is not None
        if self.learn_noise and any(name.startswith("noise") for name in self.at_bounds.get(best.name, ())):
            for make in makes:
                self.go_on(held, make, NOISE_FREE)

    def rescale(self) -> None:
        """Scale and noise by one factor, where held-out errors say that all variances are off by it."""
        best = self.best
        if best is not None and best.held is not None and self.learn_noise:
            self.best = self.enter(rescaled(best, best.held.factor))

    def enough(self, rows: Rows) -> int:
        """As many neighbours as it takes: until twice as many change the likelihood of some rows no more."""
        best, m = self.best, NEIGHBOURS
        assert best is not None

        def objective(m: int) -> float:
            found = NeighbourLikelihood.at(best.kernel, rows, m, PROBED, self.seed, self.compute, self.tick)
            of_all = summed(found.rows, best.noise, lambda of: replace(found, rows=of))
            return of_all(best.kernel, best.noise).value

        now = objective(m)
        while m < MOST_NEIGHBOURS and 2 * m < rows.n:
            before, now = now, objective(2 * m)
            if abs(now - before) < SETTLED:
                break
            m *= 2
        return m

    def batch(self, rows: Rows, m: int = NEIGHBOURS) -> Stages:
        return lambda run: Neighbours(rows, run, self.seed, self.compute, m).batch()

    def all_rows(self, m: int) -> Stages:
        return lambda run: Neighbours(self.rows, run, self.seed, self.compute, m).all_rows()

    def by(self, method: str, few: Rows) -> None:
        """Chosen on a few rows, then learned by the method of that name."""
        self.screen(few)
        held = LeaveOut(few, None, self.compute, self.tick)
        self.best = best = chosen(
            [self.enter(self.scored(one, held)) for one in list(self.candidates.values())]
        )
        self.best = self.enter(replace(self.learned(best, self.rows, self.named(method)), held=best.held))

    def named(self, method: str) -> Stages:
        return lambda run: stages(method, self.rows, run, self.seed, self.compute)


def few_of(rows: Rows, count: int, seed: int) -> Rows:
    if rows.n <= count:
        return rows
    return rows.some(np.sort(np.random.default_rng([seed, rows.n]).permutation(rows.n)[:count]))
