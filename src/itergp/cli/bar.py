"""A progress bar for a fit: shows time if the budget is a time, actions if it is a count."""

import contextlib
from collections.abc import Iterator
from typing import Any

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress_bar import ProgressBar

from itergp.cli.app import BAR_WIDTH, messages
from itergp.estimator.budgets import Budget
from itergp.linalg.engines import Engine


class _Clock(ProgressColumn):
    """A bar that fills with elapsed time."""

    def render(self, task: Task) -> ProgressBar:
        return ProgressBar(
            total=task.total or 1.0, completed=min(task.elapsed or 0.0, task.total or 1.0), width=BAR_WIDTH
        )


class _Listener:
    """A scikit-learn callback, where available: shows the running task and its progress."""

    def __init__(self, progress: Progress, budget: Budget) -> None:
        self.progress, self.budget, self.iterations = progress, budget, 0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        if context.task_name in ("learning", "acting"):
            self._show(context.task_name)

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        if context.task_name == "iteration":
            self.iterations += 1
            self._show(f"learning · iteration {self.iterations}{_others(estimator)}")
        elif fitted_estimator is not None:
            done = fitted_estimator.posterior_.state.progress
            text = f"acting · {done.passes} passes · {done.actions:,} actions{_others(estimator)}"
            self._show(text, done.actions)
        return False

    def _show(self, text: str, actions: int | None = None) -> None:
        task = self.progress.task_ids[0]
        if actions is None or self.budget.actions is None:
            self.progress.update(task, description=text)
        else:
            self.progress.update(task, description=text, total=self.budget.actions, completed=actions)


def _others(estimator: Any) -> str:
    """Who else works, and how much was moved."""
    words = estimator.engine.activity() if isinstance(estimator.engine, Engine) else ""
    return f" · {words}" if words else ""


@contextlib.contextmanager
def _drawn(progress: Progress) -> Iterator[Progress]:
    """A terminal closed in the meantime must not abort the fit."""
    progress.start()
    try:
        yield progress
    finally:
        with contextlib.suppress(OSError):
            progress.stop()


@contextlib.contextmanager
def progress_bar(model: Any, budget: Budget, text: str) -> Iterator[None]:
    """Show a progress bar while the model computes. Nothing is drawn if stderr is not a terminal."""
    if not messages.is_terminal:
        yield
        return
    bar = BarColumn(BAR_WIDTH) if budget.seconds is None else _Clock()
    columns = (SpinnerColumn(), bar, TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with _drawn(Progress(*columns, console=messages, transient=True)) as progress:
        progress.add_task(text, total=budget.seconds)
        if hasattr(model, "set_callbacks"):
            model.set_callbacks(_Listener(progress, budget))
        try:
            yield
        finally:
            if hasattr(model, "set_callbacks"):
                model.set_callbacks()
