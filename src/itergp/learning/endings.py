"""How learning ended: a value with a sentence of advice, like the solver's. It does not concern inference."""

from dataclasses import dataclass
from enum import Enum

FEW = 5  # iterations: after fewer, hyper-parameters are close to their starting values


class Ending(Enum):
    """How the learning of hyper-parameters ended."""

    CONVERGED = "converged"
    LIMIT = "iteration limit"
    BUDGET = "budget"
    STOPPED = "stopped by a callback"
    INTERRUPTED = "interrupted"
    NOT_ASKED = "not asked for"
    NOTHING_TO_LEARN = "nothing to learn from"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Learning:
    """How learning ended, and after how many iterations."""

    ended: Ending = Ending.UNKNOWN
    iterations: int = 0

    @property
    def falls_short(self) -> bool:
        """Whether the budget or Ctrl-C ended it before it made real progress."""
        return self.ended in (Ending.BUDGET, Ending.INTERRUPTED) and self.iterations < FEW

    @property
    def advice(self) -> str:
        after = f"after {self.iterations} {'iteration' if self.iterations == 1 else 'iterations'}"
        if self.ended in (Ending.BUDGET, Ending.STOPPED, Ending.INTERRUPTED) and not self.iterations:
            after = "before its first iteration, so the hyper-parameters are the starting values"
        short = _SHORT.format(remedy=_REMEDY[self.ended]) if self.falls_short else ""
        return _ADVICE[self.ended].format(after=after) + short


_ADVICE = {
    Ending.CONVERGED: "Learning converged {after}.",
    Ending.LIMIT: "Learning ended {after}, its limit.",
    Ending.BUDGET: "The budget ended learning {after}.",
    Ending.STOPPED: "A callback ended learning {after}.",
    Ending.INTERRUPTED: "Learning was interrupted {after}. `refine` does not learn: fit again for that.",
    Ending.NOT_ASKED: "The hyper-parameters were given, not learned.",
    Ending.NOTHING_TO_LEARN: "The data say nothing about the hyper-parameters yet: they are the starting "
    "values.",
    Ending.UNKNOWN: "How learning ended is not known.",
}
_SHORT = " Predictions can be far worse than the data allow{remedy}."
_REMEDY = {Ending.BUDGET: ": fit again with a larger budget", Ending.INTERRUPTED: ""}
