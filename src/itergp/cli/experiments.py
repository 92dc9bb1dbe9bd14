"""`itergp experiment list` and `run`: the paper's figures and claims, one command each."""

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

experiments = typer.Typer(help="The paper's experiments, reproduced.", no_args_is_help=True)
app.add_typer(experiments, name="experiment")


@experiments.command("list")
def list_() -> None:
    """The experiments there are, and which figure of the paper each one is."""
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
    name: Annotated[str, typer.Argument(help="As `itergp experiment list` has it.", show_default=False)],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data and few repetitions: seconds instead of minutes.")
    ] = False,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Data sets or CSV files; more than once, or with commas.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The folder where results go; each experiment has its own in it.")
    ] = Path("results"),
) -> None:
    """Run an experiment, and write its records, table and figure. Ctrl-C keeps what is finished; run again
    to go on."""
    with reporting():
        from itergp.experiments import Options, named, run_experiment

        chosen = tuple(part for text in datasets or () for part in text.split(",") if part)
        experiment, options = named(name), Options(quick, chosen, out)
        try:
            with _bar(name) as progress:
                folder = run_experiment(experiment, options, progress)
        except KeyboardInterrupt:
            say(f"Interrupted. What is finished is in {out / name}; the same command goes on from there.")
            raise typer.Exit(1) from None
        console.print((folder / "table.md").read_text(encoding="utf-8"), soft_wrap=True)
        console.print(f"Records, table and figure: {one_line(str(folder))}", soft_wrap=True)


class _TimeLeft(ProgressColumn):
    """By the finished cells, and the clock since then."""

    def render(self, task: Task) -> Text:
        left, since = task.fields["left"], task.fields["since"]
        if left is None:
            return Text("time left: ?")
        seconds = max(0, round(left - (time.perf_counter() - since)))
        return Text(f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Callable[["Standing"], None]]:
    """Nothing is drawn where nobody looks."""
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
