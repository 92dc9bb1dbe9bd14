"""A search over candidates: one clock, one trace, and each candidate at the best point found so far."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from itergp.data.categories import features_of, same_distance
from itergp.data.rows import Rows
from itergp.learning.candidates import (
    FIRST,
    Candidate,
    chosen,
    considered,
    start_of,
    wary_of_new_levels,
)
from itergp.learning.endings import Ending
from itergp.learning.evaluation import summed
from itergp.learning.exact import exact
from itergp.learning.heldout import HeldOut, LeaveOut
from itergp.learning.parameters import RANGES, Objective, Ranges, Space
from itergp.learning.run import Enough, Learned, OutOfTime, Record, Run, Stage, Timed
from itergp.learning.shorter import Shorter
from itergp.limits import EXACT_LIKELIHOOD_ROWS
from itergp.linalg.compute import Compute

SCORING = 0.1  # of the time, for one prediction of held-out rows: otherwise the likelihood chooses
SCORES = 1.5  # times the seconds of the last prediction, that are kept for the next one
DOUBT = 1.0  # standard errors by which a stage must not make held-out predictions worse: it can be left out
Stages = Callable[[Run], Iterator[Stage]]


@dataclass(eq=False)
class Search(Timed):
    """Candidates by name; `best` is the one chosen so far, `held` what can be left out of all rows, `shorter`
    where else to start."""

    rows: Rows
    noise: Any
    learn_noise: bool = True
    groups: np.ndarray | None = None
    seconds: float | None = None
    seed: int = 0
    callback: Callable[[Record], Any] | None = None
    compute: Compute = Compute()
    began: float = field(default_factory=lambda: time.perf_counter())
    candidates: dict[str, Candidate] = field(default_factory=dict)
    best: Candidate | None = None
    held: HeldOut | LeaveOut | None = None
    shorter: Shorter | None = None
    trace: list[Record] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    scoring: float = 0.0  # seconds of the last prediction of held-out rows
    ended: Ending = Ending.CONVERGED

    @property
    def d(self) -> int:
        return self.rows.X.shape[1]

    @cached_property
    def categories(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The feature of each column and factors within it, where columns are those of categories: these
        share a lengthscale, unless there are rows enough for one each."""
        features = features_of(self.rows.X) if self.rows.n <= EXACT_LIKELIHOOD_ROWS else np.arange(self.d)
        return None if features[-1] == self.d - 1 else (features, same_distance(self.rows.X, features))

    def enter(self, candidate: Candidate) -> Candidate:
        self.candidates[candidate.name] = candidate
        return candidate

    def elsewhere(self, name: str) -> Candidate:
        """A candidate at the shorter lengthscales that were found."""
        assert self.shorter is not None
        noise = self.shorter.noise_of(self.rows, self.noise) if self.learn_noise else self.noise
        return Candidate(name, self.shorter.kernel, noise)

    def likelihood(self, rows: Rows, noise: Any) -> Objective:
        """The exact one."""
        return summed(rows, noise, lambda of: exact(of, compute=self.compute, tick=self.tick))

    def learned(
        self,
        candidate: Candidate,
        rows: Rows,
        make: Stages,
        tolerance: float | None = None,
        ranges: Ranges = RANGES,
    ) -> Candidate:
        """The candidate after these stages, in units of these rows. There is time left to predict with it."""
        ranges = ranges if self.shorter is None else self.shorter.within(ranges, rows.spread)
        space = Space.of(candidate.kernel, candidate.noise, rows, self.learn_noise, ranges=ranges)
        space = space.tied(*self.categories) if self.categories and candidate.tied else space
        limit = None if self.seconds is None else self.seconds - SCORES * self.scoring
        run = Run(space, space.vector(candidate.kernel, candidate.noise), limit, self.callback, self.began)
        run.trace, run.stages = self.trace, self.stages
        run.tolerance = run.tolerance if tolerance is None else tolerance
        try:
            for name, objective, iterations in make(run):
                run.minimise(f"{candidate.name}: {name}", objective, iterations)
                del objective  # it may have a copy of the rows, and so will the next one
            self.ended = run.ended
        except OutOfTime:
            self.ended = Ending.BUDGET
        except (Enough, KeyboardInterrupt):
            self.enter(self.reached(candidate, run, rows))
            raise
        return self.reached(candidate, run, rows)

    def reached(self, candidate: Candidate, run: Run, rows: Rows) -> Candidate:
        """Where a run is, with a price for each hyper-parameter (BIC), so that candidates compare."""
        kernel, noise, at_bounds = run.found()
        price = 0.5 * run.space.lower.size * float(np.log(rows.total)) / rows.total
        return replace(
            candidate,
            kernel=kernel,
            noise=noise,
            objective=float(run.objective + price),
            at_bounds=at_bounds,
            held=None,
            optimism=run.space.lower.size / rows.total,
        )

    def scored(self, candidate: Candidate, held: HeldOut | LeaveOut, share: float = SCORING) -> Candidate:
        """With predictions of held-out rows, unless they take more than a share of the time. A candidate that
        fails numerically has the worst ones."""
        if self.left <= 0 or (self.seconds is not None and self.scoring > share * self.seconds):
            return replace(candidate, held=None)
        began = time.perf_counter()
        try:
            found = held.scores(candidate.kernel, candidate.noise)
        except OutOfTime:
            return replace(candidate, held=None)
        except (np.linalg.LinAlgError, ArithmeticError):
            found = held.failed()
        finally:
            self.scoring = time.perf_counter() - began
        optimism = candidate.optimism if isinstance(held, LeaveOut) else 0.0
        return replace(candidate, held=found, optimism=optimism)

    def go_on(
        self, candidate: Candidate, held: HeldOut | LeaveOut, make: Stages, ranges: Ranges = RANGES
    ) -> Candidate:
        """The candidate after more stages; where held-out rows say that it was better before, as it was.
        Without time to ask them, the likelihood is believed."""
        more = self.scored(self.learned(candidate, self.rows, make, ranges=ranges), held)
        if more.held is not None and candidate.held is not None:
            more = chosen([more, replace(candidate, objective=more.objective)], errors=DOUBT)
        return self.enter(more if np.isfinite(more.objective) else candidate)

    @property
    def foremost(self) -> Candidate | None:
        """The best of those that there are, if there are any."""
        there = list(self.candidates.values())
        return chosen([one for one in there if one.held is not None] or there) if there else None

    def released(self, candidate: Candidate, held: HeldOut | LeaveOut, make: Stages) -> Candidate:
        """With a lengthscale for each column of a category, where held-out rows ask for it."""
        if self.categories is None or candidate.shares or candidate.held is None:
            return candidate
        more = self.learned(replace(candidate, tied=False), self.rows, make)
        return self.enter(chosen([candidate, self.scored(more, held)]))

    def result(self) -> Learned:
        """The chosen candidate; if there was no time to choose, the best of those that there are."""
        there = list(self.candidates.values())
        best = self.best or self.foremost or Candidate(FIRST, start_of(FIRST, self.d), self.noise)
        return Learned(
            wary_of_new_levels(best.kernel, self.rows.X),
            best.noise,
            best.objective,
            tuple(self.trace),
            tuple(self.stages),
            best.at_bounds,
            self.ended,
            considered(there, best),
        )
