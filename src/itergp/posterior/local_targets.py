"""Several targets with actions near the points asked about: of each point, or shared by all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.posterior.around import JointPosterior
from itergp.posterior.at import LocalAt
from itergp.posterior.beside import TargetSamples, beside, draws, each_field, pulled_each
from itergp.posterior.gradients import Gradients
from itergp.posterior.joint import covariance
from itergp.posterior.local import LocalPosterior
from itergp.posterior.spread import marginals
from itergp.posterior.uncertainty import Certificate, Decomposition

if TYPE_CHECKING:
    from itergp.posterior.targets import TargetPosterior, TargetsAt


@dataclass(frozen=True, eq=False)
class LocalTargets:
    """Local actions for each target: `mean` and `var` are (m, t), `cov` is (m, m, t). The nearest rows are
    shared; of these, each target has those that say most given its noise."""

    posterior: "TargetPosterior"
    neighbours: int

    def __repr__(self) -> str:
        each = brief.counted(self.neighbours, "neighbour")
        return f"LocalTargets: {each} of each point as its own actions, in addition to\n{self.posterior!r}"

    def at(self, X: ArrayLike) -> "LocalTargetsAt":
        return LocalTargetsAt(self.posterior.at(X), self.neighbours)

    def mean(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).mean

    def var(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).var

    def marginals(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = marginals(self, self.posterior.shared._inputs(X))
        assert variance is not None
        return mean, variance

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        return self.var(X) + self.posterior.noise_at(noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        X0 = self.posterior.shared._inputs(X0, "X0")
        if X1 is None:
            return beside([covariance(at) for at in self.at(X0).each()])
        both = zip(self.at(X0).each(), self.at(self.posterior.shared._inputs(X1, "X1")).each(), strict=True)
        return beside([covariance(at0, at1) for at0, at1 in both])

    def gradients(self, X: ArrayLike) -> Gradients:
        """The gradients of `mean` and `var` in the inputs, at each point: (m, d, t)."""
        return each_field([one.gradients(X) for one in self.each])

    def pullback(
        self, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> np.ndarray:
        """See `Posterior.pullback`; the slopes `cov` have one more axis, for the targets."""
        return pulled_each(self.each, X, mean, cov)

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent functions at X: (size, m, t)."""
        return draws(self.each, X, size, seed)

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> TargetSamples:
        return TargetSamples.of(self.each, size, seed, features)

    @property
    def each(self) -> tuple[LocalPosterior, ...]:
        """One process per target."""
        return tuple(one.local(self.neighbours) for one in self.posterior.each)

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> Decomposition:
        return each_field([at.decompose(method, passes) for at in self.at(X).each()])

    def certify(self, X: ArrayLike) -> Certificate:
        return each_field([at.certify() for at in self.at(X).each()])


@dataclass(frozen=True, eq=False)
class LocalTargetsAt:
    """Local actions for each target at the points of `at`."""

    at: "TargetsAt"
    neighbours: int

    __repr__ = brief.call

    @cached_property
    def _near(self) -> np.ndarray:
        return self.at.posterior.shared.at(self.at.X).local(self.neighbours).near

    def each(self) -> Iterator[LocalAt]:
        return (at.local(self.neighbours).knowing(near=self._near) for at in self.at.each())

    @cached_property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        means, variances = zip(*(at.marginals for at in self.each()), strict=True)
        return beside(means), beside(variances)

    @property
    def mean(self) -> np.ndarray:
        return self.marginals[0]

    @property
    def var(self) -> np.ndarray:
        return self.marginals[1]


@dataclass(frozen=True, eq=False)
class JointTargets:
    """Shared actions around some points for each target: `mean` and `var` are (m, t), `cov` is (m, m, t)."""

    posterior: "TargetPosterior"
    each: tuple[JointPosterior, ...]

    __repr__ = brief.call

    @property
    def left_out(self) -> int:
        """Rows that would be shared without the limit, of the target with most of them."""
        return max(one.left_out for one in self.each)

    def mean(self, X: ArrayLike) -> np.ndarray:
        return beside([one.mean(X) for one in self.each])

    def var(self, X: ArrayLike) -> np.ndarray:
        return beside([one.var(X) for one in self.each])

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        return self.var(X) + self.posterior.noise_at(noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        return beside([one.cov(X0, X1) for one in self.each])

    def gradients(self, X: ArrayLike) -> Gradients:
        """The gradients of `mean` and `var` in the inputs, at each point: (m, d, t)."""
        return each_field([one.gradients(X) for one in self.each])

    def pullback(
        self, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> np.ndarray:
        """See `Posterior.pullback`; the slopes `cov` have one more axis, for the targets."""
        return pulled_each(self.each, X, mean, cov)

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent functions at X: (size, m, t)."""
        return draws(self.each, X, size, seed)

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> TargetSamples:
        return TargetSamples.of(self.each, size, seed, features)
