"""Wide tables: one lengthscale shared by all features, and separate ones for the few that matter most.

One lengthscale for each of a thousand features cannot be learned from a thousand rows: the likelihood rises,
predictions get worse. So the kernel is learned as k(s) with

    s = |f - f'|^2 / L^2 + sum_c (f_c - f'_c)^2 / M_c^2,    f = x / the lengthscales given,

where the sum is over the chosen features only. The first distance never changes: it is computed once, by
direct differences, and then an evaluation costs no more for many features than for one. Both terms are
non-negative, so nothing cancels.

A feature is a candidate if the likelihood would rise most when the kernel is multiplied by 1 + e h(x_c)
h(x'_c), for h the feature, or a cosine of its ranks with up to two periods, standardised. It is kept if the
likelihood gains at least log d + log(n) / 2 nats: the price of choosing one of d (the extended BIC), so that
features are not chosen by chance. Features are tried in batches, and those of a batch that gain less by
themselves are left out again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.linalg.blas import dsymm
from scipy.spatial.distance import cdist

from itergp.data.rows import Rows
from itergp.learning.endings import Ending
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.exact import value_and_weights
from itergp.learning.parameters import RANGES, Evaluation, Objective, Space
from itergp.linalg.blas import dense_threads
from itergp.linalg.cholesky import with_jitter
from itergp.linalg.compute import require_bytes
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import origin
from itergp.prior.kernel import Kernel, Term
from itergp.prior.parameters import parameters, with_parameters
from itergp.prior.stationary import Stationary

if TYPE_CHECKING:
    from itergp.learning.run import Run, Stage

WIDE = 8  # up to this number of features each has its own lengthscale from the start, however few the rows
ROWS_PER_FEATURE = 20  # with more, each feature has its own lengthscale anyway
FEW_ROWS, SOME_ROWS, MOST_ROWS = 250, 1000, 2000  # numbers of rows on which they are learned, in turn
ROWS_PER_CHOSEN, MOST_CHOSEN = 10, 64
FIRST = 2  # candidates at once; doubled after each success
STRIP = 128  # rows of K at once, which fit in the cache
FEATURES = 512  # features scored between two ticks
HALF_PERIODS = (2, 3, 4)  # of the cosines of a feature that may matter
NOISY, NOTHING = 0.5, 5  # of the variance, and iterations, where features are chosen from nothing
TOLERANCE = 1e-5  # nats per observation: a thousandth of what a feature must gain
STEP = 3e-6  # in log s: its central differences have an error of about 1e-11 of k


def is_wide(kernel: Kernel, rows: Rows) -> bool:
    d = rows.X.shape[1]
    return d > WIDE and rows.n < ROWS_PER_FEATURE * d and _is_scaled_profile(kernel.terms())


def _is_scaled_profile(terms: list[Term]) -> bool:
    """Whether this is a single stationary kernel of all features, up to scales."""
    kernel = terms[0].kernel
    formulas = type(kernel).__call__, getattr(type(kernel), "features", None)
    return (
        len(terms) == 1
        and terms[0].columns is None
        and formulas == (Stationary.__call__, Stationary.features)
        and all(np.ndim(v) == 0 for name, v in parameters(kernel).items() if name != "lengthscale")
    )


@dataclass(frozen=True, eq=False)
class Shared:
    """The map between a kernel and its reduced form, with lengthscales L and one M per chosen feature."""

    given: Kernel
    features: int
    chosen: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        return f"{self.given.terms()[0].path}lengthscale"

    @property
    def unit(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(parameters(self.given)[self.path], dtype=np.float64), self.features)

    @property
    def chooses(self) -> bool:
        """Not if a single lengthscale was requested."""
        return np.ndim(parameters(self.given)[self.path]) > 0

    def reduced(self, kernel: Kernel, lengthscales: Any) -> Kernel:
        return with_parameters(kernel, {self.path: np.atleast_1d(lengthscales)})

    def expanded(self, reduced: Kernel) -> Kernel:
        L, *M = parameters(reduced)[self.path]
        if not self.chooses:
            return with_parameters(reduced, {self.path: float(L * self.unit[0])})
        weights = np.full(self.features, L**-2.0)
        weights[list(self.chosen)] += np.array(M) ** -2.0
        return with_parameters(reduced, {self.path: self.unit / np.sqrt(weights)})

    def also(self, kernel: Kernel, candidates: np.ndarray, spread: np.ndarray) -> tuple["Shared", Kernel]:
        """Choose more features, and a reduced kernel to start from: they matter at a few times their
        spread."""
        begin = 3.0 * (spread / self.unit)[candidates]
        lengthscales = np.concatenate([parameters(kernel)[self.path], begin])
        return replace(self, chosen=(*self.chosen, *map(int, candidates))), self.reduced(kernel, lengthscales)

    def space(self, kernel: Kernel, noise: Any, rows: Rows, learn_noise: bool) -> Space:
        relative = rows.spread / self.unit
        units = np.concatenate([[np.sqrt(self.features) * np.median(relative)], relative[list(self.chosen)]])
        return Space.of(kernel, noise, rows, learn_noise, {self.path: (units, RANGES.length, 1.0)})

    def name(self, of_reduced: str) -> str:
        """The name of a parameter of the reduced kernel in the full kernel."""
        path, _, index = of_reduced.rstrip("]").partition("[")
        return (
            f"{path}[{self.chosen[int(index) - 1]}]" if path == self.path and index and int(index) else path
        )


@dataclass(frozen=True, eq=False)
class SharedLikelihood:
    """The exact likelihood in terms of the reduced kernel and the noise. S's lower half is |f_i - f_j|^2."""

    shared: Shared
    rows: Rows
    S: np.ndarray
    tick: Tick = no_tick

    @staticmethod
    def of(shared: Shared, rows: Rows, tick: Tick = no_tick) -> "SharedLikelihood":
        require_bytes(
            4 * 8.0 * rows.n**2, f"The exact likelihood of {rows.n} rows", "Learn by another method."
        )
        F, S = (rows.X - origin(shared.given, rows.X)) / shared.unit, np.empty((rows.n, rows.n))
        for i in range(0, rows.n, STRIP):
            tick()
            S[i : i + STRIP, : i + STRIP] = cdist(F[i : i + STRIP], F[: i + STRIP], "sqeuclidean")
        return SharedLikelihood(shared, rows, S, tick)

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        return sound(kernel, lambda: self._evaluate(kernel, noise))

    def _strips(self, kernel: Kernel) -> Iterator[tuple[slice, slice, np.ndarray, list[np.ndarray]]]:
        """Rows, columns, s and the contribution of each chosen feature, for the lower half."""
        L, *M = parameters(kernel)[self.shared.path]
        chosen, X = list(self.shared.chosen), self.rows.X
        F = (X[:, chosen] - origin(kernel, self.rows.X)[chosen]) / (self.shared.unit[chosen] * np.array(M))
        for i in range(0, self.rows.n, STRIP):
            self.tick()
            here, before = slice(i, i + STRIP), slice(0, min(i + STRIP, self.rows.n))
            parts = [(f[here, None] - f[None, before]) ** 2 for f in F.T]
            yield here, before, sum(parts, self.S[here, before] / L**2), parts

    def _weighted(self, kernel: Kernel, noise: float) -> tuple[float, np.ndarray]:
        """The likelihood, and its gradient W in the covariances: its lower half."""
        [term] = kernel.terms()
        leaf: Any = term.kernel

        def matrix() -> np.ndarray:
            K = np.zeros((self.rows.n, self.rows.n), order="F")
            for here, before, s, _ in self._strips(kernel):
                K[here, before] = term.weight * leaf.profile(s)
            return K

        with dense_threads(self.rows.n):
            L, _ = with_jitter(matrix, self.rows.N(noise), term.weight, self.tick)
            return value_and_weights(self.rows, L, self.tick)

    def _evaluate(self, kernel: Kernel, noise: float) -> Evaluation:
        value, W = self._weighted(kernel, noise)
        [term], lengthscales = kernel.terms(), parameters(kernel)[self.shared.path]
        path, leaf, weight = term.path, cast(Any, term.kernel), term.weight
        others = [name for name in parameters(leaf) if name != "lengthscale"]
        total, in_distance, in_chosen, in_others = (
            0.0,
            0.0,
            np.zeros(lengthscales.size - 1),
            np.zeros(len(others)),
        )
        for here, before, s, parts in self._strips(kernel):
            w = weight * _both_halves(W[here, before], here.start)
            up, down = leaf.profile(np.exp(STEP) * s), leaf.profile(np.exp(-STEP) * s)
            slope = w * (up - down) / (2.0 * STEP)  # w s k'(s)
            total += 0.5 * float((w * (up + down)).sum())
            in_distance += float(slope.sum())
            slope /= np.maximum(s, 1e-300)
            in_chosen += [float((slope * part).sum()) for part in parts]
            in_others += [float((w * _differences(leaf, name, s)).sum()) for name in others]
        slopes: dict[str, Any] = {
            f"{path}{name}": slope for name, slope in zip(others, in_others, strict=True)
        }
        slopes |= {
            name: total / scale for name, scale in parameters(kernel).items() if not name.startswith(path)
        }
        slopes[self.shared.path] = -2.0 * np.array([in_distance - in_chosen.sum(), *in_chosen]) / lengthscales
        return per_observation(
            self.rows, noise, value, slopes, float((np.diag(W) / self.rows.precision).sum())
        )

    def gains(self, kernel: Kernel, noise: float) -> np.ndarray:
        """For each feature, the slope of the likelihood in e when k is multiplied by 1 + e h(x_c) h(x'_c)."""
        from scipy.stats import rankdata  # which takes a fifth of a second to import

        _, W = self._weighted(kernel, noise)
        leaf: Any = kernel.terms()[0].kernel
        for here, before, s, _ in self._strips(kernel):
            W[here, before] *= leaf.profile(s)
        gains = []
        for start in range(0, self.rows.X.shape[1], FEATURES):
            self.tick()
            x = self.rows.X[:, start : start + FEATURES]
            ranks = rankdata(x, axis=0) / self.rows.n  # outliers cannot dominate, whatever the distribution
            waves = (np.cos(np.pi * halves * ranks) for halves in HALF_PERIODS)
            functions = map(_standardised, (x, *waves))
            gains.append([-(H * dsymm(1.0, W, H, lower=1)).sum(axis=0) for H in functions])
        return np.concatenate([np.max(some, axis=0) for some in gains])


def _both_halves(W: np.ndarray, first: int) -> np.ndarray:
    """Weights of a strip of the lower half that also account for the upper half."""
    w = 2.0 * np.tril(W, first)
    w[np.arange(len(w)), first + np.arange(len(w))] *= 0.5
    return w


def _differences(leaf: Any, name: str, s: np.ndarray) -> np.ndarray:
    """The profile's derivative in another of its parameters."""
    value = float(getattr(leaf, name))
    up, down = (replace(leaf, **{name: value * (1.0 + sign * STEP)}).profile(s) for sign in (1.0, -1.0))
    return (up - down) / (2.0 * STEP * value)


def _standardised(h: np.ndarray) -> np.ndarray:
    h = h - h.mean(axis=0)
    return h / np.maximum(h.std(axis=0), 1e-12)


def stages(rows: Rows, run: "Run", seed: int, most: int, choose: bool = True) -> Iterator["Stage"]:
    """The stages for a wide table: on some rows, where features are chosen, then on `most`; within a time
    limit on a few rows first. Without `choose`, the ratios between lengthscales stay as they are."""
    kernel, noise = run.space.values(run.theta)
    shared = Shared(kernel, rows.X.shape[1])
    run.reduce(shared, shared.reduced(kernel, 1.0), noise, rows)
    run.tolerance = TOLERANCE
    limits = (SOME_ROWS, most) if run.seconds is None else (FEW_ROWS, SOME_ROWS, most)
    for size in sorted({min(size, rows.n) for size in limits}):
        some = rows.some(np.random.default_rng([seed, rows.n]).permutation(rows.n)[:size])
        likelihood = SharedLikelihood.of(shared, some, run.tick)
        yield f"{_named(run)}, {size} rows", _objective(likelihood, run), 15 if size > SOME_ROWS else 30
        if choose and shared.chooses and size == min(SOME_ROWS, rows.n):
            yield from _choosing(likelihood, run, rows)
            yield from _alone(likelihood, run, rows)
            if run.ended is Ending.LIMIT:
                yield f"{_named(run)}, {size} rows", _objective(likelihood, run), 15


def _named(run: "Run") -> str:
    apart = len(run.shared.chosen) if run.shared else 0
    return f"shared lengthscale, {apart} features apart" if apart else "shared lengthscale"


def _objective(likelihood: SharedLikelihood, run: "Run") -> Objective:
    """For the features chosen so far."""
    shared = run.shared or likelihood.shared
    return run.summed(likelihood.rows, lambda rows: replace(likelihood, shared=shared, rows=rows))


def _price(likelihood: SharedLikelihood) -> float:
    """What a feature must gain, in nats per observation: that of choosing one of d (the extended BIC)."""
    some = likelihood.rows
    return float(np.log(some.X.shape[1]) + 0.5 * np.log(some.n)) / some.total


def _alone(likelihood: SharedLikelihood, run: "Run", rows: Rows) -> Iterator["Stage"]:
    """Features chosen once more, from nothing: a constant, and all else noise.

    Where few features matter, the distance of all of them tells which rows are alike by chance, and a short
    lengthscale makes noise of every row: no feature can improve on that. Kept if it is worth more.
    """
    (_, noise), shared = run.space.values(run.theta), replace(likelihood.shared, chosen=())
    begin = shared.reduced(run.kernel, RANGES.length[1])
    run.attempt(shared, begin, np.maximum(noise, NOISY * rows.variance), rows, _price(likelihood))
    yield f"{_named(run)}, from nothing", _objective(likelihood, run), NOTHING
    yield from _choosing(likelihood, run, rows)
    run.settle()


def _choosing(likelihood: SharedLikelihood, run: "Run", rows: Rows) -> Iterator["Stage"]:
    """Add features for as long as they pay off, then leave out those that do not: they come in batches."""
    n, price = likelihood.rows.n, _price(likelihood)
    room = min(MOST_CHOSEN, n // ROWS_PER_CHOSEN)
    batch, gains, spread = FIRST, None, rows.spread
    while batch and run.shared and len(run.shared.chosen) + batch <= room:
        kernel, noise = run.space.values(run.theta)
        if gains is None:
            gains = replace(likelihood, shared=run.shared).gains(kernel, float(np.mean(noise)))
            gains[list(run.shared.chosen)] = -np.inf
        candidates = np.argsort(-gains, kind="stable")[:batch]
        shared, begin = run.shared.also(kernel, candidates, spread)
        run.attempt(shared, begin, noise, rows, price)
        yield f"{_named(run)}, {n} rows", _objective(likelihood, run), 15
        if run.settle():
            batch, gains = 2 * batch, None
            if run.ended is Ending.LIMIT:  # or the next features would be paid by what these have yet to gain
                yield f"{_named(run)}, {n} rows", _objective(likelihood, run), 60
        else:
            batch //= 4
    yield from _without_idle(likelihood, run, rows)


def _without_idle(likelihood: SharedLikelihood, run: "Run", rows: Rows) -> Iterator["Stage"]:
    """Leave out chosen features that are worth less than their price as all else stays."""
    if run.shared is None or len(run.shared.chosen) < 2:
        return
    (kernel, noise), price = run.space.values(run.theta), _price(likelihood)
    L, *M = parameters(kernel)[run.shared.path]

    def left(keep: np.ndarray) -> tuple[Shared, Kernel]:
        shared = replace(likelihood.shared, chosen=tuple(np.array(chosen)[keep].tolist()))
        return shared, shared.reduced(kernel, [L, *np.array(M)[keep]])

    def worth(c: int) -> float:
        shared, fewer = left(np.arange(len(M)) != c)
        objective = run.summed(likelihood.rows, lambda of: replace(likelihood, shared=shared, rows=of))
        return objective(fewer, noise).value - now

    chosen, now = run.shared.chosen, _objective(likelihood, run)(kernel, noise).value
    keep = np.array([worth(c) > price for c in range(len(M))])
    if not keep.all():
        run.attempt(*left(keep), noise, rows, price)
        yield f"{_named(run)}, {likelihood.rows.n} rows", _objective(likelihood, run), 15
        run.settle()
