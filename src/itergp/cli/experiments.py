"""`itergp experiment list` and `run`: reproduce the paper's figures and claims."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from itergp.cli.app import BAR_WIDTH, app, console, messages, one_line, reporting, say

if TYPE_CHECKING:
    from itergp.experiments import Standing

experiments = typer.Typer(help="Reproduce the paper's experiments.", no_args_is_help=True)
app.add_typer(experiments, name="experiment")


@experiments.command("list")
def list_() -> None:
    """List the experiments and the figure of the paper that each one reproduces."""
    from itergp.experiments import EXPERIMENTS

    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("paper", no_wrap=True)
    table.add_column("what it shows", overflow="fold")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.figure_of_paper, experiment.title)
    console.print(table)


@experiments.command()
def run(
    name: Annotated[str, typer.Argument(help="A name from `itergp experiment list`.", show_default=False)],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data and few repetitions: seconds instead of minutes.")
    ] = False,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Data sets or CSV files; repeat or separate by commas.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder; each experiment has its own subfolder.")] = Path(
        "results"
    ),
) -> None:
    """Run an experiment and write its records, table and figure. Ctrl-C keeps finished results; run again
    to continue."""
    with reporting():
        from itergp.experiments import Options, named, run_experiment

        chosen = tuple(part for text in datasets or () for part in text.split(",") if part)
        experiment, options = named(name), Options(quick, chosen, out)
        try:
            with _bar(name) as progress:
                folder = run_experiment(experiment, options, progress)
        except KeyboardInterrupt:
            say(f"Interrupted. Finished results are in {out / name}; run the same command again to continue.")
            raise typer.Exit(1) from None
        console.print((folder / "table.md").read_text(encoding="utf-8"), soft_wrap=True)
        console.print(f"Records, table and figure: {one_line(str(folder))}", soft_wrap=True)


class _TimeLeft(ProgressColumn):
    """Estimated from the finished cells and the time since then."""

    def render(self, task: Task) -> Text:
        left, since = task.fields["left"], task.fields["since"]
        if left is None:
            return Text("time left: ?")
        seconds = max(0, round(left - (time.perf_counter() - since)))
        return Text(f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Callable[["Standing"], None]]:
    """Nothing is drawn if stderr is not a terminal."""
    if not messages.is_terminal:
        yield lambda standing: None
        return
    columns = (
        SpinnerColumn(),
        BarColumn(BAR_WIDTH),
        TimeElapsedColumn(),
        _TimeLeft(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task(name, total=1.0, left=None, since=time.perf_counter())

        def show(standing: "Standing") -> None:
            cell = (
                ""
                if standing.cell is None
                else " · " + " ".join(str(value) for value in standing.cell.key.values())
            )
            text = one_line(f"{standing.finished} of {standing.cells} cells{cell}")
            left, since = standing.seconds_left, time.perf_counter()
            progress.update(task, description=text, completed=standing.share, left=left, since=since)

        yield show
