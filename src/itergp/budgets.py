"""Budgets as people write them: "30s", "5m", "1h", "200 actions", a stopping criterion, or None."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from itergp.errors import InputError
from itergp.linalg.compute import available_bytes
from itergp.solver.state import Progress, State, Status
from itergp.solver.stopping import MaxActions, MaxPasses, StoppingCriterion

_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_COUNTS: dict[str, Callable[[int], StoppingCriterion]] = {"action": MaxActions, "pass": MaxPasses, "passe": MaxPasses}
EXPECTED = "a text with a unit such as '30s', '5m', '1h' or '200 actions', a criterion such as MaxActions(200), or None"
LEARNING_SHARE = 0.6  # of a time budget; what learning leaves over, inference gets
WORTH_IT = 0.25  # of the last step must fit the time that is left; a step with one column takes less than one with a block


@dataclass(frozen=True)
class Budget:
    """What a fit may cost: `seconds` of wall clock in all, or a criterion for the inference alone, or neither."""

    seconds: float | None = None
    stop: StoppingCriterion | None = None

    @staticmethod
    def parse(value: Any, name: str = "budget") -> "Budget":
        if value is None:
            return Budget()
        if isinstance(value, StoppingCriterion):
            return Budget(stop=value)
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value.lower()) if isinstance(value, str) else None
        if match is None:
            raise InputError(f"{name} is {value!r}; expected {EXPECTED}.")
        number, unit = float(match[1]), match[2] if match[2] in _SECONDS else match[2].removesuffix("s")
        if unit in _SECONDS and 0 < number < 1e9:
            return Budget(seconds=number * _SECONDS[unit])
        if unit in _COUNTS and number.is_integer():
            return Budget(stop=_COUNTS[unit](int(number)))
        raise InputError(f"{name} is {value!r}; expected {EXPECTED}.")

    @property
    def actions(self) -> int | None:
        """How many actions it is, where it is counted in actions."""
        return self.stop.number if isinstance(self.stop, MaxActions) else None


@dataclass(frozen=True)
class Until(StoppingCriterion):
    """Until a moment on the wall clock, `time.perf_counter()`: what happens between steps counts too."""

    moment: float

    def seconds_left(self, begun: Progress, state: State) -> float:
        return self.moment - time.perf_counter()

    def reached(self, begun: Progress, state: State) -> bool:
        """Also when there is no time for a good part of another step: it would be cut, and lost."""
        ends = [begun.seconds, *(max(begun.seconds, step.seconds) for step in state.trace[-2:])]
        return self.seconds_left(begun, state) <= WORTH_IT * (ends[-1] - ends[-2] if len(ends) > 1 else 0.0)


@dataclass(frozen=True)
class FromTheStart(StoppingCriterion):
    """A criterion that counts what was done before this call too: for a fit that resumes."""

    criterion: StoppingCriterion

    def reached(self, begun: Progress, state: State) -> bool:
        return self.criterion.reached(Progress(), state)

    def verdict(self, begun: Progress, state: State) -> Status | None:
        return self.criterion.verdict(Progress(), state)

    def allowance(self, begun: Progress, state: State) -> float:
        return self.criterion.allowance(Progress(), state)

    def seconds_left(self, begun: Progress, state: State) -> float:
        return self.criterion.seconds_left(Progress(), state)

    @property
    def reads_residual(self) -> bool:
        return self.criterion.reads_residual


def actions_in_memory(n: int) -> int:
    """How many dense actions on n rows fit a half of the memory that is available: Q, K Q, and two r x r factors."""
    room, r = available_bytes() / 2, n
    while r > 1 and 8.0 * (2.0 * n * r + 2.0 * r * r) > room:
        r //= 2
    return r
