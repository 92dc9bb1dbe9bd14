"""`itergp fit`, `refine` and `update`: compute a model, save it, and print a summary."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itergp.cli.app import BudgetOption, HeaderOption, JsonOption, ModelArgument, app, reporting, say
from itergp.cli.clusters import ClusterOption, check_cluster, engine_of
from itergp.cli.files import existing, load_model, save_model, supervised, writable
from itergp.errors import InputError, ItergpError
from itergp.tables import Layout, group_labels, grouping, read_table

if TYPE_CHECKING:
    import numpy as np

    from itergp.estimator.regressor import IterGPRegressor

OutOption = Annotated[
    Path | None, typer.Option(help="Output file for the model; overwrites MODEL by default.")
]
ADVICE = "Use --categorical or --drop for such columns."


@app.command()
def fit(
    train: Annotated[
        Path, typer.Argument(help="Training data: CSV or Parquet.", metavar="TRAIN", show_default=False)
    ],
    target: Annotated[
        str,
        typer.Option(
            help="The column to predict: its name, or its number counted from 1.", show_default=False
        ),
    ],
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to exclude; repeat or separate by commas.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Categorical columns, to be one-hot encoded; repeat or separate by commas."),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="auto, which chooses by held-out rows, or rbf, matern12, matern32, matern52, "
            "rational-quadratic or linear."
        ),
    ] = "auto",
    groups: Annotated[
        str | None,
        typer.Option(
            help="If new rows will come from new groups (stations, patients): the column that names the "
            "group, which is then not a feature; or blocks, if they will lie in gaps between the known ones.",
            metavar="COLUMN|blocks",
        ),
    ] = None,
    noise: Annotated[
        str,
        typer.Option(
            help="The noise variance, in variances of the target; learn; heteroscedastic, which learns "
            "how it varies with the features; or robust, if a few targets are gross errors."
        ),
    ] = "learn",
    budget: BudgetOption = None,
    cache: Annotated[str, typer.Option(help="Memory for cached kernel tiles, such as 4GB.")] = "auto",
    cluster: ClusterOption = None,
    seed: Annotated[
        int,
        typer.Option(help="Random seed. The same seed and a budget in actions give the same model.", min=0),
    ] = 0,
    out: Annotated[Path, typer.Option(help="Output file for the model.")] = Path("model.itergp"),
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn hyper-parameters and fit the model to a table, within the budget. Ctrl-C stops early and saves
    the model."""
    with reporting():
        writable(out, existing(train))
        _check(budget, cache)
        _check_choice(kernel, groups)
        check_cluster(cluster)
        variance = _noise(noise)
        layout, labels, X, y = _training(train, header, (target, drop or (), categorical or ()), groups)
        from itergp.estimator.regressor import IterGPRegressor

        with engine_of(cluster) as engine:
            model = IterGPRegressor(
                kernel, noise=variance, budget=budget, cache=cache, random_state=seed, engine=engine
            )
            _compute(model, budget, "fitting", lambda: model.fit(X, y, labels), layout, out, as_json)


@app.command()
def refine(
    model: ModelArgument,
    budget: BudgetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Improve a model with more computation. Ctrl-C stops early and saves the model."""
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
            help="Additional rows, including the target: CSV or Parquet.", metavar="MORE", show_default=False
        ),
    ],
    budget: BudgetOption = None,
    out: OutOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add rows to a model; hyper-parameters are kept. The default is the model's last budget. Ctrl-C stops
    early and saves the model."""
    with reporting():
        out = writable(out or existing(model), existing(more))
        _check(budget)
        estimator, layout = load_model(existing(model))
        X, y = supervised(more, header, layout)
        estimator.budget = budget or estimator.budget
        _compute(
            estimator, estimator.budget, "updating", lambda: estimator.partial_fit(X, y), layout, out, as_json
        )


def _training(
    path: Path, header: bool | None, chosen: tuple[str, Sequence[str], Sequence[str]], groups: str | None
) -> "tuple[Layout, list[str] | str | None, np.ndarray, np.ndarray]":
    """The columns, the group of each row, X and y. The table itself is gone before the fit begins."""
    table = read_table(path, header, (), lambda head: Layout.uses(head, *chosen, grouping(head, groups)))
    by = grouping(table, groups)
    layout = Layout.of(table, *chosen, by)
    labels = groups if by is None else group_labels(table, by)
    return layout, labels, layout.X(table, ADVICE), layout.y(table)


def _check(budget: str | None, cache: str = "auto") -> None:
    """Validate options before any file is read."""
    from itergp.estimator.budgets import Budget
    from itergp.linalg.compute import parse_bytes

    Budget.parse(budget, "--budget")
    if cache != "auto":
        parse_bytes("--cache", cache)


def _check_choice(kernel: str, groups: str | None) -> None:
    """Validate the kernel before any file is read; groups serve to choose it."""
    from itergp.estimator.names import AUTO, KERNELS
    from itergp.validate import choice

    choice("--kernel", kernel, (AUTO, *KERNELS))
    if groups is not None and kernel != AUTO:
        raise InputError(
            f"--groups chooses between kernels, but --kernel is {kernel!r}; leave one of them out. --drop "
            "excludes a column."
        )


def _noise(text: str) -> str | float:
    """A number, or what is to be learned; validated before any file is read."""
    from itergp.estimator.hyperparameters import LEARNED_NOISE

    if text in LEARNED_NOISE:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(
            f"--noise is {text!r}; expected {', '.join(LEARNED_NOISE)} or a variance: a finite number >= 0."
        )
    return value


def _compute(
    model: "IterGPRegressor",
    budget: str | None,
    text: str,
    work: Callable[[], object],
    layout: Layout,
    out: Path,
    as_json: bool,
) -> None:
    """Compute, save, summarize. Ctrl-C, SIGTERM and SIGHUP stop the computation, and take effect only after
    the model is saved."""
    from itergp.cli.bar import progress_bar
    from itergp.cli.measuring import described, measured
    from itergp.estimator.budgets import Budget
    from itergp.estimator.progress import watching_interrupts
    from itergp.solver.state import Status

    with watching_interrupts(ends_anyway=True) as interrupts:
        with progress_bar(model, Budget.parse(budget), text), interrupts.raised():
            if interrupts.asked:  # while the bar was being set up
                raise KeyboardInterrupt
            work()
        save_model(out, model.fit_, layout)
    values = described(model.fit_, layout, out)
    if not interrupts.asked and model.status_ is not Status.INTERRUPTED:
        try:
            values |= measured(model.fit_)
        except KeyboardInterrupt:
            say("Note: interrupted, so the benefit of a larger budget was not measured.")
        except (ItergpError, MemoryError) as error:
            say(f"Note: the benefit of a larger budget was not measured: {error}")
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
        return
    from itergp.cli.drawing import draw_model

    draw_model(values)
    say(
        f"Saved: {out} ({values['bytes'] / 1e6:.1f} MB). {values['learning']['advice']} Inference: "
        f"{values['budget']['status']}."
    )
