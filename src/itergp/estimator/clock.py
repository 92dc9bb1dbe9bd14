"""The wall clock of a call."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from itergp.estimator.budgets import Budget


@dataclass
class Clock:
    """Measures the wall-clock time of a fit and of its parts."""

    budget: Budget
    began: float = field(init=False)
    timings: dict[str, float] = field(default_factory=dict)
    reserved: float = 0.0  # seconds, for what comes after
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self._last = time.perf_counter()

    @property
    def deadline(self) -> float | None:
        """Slightly before the end, to leave time for the work after the last step."""
        seconds = self.budget.seconds
        if seconds is None:
            return None
        return self.began + seconds - min(0.2, 0.02 * seconds) - self.reserved

    @property
    def over(self) -> bool:
        return self.deadline is not None and time.perf_counter() > self.deadline

    @contextlib.contextmanager
    def reserving(self, share: float) -> Iterator[None]:
        """Leave this share of a time budget to what comes after."""
        self.reserved = share * (self.budget.seconds or 0.0)
        try:
            yield
        finally:
            self.reserved = 0.0

    def left(self) -> Budget:
        """The budget with its remaining seconds."""
        if self.deadline is None:
            return self.budget
        return Budget(seconds=max(1e-3, self.deadline - time.perf_counter()))

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.timings[name] = self.timings.get(name, 0.0) + now - self._last
        self._last = now

    def total(self, earlier: dict[str, float] | None = None) -> dict[str, float]:
        """The seconds of each part so far, including earlier calls."""
        now = self.timings | {"total": time.perf_counter() - self.began}
        return (
            now
            if earlier is None
            else earlier | {name: earlier.get(name, 0.0) + value for name, value in now.items()}
        )

    def after(self, earlier: dict[str, float]) -> dict[str, float]:
        """The seconds including earlier calls, if all of this call was spent on acting."""
        now = self.total()["total"]
        return earlier | {name: earlier.get(name, 0.0) + now for name in ("act", "total")}
