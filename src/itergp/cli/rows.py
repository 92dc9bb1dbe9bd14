"""A progress line for work that goes through the rows of a table."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from itergp.cli.app import BAR_WIDTH, messages

PATIENCE = 1.0  # seconds without a progress line


class _Rows(ProgressColumn):
    """Rows done, of how many, and how many in a second."""

    def render(self, task: Task) -> Text:
        return Text(said(int(task.completed), int(task.total or 0), task.elapsed or 0.0))


def said(done: int, rows: int, seconds: float) -> str:
    speed = f" · {done / seconds:,.0f} rows/s" if done and seconds > 0 else ""
    return f"{done:,} of {rows:,} rows{speed}"


@contextlib.contextmanager
def progress_of_rows(rows: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Shown on stderr after a second, if that is a terminal. Yields what to call with the rows just done."""
    if not shown or not messages.is_terminal:
        yield lambda done: None
        return
    columns = (SpinnerColumn(), BarColumn(BAR_WIDTH), TimeElapsedColumn(), _Rows())
    progress = Progress(*columns, console=messages, transient=True)
    task = progress.add_task("", total=rows)
    later = threading.Timer(PATIENCE, progress.start)  # a block may take longer than that
    later.daemon = True
    later.start()
    try:
        yield lambda done: progress.advance(task, done)
    finally:
        later.cancel()
        later.join()
        with contextlib.suppress(OSError):  # a terminal that was closed meanwhile
            progress.stop()
