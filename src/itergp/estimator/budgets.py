"""Parsing of budgets: "30s", "5m", "1h", "200 actions", a stopping criterion, or None."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.linalg.memory import available_bytes
from itergp.solver.state import Progress, State, Status
from itergp.solver.stopping import MaxActions, MaxPasses, StoppingCriterion

# All accepted units; abbreviations are not guessed.
_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_COUNTS: dict[str, Callable[[int], StoppingCriterion]] = {
    **dict.fromkeys(("action", "actions"), MaxActions),
    **dict.fromkeys(("pass", "passes"), MaxPasses),
}
UNITS = "ms, s, m (minutes), h, actions or passes"
EXPECTED = f"a number and a unit ({UNITS}), such as '30s', '5m', '1h' or '200 actions'"
LONGEST = 1e9  # seconds
LARGEST = 1e15  # number of actions: up to here all integers are float64
LEARNING_SHARE = 0.6  # of a time budget; what learning leaves over, inference gets
# of the last step must fit the time that is left; a step with one column takes less than one with a block
WORTH_IT = 0.25


@dataclass(frozen=True)
class Budget:
    """The limit of a fit: `seconds` of wall-clock time in total, or a stopping criterion for inference, or
    neither."""

    seconds: float | None = None
    stop: StoppingCriterion | None = None

    @staticmethod
    def parse(value: Any, name: str = "budget") -> "Budget":
        if value is None:
            return Budget()
        if isinstance(value, StoppingCriterion):
            return Budget(stop=value)
        match = (
            re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", value.lower())
            if isinstance(value, str)
            else None
        )
        number, unit = (float(match[1]), match[2]) if match else (0.0, "")
        if unit in _SECONDS and 0 < number * _SECONDS[unit] < LONGEST:
            return Budget(seconds=number * _SECONDS[unit])
        if unit in _COUNTS and number.is_integer() and number <= LARGEST:
            return Budget(stop=_COUNTS[unit](int(number)))
        criterion = "" if isinstance(value, str) else "; or a criterion such as MaxActions(200), or None"
        raise InputError(f"{name} is {value!r}; expected {EXPECTED}{criterion}.")

    @property
    def actions(self) -> int | None:
        """The number of actions, if the budget is a number of actions."""
        return self.stop.number if isinstance(self.stop, MaxActions) else None


@dataclass(frozen=True)
class Until(StoppingCriterion):
    """Stop at a time of `time.perf_counter()`; time between steps counts too."""

    moment: float

    def seconds_left(self, begun: Progress, state: State) -> float:
        return self.moment - time.perf_counter()

    def reached(self, begun: Progress, state: State) -> bool:
        """Also if too little time is left for another step: it would be cut off and lost."""
        ends = [begun.seconds, *(max(begun.seconds, step.seconds) for step in state.trace[-2:])]
        return self.seconds_left(begun, state) <= WORTH_IT * (ends[-1] - ends[-2] if len(ends) > 1 else 0.0)


@dataclass(frozen=True)
class FromTheStart(StoppingCriterion):
    """A criterion that also counts work done before this call, for fits that resume."""

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

    def contradicted(self, begun: Progress, state: State, true_residual: np.ndarray) -> bool:
        return self.criterion.contradicted(Progress(), state, true_residual)


def actions_in_memory(n: int) -> int:
    """Number of dense actions on n rows that fit in half of the available memory: Q, K Q, and two r x r
    factors."""
    room, r = available_bytes() / 2, n
    while r > 1 and 8.0 * (2.0 * n * r + 2.0 * r * r) > room:
        r //= 2
    return r
