"""Candidates for the model: smoothness, one lengthscale or one per feature, with or without a linear part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp import brief
from itergp.learning.heldout import SURE, WORST, Scores
from itergp.prior.kernel import Kernel
from itergp.prior.linear import Linear
from itergp.prior.parameters import parameters, with_parameters
from itergp.prior.stationary import RBF, Matern12, Matern32, Matern52, RationalQuadratic

# By name, from rough to smooth; the rational quadratic is a mixture of smooth kernels of many lengthscales.
PROFILES: dict[str, type[Any]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rbf": RBF,
    "rational-quadratic": RationalQuadratic,
}
FIRST = "matern32"  # learned first; then each of the others from the point of one that is near
AFTER = {"matern12": FIRST, "matern52": FIRST, "rbf": "matern52", "rational-quadratic": "matern52"}
ONE, LINEAR = ", one lengthscale", " + linear"  # after the name of the smoothness
LENGTHS = (0.3, 1.0, 3.0)  # where a shared lengthscale starts, in units of the distance between two rows
# when a smoothness takes over from another: factors on its lengthscales, and on a noise that may be too small
FACTORS, NOISIER = (0.25, 0.5, 1.0, 2.0, 4.0), (1.0, 100.0)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model and the point that learning has reached, with what speaks for it."""

    name: str
    kernel: Kernel
    noise: Any
    objective: float = np.inf  # nats per observation on the rows that it was learned on; lower is better
    held: Scores | None = None  # on held-out rows
    at_bounds: tuple[str, ...] = ()  # parameters at the end of their range
    tied: bool = True  # the columns of a category share a lengthscale
    # hyper-parameters per observation, if they were learned on the very rows that are left out: about by how
    # much their mean log density is too high
    optimism: float = 0.0

    @property
    def profile(self) -> str:
        """The name of its smoothness."""
        return self.curved.removesuffix(ONE)

    @property
    def curved(self) -> str:
        """The name without a linear part."""
        return self.name.removesuffix(LINEAR)

    @property
    def shares(self) -> bool:
        """Whether all features share one lengthscale."""
        return self.curved.endswith(ONE)

    @property
    def score(self) -> float:
        """Mean log density of held-out rows; higher is better."""
        return -np.inf if self.held is None else float(self.held.densities.mean()) - self.optimism


def one_lengthscale(name: str, d: int, factor: float = 1.0) -> Kernel:
    """Standardised rows lie about sqrt(2 d) apart."""
    return 1.0 * PROFILES[name](lengthscale=factor * d**0.5)


def start_of(name: str, d: int) -> Kernel:
    """The kernel of a candidate, with lengthscales to start from."""
    if name.endswith(LINEAR):
        return with_linear(start_of(name.removesuffix(LINEAR), d))
    kernel = one_lengthscale(name.removesuffix(ONE), d)
    return kernel if name.endswith(ONE) else each_its_own(kernel, d)


def with_linear(kernel: Kernel) -> Kernel:
    """A linear part that begins with a tenth of the variance."""
    return kernel + 0.1 * Linear(1.0)


def names() -> tuple[str, ...]:
    return tuple(
        profile + shared + linear for profile in PROFILES for shared in ("", ONE) for linear in ("", LINEAR)
    )


def each_its_own(kernel: Kernel, d: int) -> Kernel:
    """The same kernel with one lengthscale for each of d features."""
    path = _lengthscale(kernel)
    return with_parameters(kernel, {path: np.full(d, parameters(kernel)[path])})


def with_one(kernel: Kernel) -> Kernel:
    """The same kernel with one lengthscale for all features: their geometric mean."""
    path = _lengthscale(kernel)
    return with_parameters(kernel, {path: float(np.exp(np.log(parameters(kernel)[path]).mean()))})


def smoothed(kernel: Kernel, name: str, factor: float = 1.0) -> Kernel:
    """The same scale and lengthscales (times a factor) with another smoothness."""
    found = parameters(kernel)
    return found["scale"] * PROFILES[name](lengthscale=factor * found[_lengthscale(kernel)])


def _lengthscale(kernel: Kernel) -> str:
    return f"{kernel.terms()[0].path}lengthscale"


def wary_of_new_levels(kernel: Kernel, X: np.ndarray) -> Kernel:
    """A column that is constant has no say in learning. Beside columns with two values it may be a level of a
    category that nobody has seen: then as far from the others as the level that matters most."""
    low, high = X.min(axis=0), X.max(axis=0)
    constant = low == high
    two_values = ~constant & ((low == X) | (high == X)).all(axis=0) if constant.any() else constant
    if not two_values.any():
        return kernel
    changes = {}
    for path in (f"{term.path}lengthscale" for term in kernel.terms()):
        lengthscale = np.broadcast_to(parameters(kernel)[path], low.shape).astype(np.float64)
        nearest = (lengthscale[two_values] / (high - low)[two_values]).min()
        changes[path] = np.where(constant, np.minimum(lengthscale, nearest), lengthscale)
    return with_parameters(kernel, changes)


def rescaled(candidate: Candidate, factor: float) -> Candidate:
    """The same means, with variances that are larger by a factor."""
    found = parameters(candidate.kernel)
    scales = {path: factor * value for path, value in found.items() if path.split(".")[-1] == "scale"}
    held = None if candidate.held is None else candidate.held.rescaled(factor)
    kernel = with_parameters(candidate.kernel, scales)
    return replace(candidate, kernel=kernel, noise=factor * candidate.noise, held=held)


def chosen(candidates: Sequence[Candidate], errors: float = SURE) -> Candidate:
    """The best on held-out rows; among those within some standard errors of it, the best by its objective.

    By the objective alone, if not all of them have predicted these rows. A linear part has to have the better
    objective as well: far from most rows a line can be far off, with a variance as large, and the few
    held-out rows there hardly tell.
    """
    if any(one.held is None for one in candidates):
        return min(candidates, key=lambda one: one.objective)
    found = {one.name: one.objective for one in candidates}
    candidates = [one for one in candidates if one.objective <= found.get(one.curved, np.inf)]
    best = max(candidates, key=lambda one: one.score)
    tied = [one for one in candidates if _tied(one, best, errors)]
    return min(tied, key=lambda one: one.objective)


def _tied(one: Candidate, best: Candidate, errors: float) -> bool:
    """Whether the mean difference is within so many of its standard errors."""
    assert one.held is not None
    assert best.held is not None
    less = best.held.densities - one.held.densities
    return best.score - one.score <= errors * best.held.error(less)


@dataclass(frozen=True)
class Considered:
    """A candidate as it is reported."""

    name: str
    objective: float | None  # nats per observation, with a price for each hyper-parameter; lower is better
    score: float | None  # mean log density of a held-out row; None where it was not among the best few
    error: float | None  # standard error of its difference to that of the chosen one
    coverage: float | None  # of 95 % intervals on held-out rows
    chosen: bool

    __repr__ = brief.call


def considered(candidates: Sequence[Candidate], best: Candidate) -> tuple[Considered, ...]:
    """All candidates, the best first."""

    def one(candidate: Candidate) -> Considered:
        mine, its, chosen = candidate.held, best.held, candidate.name == best.name
        objective = candidate.objective if np.isfinite(candidate.objective) else None
        if mine is None or candidate.score < WORST / 2:
            return Considered(candidate.name, objective, None, None, None, chosen)
        error = None if its is None else mine.error(mine.densities - its.densities)
        error = None if error is not None and np.isinf(error) else error  # all rows are of one group
        return Considered(candidate.name, objective, candidate.score, error, mine.coverage, chosen)

    def rank(of: Candidate) -> tuple[bool, bool, float, float]:
        return of.name != best.name, of.held is None, -of.score, of.objective

    return tuple(map(one, sorted(candidates, key=rank)))
