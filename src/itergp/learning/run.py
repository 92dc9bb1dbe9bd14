"""One run of an optimiser in stages: the best point so far, the clock, the trace.

The best point seen is returned whatever ends a stage: convergence, the clock, Ctrl-C.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize

from itergp import brief
from itergp.data.rows import Rows
from itergp.learning.candidates import Considered
from itergp.learning.endings import Ending, Learning
from itergp.learning.evaluation import summed
from itergp.learning.parameters import Objective, Space
from itergp.learning.wide import Shared
from itergp.prior.kernel import Kernel

Stage = tuple[str, Objective, int]  # a name, what is minimised, and for how many iterations


@dataclass(frozen=True)
class Record:
    """One step of an optimiser."""

    stage: str
    iteration: int
    objective: float  # nats per observation
    seconds: float


@dataclass(frozen=True, eq=False)
class Learned:
    """Where learning ended."""

    kernel: Kernel
    noise: Any  # a number, or one per target
    objective: float
    trace: tuple[Record, ...] = ()
    stages: tuple[str, ...] = ()
    at_bounds: tuple[str, ...] = ()
    ended: Ending = Ending.CONVERGED
    candidates: tuple[Considered, ...] = ()  # where the kernel was chosen too

    __repr__ = brief.call

    @property
    def interrupted(self) -> bool:
        return self.ended is Ending.INTERRUPTED

    @property
    def learning(self) -> Learning:
        return Learning(self.ended, len(self.trace))


class OutOfTime(Exception):  # noqa: N818 (no error)
    """The clock ran out inside an evaluation."""


class Enough(Exception):  # noqa: N818 (no error)
    """The callback asked to stop."""


class Timed:
    """What has a time limit: `seconds` since it `began`; None: no limit."""

    seconds: float | None
    began: float

    @property
    def left(self) -> float:
        return np.inf if self.seconds is None else self.seconds - (time.perf_counter() - self.began)

    def tick(self) -> None:
        if self.left <= 0:
            raise OutOfTime


@dataclass(eq=False)
class Share(Timed):
    """A limit of its own for a part of the work."""

    seconds: float | None
    began: float = field(default_factory=lambda: time.perf_counter())


@contextlib.contextmanager
def ending(work: Any) -> Iterator[None]:
    """Notes in `work.ended` what stopped it early: the clock, the callback, or Ctrl-C."""
    try:
        yield
    except OutOfTime:
        work.ended = Ending.BUDGET
    except Enough:
        work.ended = Ending.STOPPED
    except KeyboardInterrupt:
        work.ended = Ending.INTERRUPTED


@dataclass(frozen=True, eq=False)
class Before:
    """Where an attempt began, and by how much it must lower the objective for each feature that it adds."""

    shared: Shared | None
    space: Space
    theta: np.ndarray
    objective: float
    ended: Ending
    price: float
    outer: "Before | None"  # of the attempt that this one is part of


@dataclass(eq=False)
class Run(Timed):
    """Shared by the stages of one call: the best point so far, the clock, the trace."""

    space: Space
    theta: np.ndarray
    seconds: float | None
    callback: Callable[[Record], Any] | None
    began: float = field(default_factory=lambda: time.perf_counter())
    objective: float = np.inf
    trace: list[Record] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    ended: Ending = Ending.NOT_ASKED  # of the last stage, or of all
    per_evaluation: float = 0.0  # seconds, of the last stage
    per_pair: float = 0.0  # seconds, of the last search for neighbours
    batch: int = 1  # rows of the last stage with neighbours
    # tolerance at which an optimiser has converged: SciPy's default
    tolerance: float = 1e7 * float(np.finfo(np.float64).eps)
    shared: Shared | None = None  # if the space is that of a reduced kernel
    before: "Before | None" = None  # an attempt

    @property
    def kernel(self) -> Kernel:
        return self.space.values(self.theta)[0]

    def value(self, objective: Objective, theta: np.ndarray) -> float:
        """What is minimised: the objective and the prior."""
        return objective(*self.space.values(theta)).value + self.space.prior(theta)[0]

    def seconds_of(self, objective: Objective) -> float:
        """The time of one evaluation."""
        began = time.perf_counter()
        objective(*self.space.values(self.theta))
        return time.perf_counter() - began

    def summed(self, rows: Rows, make: Callable[[Rows], Objective]) -> Objective:
        """The objective of these rows; if each target has its own noise, the sum over targets."""
        return summed(rows, self.space.noise, make)

    def reduce(self, shared: Shared, kernel: Kernel, noise: Any, rows: Rows) -> None:
        """Continue with a reduced kernel."""
        self.shared, self.space = shared, shared.space(kernel, noise, rows, self.space.learn_noise)
        self.theta = self.space.vector(kernel, noise)

    def attempt(self, shared: Shared, kernel: Kernel, noise: Any, rows: Rows, price: float) -> None:
        """The same, for stages that must lower the objective by `price` for each feature: see `settle`."""
        self.remember(price)
        self.reduce(shared, kernel, noise, rows)

    def restart(self, theta: np.ndarray) -> None:
        """Begin the next stage elsewhere, with the same objective: see `settle`."""
        self.remember(0.0)
        self.theta = theta

    def remember(self, price: float) -> None:
        self.before = Before(
            self.shared, self.space, self.theta, self.objective, self.ended, price, self.before
        )

    def settle(self) -> bool:
        """After an attempt: whether it was worth its price; if not, it is undone."""
        if (before := self.before) is None:
            return True
        self.before = before.outer
        if before.objective - self.objective > before.price * (_chosen(self.shared) - _chosen(before.shared)):
            return True
        self.shared, self.space, self.theta = before.shared, before.space, before.theta
        self.objective, self.ended = before.objective, before.ended
        return False

    def found(self) -> tuple[Kernel, Any, tuple[str, ...]]:
        """The kernel, the noise, and the parameters that ended at the edge of their range."""
        while self.before is not None:
            self.settle()
        (kernel, noise), names = self.space.values(self.theta), self.space.at_bounds(self.theta)
        if self.shared is None:
            return kernel, noise, names
        return self.shared.expanded(kernel), noise, tuple(map(self.shared.name, names))

    def minimise(self, name: str, objective: Objective, iterations: int) -> None:
        """L-BFGS-B from the best point so far. The best point found is kept even if it is interrupted."""
        self.stages.append(name)
        reached, self.objective, evaluations, began = self.objective, np.inf, 0, time.perf_counter()
        best = self.theta

        def total(theta: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, evaluations
            self.tick()
            found, (penalty, pull) = objective(*self.space.values(theta)), self.space.prior(theta)
            evaluations += 1
            value = found.value + penalty
            if value < self.objective:
                self.objective, best = value, theta.copy()
            return value, self.space.slope(found, theta) + pull

        def after(_: np.ndarray) -> None:
            record = Record(name, len(self.trace), self.objective, time.perf_counter() - self.began)
            self.trace.append(record)
            if self.callback is not None and self.callback(record):
                raise Enough

        try:
            options = {"maxiter": iterations, "maxcor": 20, "ftol": self.tolerance}
            found = minimize(
                total,
                best,
                jac=True,
                method="L-BFGS-B",
                bounds=self.space.bounds,
                callback=after,
                options=options,
            )
            self.ended = Ending.LIMIT if found.nit >= iterations else Ending.CONVERGED
        finally:
            # the clock ended the stage before it began: the result of the last one still holds
            if not evaluations:
                self.objective = reached
            self.theta = best
            self.per_evaluation = (time.perf_counter() - began) / max(1, evaluations)


def _chosen(shared: Shared | None) -> int:
    """The number of features with a lengthscale of their own."""
    return 0 if shared is None else len(shared.chosen)
