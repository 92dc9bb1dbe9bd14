"""The model chosen by the data: candidates are learned on a few rows, the best go on to more, and held-out
rows, predicted as `predict` will, choose between them.

A stage of learning is a candidate too: what makes held-out predictions worse is dropped, whatever its
objective says. So a bad optimum, too few neighbours or a noise that collapsed cost time, not the answer.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from itergp.data.rows import Rows
from itergp.learning.candidates import FIRST, ONE, Candidate, chosen, each_its_own, rescaled, start_of
from itergp.learning.endings import Ending
from itergp.learning.evaluation import summed
from itergp.learning.heldout import HeldOut, LeaveOut
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import NOISE_FREE
from itergp.learning.run import Learned, OutOfTime, Record, Run, Stage, ending
from itergp.learning.screening import ITERATIONS, a_few, exactly, near_each_other, screen
from itergp.learning.search import SCORING, Search, Stages
from itergp.learning.shorter import GAIN, Shorter, shorter
from itergp.learning.stages import NEIGHBOURS, Neighbours, a_sample, stages
from itergp.learning.wide import MOST_ROWS, is_wide, stages as wide_stages
from itergp.limits import EXACT_LIKELIHOOD_ROWS
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import Compute
from itergp.linalg.libraries import require_working_room

PROBED, MOST_NEIGHBOURS = 300, 120  # rows and neighbours, to see how many neighbours it takes
ASKED = 1000  # rows that say whether shorter lengthscales are more likely
AGREEING = 20_000  # rows that have to agree that there is no noise
SETTLED = 0.02  # nats per observation that more neighbours may change
SHORT = 30.0  # seconds: below, fewer rows are held out
# other smoothnesses that go on to more rows: within so many nats per observation of the best, at most so many
CLOSE, OTHERS = 0.1, 2
MOST_SPENT, FEWEST_DEGREES = 0.75, 3.0  # of freedom
LAST_WORD = 0.25  # of the time, at most, that held-out rows take beyond it
RESERVED = 0.05  # of the time, to predict held-out rows once if there is no time to choose
LAST_EXACT = 3000  # rows: up to here what is left of the time goes to the exact likelihood of all of them
LATER = 0.6  # of the time, that the last stage should have
AGAIN = 1.5  # times the seconds of the last stage, that the same for another candidate may take


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
    rows, groups = a_sample(rows, seed, groups)
    search = Search(rows, noise, learn_noise, groups, seconds, seed, callback, compute)
    with ending(search), blas_threads(compute.threads):
        try:
            _choose(search, method)
        except OutOfTime:
            search.ended = Ending.BUDGET
        if method == "auto":
            _last_word(search)
    return search.result()


def _choose(search: Search, method: str) -> None:
    rows, quick = search.rows, search.seconds is not None and search.seconds < SHORT
    small = method != "auto" or rows.n <= EXACT_LIKELIHOOD_ROWS
    began = time.perf_counter()
    held = None if small else HeldOut.split(rows, search.groups, search.seed, search.compute, quick)
    held = None if held is None else replace(held, tick=search.tick)
    search.held = held or LeaveOut(rows, search.groups, search.compute, search.tick)
    known = rows if held is None else held.known
    search.scoring = time.perf_counter() - began  # of many rows, to predict some takes about as long
    few = a_few(search, known)
    if few is None:
        search.shorter = _elsewhere(search, known)
        del known
        return _first_alone(search, method, held)
    screen(search, few)
    few = _once_more(search, known, few)
    del known
    if method != "auto":
        _by(search, method, few)
    elif held is None:
        _small(search, few)
    else:
        _large(search, held)


def _elsewhere(search: Search, rows: Rows) -> Shorter | None:
    """Shorter lengthscales to start from."""
    kernel = start_of(FIRST, search.d)
    noise = None if search.learn_noise else float(np.mean(search.noise)) / rows.variance
    return shorter(kernel, rows, noise, search.seed, search.seconds, search.compute)


def _once_more(search: Search, rows: Rows, few: Rows) -> Rows:
    """All candidates from shorter lengthscales, if these rows are more likely there, as they are, than where
    any candidate has led. Returns the few rows on which the candidates were learned last."""
    search.shorter = _elsewhere(search, rows)
    if search.shorter is None:
        return few
    best = min(search.candidates.values(), key=lambda one: one.objective)
    now, there = (
        _likelihood(search, one, rows, NEIGHBOURS, ASKED) for one in (best, search.elsewhere(FIRST))
    )
    if now <= there + GAIN:
        search.shorter = None
        return few
    search.candidates.clear()
    few = near_each_other(search, rows, few)
    screen(search, few)
    return few


def _first_alone(search: Search, method: str, held: HeldOut | None) -> None:
    """No time to choose: one smoothness, learned as if it had been asked for. Held-out rows may still say
    that a stage made it worse, or that its intervals are too narrow."""
    assert search.seconds is not None
    search.scoring = min(max(search.scoring, RESERVED * search.seconds), SCORING * search.seconds)
    start = Candidate(FIRST, start_of(FIRST, search.d), search.noise)
    if search.shorter is not None:
        start = search.elsewhere(FIRST)
    if held is not None and not is_wide(start.kernel, search.rows):
        first = search.enter(search.scored(search.learned(start, search.rows, _first(search)), held))
        search.best = search.go_on(first, held, _all_rows(search, NEIGHBOURS))
    else:
        search.best = search.enter(search.learned(start, search.rows, _named(search, method)))


def _small(search: Search, few: Rows) -> None:
    """Up to a thousand rows: by the exact likelihood, and by rows left out in turn."""
    rows, held = search.rows, search.held
    assert held is not None
    found = list(search.candidates.values())
    if few.n < rows.n:
        found = [search.enter(search.learned(one, rows, exactly(search, rows))) for one in _finalists(search)]
    search.best = best = chosen([search.enter(search.scored(one, held)) for one in found])
    search.best = search.released(best, held, exactly(search, rows))
    _without_noise(search, held, [exactly(search, rows)])


def _large(search: Search, held: HeldOut) -> None:
    """Beyond: by the likelihood of rows given their neighbours, and by held-out rows."""
    rows, finalists = search.rows, _finalists(search)
    if search.d > 1 and is_wide(search.candidates[FIRST].kernel, rows):
        search.best = best = chosen([search.enter(search.scored(one, held)) for one in finalists])
        last = _wide(search)
    else:
        search.best = best = _by_a_batch(search, held, finalists)
        last = _all_rows(search, _enough(search, best, held.known))
    began = time.perf_counter()
    search.best = search.go_on(best, held, last)
    taken = time.perf_counter() - began
    if search.seconds is not None and rows.n <= LAST_EXACT:
        search.best = search.go_on(search.best, held, exactly(search, rows, ITERATIONS))
    _without_noise(search, held, [_batch(search, held), _batch(search, held, MOST_NEIGHBOURS)])
    if search.seconds is not None:
        _others(search, held, last, taken, finalists)


def _others(search: Search, held: HeldOut, last: Stages, taken: float, finalists: list[Candidate]) -> None:
    """What is left of the time: the last stage for other candidates too, those that had a batch first."""
    best = search.best
    assert best is not None
    others = [search.candidates[one.name] for one in finalists if one.name != best.name]
    for one in sorted(others, key=lambda one: -one.score):
        if search.left < AGAIN * taken:
            return
        if one.held is None:
            one = search.go_on(search.scored(one, held), held, _batch(search, held))
        one = search.go_on(one, held, last)
        if one.held is not None:  # there was time to compare them
            search.best = best = chosen([best, one])


def _by(search: Search, method: str, few: Rows) -> None:
    """Chosen on a few rows, then learned by the method of that name."""
    held = LeaveOut(few, None, search.compute, search.tick)
    found = [search.enter(search.scored(one, held)) for one in list(search.candidates.values())]
    search.best = best = chosen(found)
    last = search.learned(best, search.rows, _named(search, method))
    search.best = search.enter(replace(last, held=best.held))


def _finalists(search: Search) -> list[Candidate]:
    """The best one, the best of other smoothnesses, and the best of the other kind: with one lengthscale, or
    one for each feature. A few rows may mislead about any of these."""
    best, *others = sorted(search.candidates.values(), key=lambda one: one.objective)
    by_profile = {one.profile: one for one in reversed(others) if one.profile != best.profile}
    ranked = sorted(by_profile.values(), key=lambda one: one.objective)
    close = [one for i, one in enumerate(ranked) if not i or one.objective < best.objective + CLOSE]
    apart = [one for one in others if one.shares != best.shares and one not in close][:1]
    return [best, *close[:1], *apart, *close[1:OTHERS]]


def _by_a_batch(search: Search, held: HeldOut, finalists: list[Candidate]) -> Candidate:
    """The best of a few candidates after a batch, while there is time for more than one."""

    def hurried() -> bool:
        return search.seconds is not None and search.left < LATER * search.seconds

    found: list[Candidate] = []
    for one in finalists:
        if found and hurried():
            break
        # with a clock, only the first is asked how it was before: the others are compared with it after
        before = one if found and search.seconds is not None else search.scored(one, held)
        found.append(search.go_on(before, held, _batch(search, held)))
    best = chosen(found)
    if best.shares and search.d > 1 and not hurried():
        more = search.go_on(_apart(best, search.d), held, _batch(search, held))
        best = search.enter(chosen([best, more]))
    return best


def _apart(candidate: Candidate, d: int) -> Candidate:
    """With a lengthscale for each feature, from the one for all: those of a few rows can be so far off that a
    batch leads to a worse optimum than with one lengthscale."""
    return replace(candidate, name=candidate.name.replace(ONE, ""), kernel=each_its_own(candidate.kernel, d))


def _without_noise(search: Search, held: HeldOut | LeaveOut, makes: list[Stages]) -> None:
    """Where the noise has reached the end of its range there may be none: wider ranges, in which another
    smoothness may be the best. A batch does not see the few rows that are far off, and without noise these
    spoil what is predicted elsewhere: so many more rows have to agree, if need be with larger variances."""
    scored = sorted((one for one in search.candidates.values() if one.held), key=lambda one: -one.score)
    for before in scored[:2] if search.learn_noise else ():
        if any(name.startswith("noise") for name in before.at_bounds):
            one = before
            for make in makes:
                one = search.go_on(one, held, make, NOISE_FREE)
            if isinstance(held, HeldOut):
                one = search.enter(_agreed(search, one, before))
            search.best = one if search.best is None else chosen([search.best, one])


def _agreed(search: Search, one: Candidate, before: Candidate) -> Candidate:
    """The first of these that the likelihood of many rows, or of all, does not find worse than `before`: one;
    one with the variances that these rows ask for; and `before`."""

    def of(candidate: Candidate) -> float:  # minus the logarithm, per observation
        return _likelihood(search, candidate, search.rows, NEIGHBOURS, AGREEING)

    least, now = of(before), of(one)
    if now <= least:
        return one
    # with c times the variances it is now + (log c - (1 - 1 / c) s) / 2, where s is the mean squared error in
    # units of its variance; that is least where c is s
    square = max(1.0, (math.log(4.0) - 2.0 * (of(rescaled(one, 4.0)) - now)) / 0.75)
    wider = now + 0.5 * (math.log(square) + 1.0 - square)
    return rescaled(one, square) if wider <= least else before


def _last_word(search: Search) -> None:
    """Held-out rows say whether intervals are too narrow. Where the clock has left them no time they have
    some that inference would have had: what inference does not know is in its variances, a noise that is too
    small is in none."""
    best = search.best or search.foremost
    if best is not None and best.held is None and search.held is not None:
        if search.seconds is not None:
            search.seconds += max(0.0, -search.left) + LAST_WORD * search.seconds
        best = search.enter(search.scored(best, search.held, LAST_WORD))
    search.best = best
    _rescale(search)


def _rescale(search: Search) -> None:
    """Scale and noise by one factor, where held-out errors say that all variances are off by it; or by what
    is not known of them, where hyper-parameters are learned from few rows."""
    best = search.best
    if best is not None and best.held is not None and search.learn_noise:
        search.best = search.enter(rescaled(best, max(best.held.factor, _allowance(best, search.rows))))


def _allowance(best: Candidate, rows: Rows) -> float:
    """By what variances that were learned from all rows fall short: errors have the degrees of freedom that
    the hyper-parameters and the mean leave, and 95 % intervals those of Student's distribution."""
    if not best.optimism:
        return 1.0
    spent = min(best.optimism + 1.0 / rows.total, MOST_SPENT)
    degrees = max(FEWEST_DEGREES, (1.0 - spent) * rows.total)
    return float(stdtrit(degrees, 0.975) / ndtri(0.975)) ** 2 / (1.0 - spent)


def _enough(search: Search, best: Candidate, rows: Rows) -> int:
    """As many neighbours as it takes: until twice as many change the likelihood of some rows no more."""
    m = NEIGHBOURS
    now = _likelihood(search, best, rows, m, PROBED)
    while m < MOST_NEIGHBOURS and 2 * m < rows.n:
        before, now = now, _likelihood(search, best, rows, 2 * m, PROBED)
        if abs(now - before) < SETTLED:
            break
        m *= 2
    return m


def _likelihood(search: Search, candidate: Candidate, rows: Rows, m: int, batch: int) -> float:
    """Minus the logarithm of that of a batch given m neighbours each, per observation."""
    kernel, noise = candidate.kernel, candidate.noise
    found = NeighbourLikelihood.at(kernel, rows, m, batch, search.seed, search.compute, search.tick)
    return summed(found.rows, noise, lambda of: replace(found, rows=of))(kernel, noise).value


def _batch(search: Search, held: HeldOut, m: int = NEIGHBOURS) -> Stages:
    return lambda run: Neighbours(held.known, run, search.seed, search.compute, m).batch()


def _first(search: Search) -> Stages:
    """Small batches, from values that nothing is known of yet."""

    def make(run: Run) -> Iterator[Stage]:
        steps = Neighbours(search.rows, run, search.seed, search.compute)
        yield from steps.first()
        yield from steps.batch()

    return make


def _all_rows(search: Search, m: int) -> Stages:
    return lambda run: Neighbours(search.rows, run, search.seed, search.compute, m).all_rows()


def _wide(search: Search) -> Stages:
    return lambda run: wide_stages(search.rows, run, search.seed, MOST_ROWS)


def _named(search: Search, method: str) -> Stages:
    return lambda run: stages(method, search.rows, run, search.seed, search.compute)
