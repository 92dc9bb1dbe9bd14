"""Progress of a fit: scikit-learn's callbacks, if available, and a status line; and handling of Ctrl-C and
other signals."""

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
        """Earlier versions have no callbacks."""

    def with_callbacks(method: Callable) -> Callable:  # type: ignore[no-redef]
        return method


def callback_root(estimator: Any) -> Any:
    """scikit-learn's callback context of a fit, if available."""
    known = hasattr(estimator, "_init_callback_context")
    return estimator._init_callback_context(max_subtasks=2) if known else None


# Ctrl-C; the end of services, containers and batch jobs; a closed terminal
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@dataclass
class Interrupts:
    """Signals during a fit: always recorded, but raised only inside `raised`, where the caller handles them.

    Python may swallow the exception, as in a destructor; so the flag is also checked after each step.
    """

    asked: bool = False
    raising: bool = False
    before: dict[int, Any] = field(default_factory=dict)  # the previous handler of each signal
    unanswered: set[int] = field(default_factory=set)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """A long computation that a KeyboardInterrupt may end; the caller catches it."""
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
    """Handle Ctrl-C, SIGTERM and SIGHUP so that the fit ends in a valid state.

    Ctrl-C only ends the fit early. SIGTERM and SIGHUP are meant for the process: they are sent again at
    the end, to the previous handler or the system, unless the process `ends_anyway`.
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
    """Signals that are neither ignored, as by nohup, nor handled outside Python."""
    for name in SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None:
            handler = signal.getsignal(number)
            if callable(handler) or (handler is signal.SIG_DFL and number != signal.SIGINT):
                yield number


@dataclass
class Watch:
    """Reports the progress of a fit. Called after each step; returns True if the fit should stop."""

    estimator: Any
    interrupts: Interrupts
    verbose: int = 0
    deadline: float | None = None  # on time.perf_counter(), for "time left"
    root: Any = None  # scikit-learn's context of the whole fit
    checkpoint: Checkpoint | None = None  # open as long as the fit runs
    engine: Any = None  # which may say who else works
    part: Any = None  # and of what is running now
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

    @contextlib.contextmanager
    def task(self, name: str | None) -> Iterator[None]:
        """One of the two parts of a fit, "learning" or "acting"; None if there is nothing to do in it."""
        if name is not None:
            self._show(name)
            if self.root is not None:
                self.part = self.root.subcontext(task_name=name, max_subtasks=None)
                self.part.call_on_fit_task_begin(estimator=self.estimator)
        try:
            yield
        finally:
            if self.part is not None:
                self.part.call_on_fit_task_end(estimator=self.estimator)
                self.part = None

    def placed(self, engine: Any, words: str) -> None:
        """Before anything is computed: who will, and what each of them will hold."""
        self.engine = engine
        self._show(words or "fitting ...")

    def learned(self, record: Any) -> bool:
        """Called after a learning step. An interrupt that Python swallowed, as in JAX's callback of the
        garbage collector, is raised here: to return True would say that a callback has ended learning."""
        self._show(
            f"learning ({record.stage}) · iteration {record.iteration} · objective {record.objective:.4f}"
        )
        ended = self._tell("iteration", None)
        if self.interrupts.asked:
            raise KeyboardInterrupt
        return ended

    def acted(self, state: State, fitted: Callable[[], Fit] | None = None) -> bool:
        """Called after a solver step; `fitted` gives the fit as if it ended here."""
        done, step = state.progress, state.trace[-1]
        self._show(
            f"acting · passes {done.passes} · actions {done.actions} · residual {step.residual_norm:.3g}"
        )
        return self._tell("step", fitted)

    def _tell(self, name: str, fitted: Callable[[], Fit] | None) -> bool:
        if self.part is None or self.interrupts.asked:
            return self.interrupts.asked
        step = self.part.subcontext(task_name=name)
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
            others = "" if self.engine is None else self.engine.activity()
            self._status.update(text + left + (f" · {others}" if others else ""))
