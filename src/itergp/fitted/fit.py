"""What a fit found, as one value: the estimator's attributes are views of it; files, reports, the notebook
card and the command line read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from itergp import brief
from itergp.data.donors import Donors
from itergp.data.rows import Rows
from itergp.fitted.first_rows import FirstRows
from itergp.fitted.observed import Observed
from itergp.fitted.units import Scaling
from itergp.learning.candidates import Considered
from itergp.learning.endings import Learning
from itergp.learning.varying import NoiseFunction
from itergp.posterior.combined import Posterior
from itergp.posterior.local import NEIGHBOURS, LocalPosterior
from itergp.posterior.local_targets import LocalTargets
from itergp.posterior.targets import TargetPosterior
from itergp.prior.kernel import Kernel
from itergp.prior.means import ConstantMean, Zero
from itergp.solver.state import Status, Step
from itergp.validate import Array, count

if TYPE_CHECKING:
    from itergp.fitted.calibration import Calibration
    from itergp.learning import Record

Noise: TypeAlias = float | Array  # a variance, or one for each target
Process: TypeAlias = Posterior | TargetPosterior | LocalPosterior | LocalTargets


@dataclass(frozen=True)
class Trace:
    """What a fit did: the records of the learning, the steps of the solver, from which action it resumed,
    the most memory that the process had held by the end of the last call (None for a model from a file),
    and the candidates among which the kernel was chosen, the chosen one first."""

    learning: tuple["Record", ...] = ()
    steps: tuple[Step, ...] = ()
    resumed_from: int = 0
    peak_bytes: int | None = None
    candidates: tuple[Considered, ...] = ()

    __repr__ = brief.call


@dataclass(frozen=True)
class Free:
    """What the fit was allowed to learn. The kernel is learned as a whole or not at all."""

    kernel: bool
    noise: bool


@dataclass(frozen=True, eq=False)
class Fit:
    """A posterior of scaled data, with all that leads back to the data and says how it was found."""

    posterior: Posterior | TargetPosterior
    noise: Noise  # in scaled units, as learned or given
    scaling: Scaling
    counts: Array  # how many rows of the data each row of the problem stands for
    scatter: Noise  # their sum of squares around these rows
    learning: Learning
    free: Free
    asked: Mapping[str, Any]  # the parameters of the estimator
    names: tuple[str, ...] | None = None  # of the features, where the data had names
    first_rows: FirstRows | None = None
    trace: Trace = Trace()
    timings: dict[str, float] = field(default_factory=dict)  # seconds of each part, and in total
    weights: Array | None = None  # of the rows of the problem, whose noise is noise / weight; None: counts
    noise_function: NoiseFunction | None = (
        None  # by what factor noise differs between inputs; None: it is constant
    )
    observed: Observed | None = None  # what holding out rows needs; None: the file does not say
    calibration: "Calibration | None" = None  # once it was asked for
    donors: Donors | None = None  # for inputs that may be missing, in models of tables

    __repr__ = brief.call

    # What was fitted.

    @property
    def flat(self) -> bool:
        """Whether the prior mean is a constant, so that the kernel has all that depends on inputs."""
        return isinstance(self.posterior.problem.prior.mean_function, Zero | ConstantMean)

    @property
    def mean_words(self) -> str | None:
        """The prior mean, where it depends on the inputs."""
        if self.flat:
            return None
        asked, used = self.asked["mean"], self.posterior.problem.prior.mean_function
        name = asked if isinstance(asked, str) else getattr(used, "__name__", type(used).__name__)
        return f"{name}; the kernel has what is left"

    @property
    def kernel(self) -> Kernel:
        """In scaled units, as learned or given."""
        return self.posterior.problem.prior.kernel

    @property
    def shared(self) -> Posterior:
        """The run that chose the actions, for all targets."""
        return self.posterior.shared if isinstance(self.posterior, TargetPosterior) else self.posterior

    @property
    def status(self) -> Status:
        return self.posterior.status

    @property
    def features(self) -> int:
        return self.scaling.x_mean.size

    @property
    def idle(self) -> frozenset[int]:
        """Inputs that would say whether a column is missing, and are 0 in every row: held-out errors did not
        ask for them."""
        holes = () if self.donors is None else self.donors.holes.columns
        return frozenset(hole.flag for hole in holes if hole.flag is not None and not hole.told)

    @property
    def used_features(self) -> int:
        """Inputs that a reader counts."""
        return self.features - len(self.idle)

    @property
    def targets(self) -> int:
        return self.scaling.y_mean.size

    @property
    def rows(self) -> int:
        """Of the data; the problem has those with different inputs."""
        return int(self.counts.sum())

    @property
    def data(self) -> Rows:
        """The rows of the problem, in scaled units."""
        problem, W = self.posterior.problem, self.weights
        logs = None if W is None else self.counts * np.log(W / self.counts)
        return Rows(problem.X, problem.y, self.counts, self.scatter, weights=W, log_weights=logs)

    def observations(self) -> tuple[Array, Array, Array | None]:
        """The rows in their own units with their weights, as well as the fit knows them."""
        X, y, weights = self.data.observations()
        if self.noise_function is not None and weights is not None:
            weights = weights * self.noise_function(X)
        return self.scaling.original(X), self.scaling.mean(y), weights

    @property
    def learned(self) -> bool:
        """Whether the kernel was learned: it was free, and the data had something to say."""
        return self.free.kernel and (self.first_rows is None or bool(self.first_rows.told.any()))

    # How it predicts.

    @property
    def process(self) -> Process:
        """The posterior in scaled units, with local actions where they are asked for."""
        asked = self.asked["neighbours"]
        if isinstance(asked, str) and asked == "auto":
            number = 0 if self.status is Status.EXACT else NEIGHBOURS
        else:
            number = count("neighbours", asked, least=0)
        return self.posterior.local(number) if number else self.posterior

    @property
    def neighbours(self) -> int:
        """How many local actions each prediction has; none where they could change nothing."""
        exact = self.posterior.rank == self.posterior.problem.n
        return 0 if exact else getattr(self.process, "neighbours", 0)

    @property
    def own_variances(self) -> bool:
        """Whether each target has a noise, and so variances, of its own."""
        return np.ndim(self.noise) > 0

    def variance(self, variance: Array) -> Array:
        """Scaled variances in units of y squared."""
        return self.scaling.variance(variance, self.own_variances)

    def size(self, size: Array) -> Array:
        """Scaled standard deviations in units of y: not by their squares, which vanish below 1e-160."""
        return self.scaling.size(size, self.own_variances)

    def noise_at(self, X: Array) -> float | Array:
        """The noise variance of a new observation at X, both in scaled units: a number or one per target
        where it is the same everywhere, else (m,) or (m, t)."""
        return (
            self.noise
            if self.noise_function is None
            else np.multiply.outer(self.noise_function(X), self.noise)
        )

    def weights_at(self, X: Array, weights: Array | None) -> Array | None:
        """The weights of more rows, such that their noise is noise / weight."""
        if self.noise_function is None:
            return weights
        return (1.0 if weights is None else weights) / self.noise_function(X)

    def noise_of(self, target: int) -> float:
        """The noise of one target, in scaled units: its mean, if it varies."""
        return float(np.broadcast_to(self.noise, self.targets)[target])

    def unit_of(self, target: int) -> tuple[float, float]:
        """y = centre + unit * scaled y, for one target."""
        return float(np.atleast_1d(self.scaling.y_mean)[target]), float(
            np.atleast_1d(self.scaling.y_scale)[target]
        )

    # The same fit, under other names.

    def asked_with(self, parameters: Mapping[str, Any]) -> "Fit":
        """The fit itself where these are the parameters that it has; they may be changed after a fit."""
        same = all(parameters[name] is value for name, value in self.asked.items())
        if same and len(parameters) == len(self.asked):
            return self
        predicts_alike = parameters["neighbours"] == self.asked["neighbours"]
        return replace(self, asked=parameters, calibration=self.calibration if predicts_alike else None)
