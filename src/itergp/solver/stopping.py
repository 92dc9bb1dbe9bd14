"""When to stop. Criteria combine with | and &; budgets count from the start of the call.

Your own criterion is a class with `reached`:

    class SmallError(StoppingCriterion):
        status = Status.CONVERGED
        def reached(self, begun, state):
            return abs(state.residual).max() < 1e-3
"""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from itergp.errors import InputError
from itergp.linalg.engines import Tick, no_tick
from itergp.solver.state import Progress, State, Status
from itergp.validate import count, positive

SLACK = 1.01  # how far the true residual may exceed a limit that the updated one has just reached


class StoppingCriterion(ABC):
    status: Status = Status.BUDGET  # the status of a run that it ends

    @abstractmethod
    def reached(self, begun: Progress, state: State) -> bool:
        """True when the run that began at `begun` should end at `state`."""

    def verdict(self, begun: Progress, state: State) -> Status | None:
        return self.status if self.reached(begun, state) else None

    def allowance(self, begun: Progress, state: State) -> float:
        """How many more actions may be accepted."""
        return np.inf

    def seconds_left(self, begun: Progress, state: State) -> float:
        return np.inf

    @property
    def reads_residual(self) -> bool:
        """True if the end should be checked against the true residual, by `contradicted`."""
        return False

    def contradicted(self, begun: Progress, state: State, true_residual: np.ndarray) -> bool:
        """True if this criterion was met, but would not be with the residual b - K_hat v recomputed."""
        return False

    def __or__(self, other: "StoppingCriterion") -> "StoppingCriterion":
        return Either(self, _criterion(other))

    def __and__(self, other: "StoppingCriterion") -> "StoppingCriterion":
        return Both(self, _criterion(other))


def _criterion(value: object) -> StoppingCriterion:
    if not isinstance(value, StoppingCriterion):
        raise InputError(
            f"{value!r} is not a stopping criterion; expected for example MaxActions(100) | TimeBudget(30)."
        )
    return value


@dataclass(frozen=True)
class MaxActions(StoppingCriterion):
    """At most `number` further actions; exact, even inside a block."""

    number: int

    def __post_init__(self) -> None:
        count("MaxActions.number", self.number, least=0)

    def allowance(self, begun: Progress, state: State) -> float:
        return self.number - (state.rank - begun.actions)

    def reached(self, begun: Progress, state: State) -> bool:
        return self.allowance(begun, state) <= 0


@dataclass(frozen=True)
class MaxPasses(StoppingCriterion):
    """At most `number` further products with K, whatever their number of columns."""

    number: int

    def __post_init__(self) -> None:
        count("MaxPasses.number", self.number, least=0)

    def reached(self, begun: Progress, state: State) -> bool:
        return state.progress.passes - begun.passes >= self.number


@dataclass(frozen=True)
class TimeBudget(StoppingCriterion):
    """At most `seconds`; a step that would take longer is abandoned, and the work before it is kept."""

    seconds: float

    def __post_init__(self) -> None:
        positive("TimeBudget.seconds", self.seconds)

    def seconds_left(self, begun: Progress, state: State) -> float:
        return self.seconds - (state.progress.seconds - begun.seconds)

    def reached(self, begun: Progress, state: State) -> bool:
        return self.seconds_left(begun, state) <= 0


@dataclass(frozen=True)
class ResidualNorm(StoppingCriterion):
    """|r| <= max(rtol |y - mu|, atol), for every target (S3.2)."""

    rtol: float = 1e-6
    atol: float = 0.0
    status = Status.CONVERGED

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise InputError(f"ResidualNorm.{name} is {value!r}; expected a finite number >= 0.")

    def reached(self, begun: Progress, state: State) -> bool:
        return self._small(state.residual, state)

    @property
    def reads_residual(self) -> bool:
        return True

    def contradicted(self, begun: Progress, state: State, true_residual: np.ndarray) -> bool:
        return not self._small(true_residual / SLACK, state)

    def _small(self, residual: np.ndarray, state: State) -> bool:
        limit = np.maximum(self.rtol * np.linalg.norm(state.problem.b, axis=0), self.atol)
        return bool((np.linalg.norm(residual, axis=0) <= limit).all())


@dataclass(frozen=True)
class MarginalVariance(StoppingCriterion):
    """Mean variance at the training inputs <= ratio * mean noise (S3.2)."""

    ratio: float
    status = Status.CONVERGED

    def __post_init__(self) -> None:
        positive("MarginalVariance.ratio", self.ratio)

    def reached(self, begun: Progress, state: State) -> bool:
        return bool(state.training_variance.mean() <= self.ratio * state.problem.N.mean())


@dataclass(frozen=True)
class _Combined(StoppingCriterion):
    left: StoppingCriterion
    right: StoppingCriterion

    @property
    def reads_residual(self) -> bool:
        return self.left.reads_residual or self.right.reads_residual

    def reached(self, begun: Progress, state: State) -> bool:
        return self.verdict(begun, state) is not None


class Either(_Combined):
    """left | right"""

    def verdict(self, begun: Progress, state: State) -> Status | None:
        return self.left.verdict(begun, state) or self.right.verdict(begun, state)

    def contradicted(self, begun: Progress, state: State, true_residual: np.ndarray) -> bool:
        met = [side for side in (self.left, self.right) if side.verdict(begun, state) is Status.CONVERGED]
        return all(side.contradicted(begun, state, true_residual) for side in met)

    def allowance(self, begun: Progress, state: State) -> float:
        return min(self.left.allowance(begun, state), self.right.allowance(begun, state))

    def seconds_left(self, begun: Progress, state: State) -> float:
        return min(self.left.seconds_left(begun, state), self.right.seconds_left(begun, state))


class Both(_Combined):
    """left & right"""

    def verdict(self, begun: Progress, state: State) -> Status | None:
        verdicts = self.left.verdict(begun, state), self.right.verdict(begun, state)
        if None in verdicts:
            return None
        return Status.CONVERGED if Status.CONVERGED in verdicts else verdicts[0]

    def contradicted(self, begun: Progress, state: State, true_residual: np.ndarray) -> bool:
        return any(side.contradicted(begun, state, true_residual) for side in (self.left, self.right))

    def _unmet(self, begun: Progress, state: State) -> list[StoppingCriterion]:
        return [side for side in (self.left, self.right) if side.verdict(begun, state) is None]

    def allowance(self, begun: Progress, state: State) -> float:
        return max((side.allowance(begun, state) for side in self._unmet(begun, state)), default=0.0)

    def seconds_left(self, begun: Progress, state: State) -> float:
        return max((side.seconds_left(begun, state) for side in self._unmet(begun, state)), default=0.0)


class OutOfTime(Exception):  # noqa: N818 (no error)
    """Raised to end a step that would exceed the time budget."""


def deadline(seconds: float) -> Tick:
    """Called by long work between its parts; ends it if the next part would end too late."""
    if not np.isfinite(seconds):
        return no_tick
    end, last = time.perf_counter() + seconds, np.inf

    def tick() -> None:
        nonlocal last
        now = time.perf_counter()
        if now + max(0.0, now - last) > end:  # assumes that the next part takes as long as the last one
            raise OutOfTime
        last = now

    return tick
