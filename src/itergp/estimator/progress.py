"""What a fit tells while it runs: scikit-learn's callbacks where they are, a line drawn with rich; and
Ctrl-C and its like."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from itergp.fitted.fit import Fit
from itergp.solver.state import State
from itergp.storage import Checkpoint

try:  # scikit-learn 1.9 and later; marked experimental there
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Earlier versions know no callbacks."""

    def with_callbacks(method: Callable) -> Callable:  # type: ignore[no-redef]
        return method


def callback_root(estimator: Any) -> Any:
    """scikit-learn's context of a fit, where it knows callbacks."""
    known = hasattr(estimator, "_init_callback_context")
    return estimator._init_callback_context(max_subtasks=2) if known else None


# Ctrl-C; what ends services, containers and batch jobs; a terminal that was closed
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@dataclass
class Interrupts:
    """Signals during a fit: always remembered, and raised only inside `raised`, where somebody is prepared
    for it.

    The error may be lost where Python swallows it, as in a destructor; so whoever asks after each step
    hears of it too.
    """

    asked: bool = False
    raising: bool = False
    before: dict[int, Any] = field(default_factory=dict)  # what answered each signal so far
    unanswered: set[int] = field(default_factory=set)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """A long part, which a KeyboardInterrupt may end; the caller catches it."""
        self.raising = True
        try:
            yield
        finally:
            self.raising = False

    def __call__(self, number: int, frame: Any) -> None:
        self.remember(number)
        before = self.before[number]
        if self.raising and callable(before):
            self.unanswered.discard(number)
            before(number, frame)
        elif self.raising:
            raise KeyboardInterrupt

    def remember(self, number: int) -> None:
        self.asked = True
        self.unanswered.add(number)
        if isinstance(self.before[number], Interrupts):  # a fit within a command
            self.before[number].remember(number)


@contextlib.contextmanager
def watching_interrupts(ends_anyway: bool = False) -> Iterator[Interrupts]:
    """From here on Ctrl-C, SIGTERM and SIGHUP tear nothing apart.

    Ctrl-C has done its work when the fit ends early. SIGTERM and SIGHUP are meant for the process: they
    are sent again at the end, to whoever answers them, or to the system, which ends it; unless it
    `ends_anyway`.
    """
    interrupts = Interrupts()
    if threading.current_thread() is threading.main_thread():  # others are never interrupted
        interrupts.before = {number: signal.getsignal(number) for number in _watched()}
    try:
        for number in interrupts.before:
            signal.signal(number, interrupts)
        yield interrupts
    finally:
        for number, handler in interrupts.before.items():
            signal.signal(number, handler)
        for number in interrupts.unanswered - {signal.SIGINT}:
            if not ends_anyway and not isinstance(interrupts.before[number], Interrupts):
                signal.raise_signal(number)


def _watched() -> Iterator[int]:
    """Signals that are neither ignored, as by nohup, nor answered outside of Python."""
    for name in SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None:
            handler = signal.getsignal(number)
            if callable(handler) or (handler is signal.SIG_DFL and number != signal.SIGINT):
                yield number


@dataclass
class Watch:
    """Who wants to know how a fit goes: called after each step, it returns True where somebody asks to
    stop."""

    estimator: Any
    interrupts: Interrupts
    verbose: int = 0
    deadline: float | None = None  # on time.perf_counter(), for "time left"
    root: Any = None  # scikit-learn's context of the whole fit
    checkpoint: Checkpoint | None = None  # open as long as the fit runs
    task: Any = None  # and of what is running now
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _status: Any = None

    def __enter__(self) -> "Watch":
        if self.checkpoint is not None:
            self._stack.enter_context(self.checkpoint)
        if self.verbose:
            from rich.console import Console

            self._status = self._stack.enter_context(Console(stderr=True).status("fitting ..."))
        if self.root is not None:
            self.root.call_on_fit_task_begin(estimator=self.estimator)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if self.root is not None:
            self.root.call_on_fit_task_end(estimator=self.estimator)

    def begin(self, name: str) -> None:
        """A new task: "learning" or "acting"."""
        self._show(name)
        if self.root is not None:
            self.task = self.root.subcontext(task_name=name, max_subtasks=None)
            self.task.call_on_fit_task_begin(estimator=self.estimator)

    def end(self) -> None:
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.estimator)
            self.task = None

    def learned(self, record: Any) -> bool:
        """After a step of the learning."""
        self._show(
            f"learning ({record.stage}) · iteration {record.iteration} · objective {record.objective:.4f}"
        )
        return self._tell("iteration", None)

    def acted(self, state: State, fitted: Callable[[], Fit] | None = None) -> bool:
        """After a step of the solver; `fitted` gives the fit as if it ended here."""
        done, step = state.progress, state.trace[-1]
        self._show(
            f"acting · passes {done.passes} · actions {done.actions} · residual {step.residual_norm:.3g}"
        )
        return self._tell("step", fitted)

    def _tell(self, name: str, fitted: Callable[[], Fit] | None) -> bool:
        if self.task is None or self.interrupts.asked:
            return self.interrupts.asked
        step = self.task.subcontext(task_name=name)
        step.call_on_fit_task_begin(estimator=self.estimator)
        attributes = None if fitted is None else lambda: {"_fit": fitted()}
        return bool(step.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes))

    def _show(self, text: str) -> None:
        if self._status is not None:
            left = (
                ""
                if self.deadline is None
                else f" · {max(0.0, self.deadline - time.perf_counter()):.0f} s left"
            )
            self._status.update(text + left)
