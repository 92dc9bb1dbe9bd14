"""`itergp fit`, `refine` and `update`: a model is computed, saved, and then explained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itergp.cli.app import BudgetOption, HeaderOption, JsonOption, ModelArgument, app, reporting, say
from itergp.cli.files import existing, load_model, save_model, writable
from itergp.errors import ItergpError
from itergp.tables import Layout, read_table

if TYPE_CHECKING:
    from itergp.estimator.regressor import IterGPRegressor

OutOption = Annotated[
    Path | None, typer.Option(help="Where the model goes; MODEL itself is replaced by default.")
]
ADVICE = "Use --categorical or --drop for such columns."


@app.command()
def fit(
    train: Annotated[
        Path, typer.Argument(help="Rows to learn from: CSV or Parquet.", metavar="TRAIN", show_default=False)
    ],
    target: Annotated[
        str, typer.Option(help="The column to predict: its name, or its number from 1.", show_default=False)
    ],
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to leave out; more than once, or with commas.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Columns of categories, which become one-hot features.")
    ] = None,
    budget: BudgetOption = None,
    cache: Annotated[str, typer.Option(help="Memory for stored kernel tiles, such as 4GB.")] = "auto",
    seed: Annotated[
        int, typer.Option(help="The same seed and a budget in actions give the same model.", min=0)
    ] = 0,
    out: Annotated[Path, typer.Option(help="Where the model goes.")] = Path("model.itergp"),
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn hyper-parameters and condition on the rows of a table, within the budget. Ctrl-C saves what
    there is."""
    with reporting():
        writable(out, existing(train))
        _check(budget, cache)
        table = read_table(train, header)
        layout = Layout.of(table, target, drop or (), categorical or ())
        X, y = layout.X(table, ADVICE), layout.y(table)
        from itergp.estimator.regressor import IterGPRegressor

        model = IterGPRegressor(budget=budget, cache=cache, random_state=seed)
        _compute(model, budget, "fitting", lambda: model.fit(X, y), layout, out, as_json)


@app.command()
def refine(
    model: ModelArgument,
    budget: BudgetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """The same model after more computation. Ctrl-C saves what there is."""
    with reporting():
        out = writable(out or existing(model))
        _check(budget)
        estimator, layout = load_model(existing(model))
        _compute(estimator, budget, "refining", lambda: estimator.refine(budget), layout, out, as_json)


@app.command()
def update(
    model: ModelArgument,
    more: Annotated[
        Path,
        typer.Argument(
            help="More rows, with the target: CSV or Parquet.", metavar="MORE", show_default=False
        ),
    ],
    budget: BudgetOption = None,
    out: OutOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add rows to a model; hyper-parameters stay. Without a budget, the last one holds. Ctrl-C saves what
    there is."""
    with reporting():
        out = writable(out or existing(model), existing(more))
        _check(budget)
        estimator, layout = load_model(existing(model))
        table = read_table(more, header, layout.names)
        X, y = layout.X(table), layout.y(table)
        estimator.budget = budget or estimator.budget
        _compute(
            estimator, estimator.budget, "updating", lambda: estimator.partial_fit(X, y), layout, out, as_json
        )


def _check(budget: str | None, cache: str = "auto") -> None:
    """What could be wrong is found before any file is read."""
    from itergp.estimator.budgets import Budget
    from itergp.linalg.compute import parse_bytes

    Budget.parse(budget, "--budget")
    if cache != "auto":
        parse_bytes("--cache", cache)


def _compute(
    model: "IterGPRegressor",
    budget: str | None,
    text: str,
    work: Callable[[], object],
    layout: Layout,
    out: Path,
    as_json: bool,
) -> None:
    """Compute, save, explain. Ctrl-C, SIGTERM and SIGHUP end the work, and wait until it is saved; then
    nothing can be lost."""
    from itergp.cli.bar import progress_bar
    from itergp.cli.measuring import described, measured
    from itergp.estimator.budgets import Budget
    from itergp.estimator.progress import watching_interrupts
    from itergp.solver.state import Status

    with watching_interrupts(ends_anyway=True) as interrupts:
        with progress_bar(model, Budget.parse(budget), text), interrupts.raised():
            if interrupts.asked:  # while the bar was prepared
                raise KeyboardInterrupt
            work()
        save_model(out, model.fit_, layout)
    values = described(model.fit_, layout, out)
    if not interrupts.asked and model.status_ is not Status.INTERRUPTED:
        try:
            values |= measured(model.fit_)
        except KeyboardInterrupt:
            say("Note: interrupted, so what more budget would buy was not measured.")
        except (ItergpError, MemoryError) as error:
            say(f"Note: what more budget would buy was not measured: {error}")
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
        return
    from itergp.cli.drawing import draw_model

    draw_model(values)
    say(
        f"Saved: {out} ({values['bytes'] / 1e6:.1f} MB). {values['learning']['advice']} Inference: "
        f"{values['budget']['status']}."
    )
