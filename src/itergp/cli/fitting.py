"""`itergp fit`, `refine` and `update`: compute a model, save it, and print a summary."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itergp.cli.app import (
    INTERRUPTED,
    BudgetOption,
    DecimalOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    SkipBadOption,
    TargetOption,
    app,
    reporting,
    say,
    say_notes,
)
from itergp.cli.clusters import ClusterOption, check_cluster, engine_of, say_placement
from itergp.cli.files import (
    check_decimal,
    existing,
    load_model,
    save_model,
    supervised,
    table_file,
    with_target,
    writable,
)
from itergp.errors import InputError, ItergpError
from itergp.tables import Layout, group_labels, grouping, read_table, training
from itergp.tables.faults import SKIPPING

if TYPE_CHECKING:
    import numpy as np

    from itergp.estimator.regressor import IterGPRegressor
    from itergp.fitted.fit import Fit
    from itergp.tables.table import Head

OutOption = Annotated[
    Path | None, typer.Option(help="Output file for the model; overwrites MODEL by default.")
]
ADVICE = f"Use --categorical or --drop for such columns{SKIPPING}."


@app.command()
def fit(
    train: Annotated[
        Path,
        typer.Argument(
            help="Training data: CSV or Parquet; - for standard input.", metavar="TRAIN", show_default=False
        ),
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
    missing: Annotated[
        str,
        typer.Option(
            help="Missing values (empty, NA, NaN, null): refuse them, drop such rows, or impute them from "
            "similar rows, with wider intervals where they matter. The model does the same in predict, "
            "update and report.",
            metavar="refuse|drop|impute",
        ),
    ] = "refuse",
    dates: Annotated[
        str,
        typer.Option(
            help="What becomes of dates such as 2024-01-31 or 2024-01-31T12:30: some of days, yearday, "
            "weekday, hour; auto takes those that can say something.",
            metavar="auto|PARTS",
        ),
    ] = "auto",
    decimal: DecimalOption = None,
    skip_bad: SkipBadOption = False,
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
    mean: Annotated[str, typer.Option(help="The mean function: constant, zero or linear.")] = "constant",
    budget: BudgetOption = None,
    cache: Annotated[str, typer.Option(help="Memory for cached kernel tiles, such as 4GB.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(help="Threads; all cores by default.", min=1, show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    seed: Annotated[
        int,
        typer.Option(help="Random seed. The same seed and a budget in actions give the same model.", min=0),
    ] = 0,
    out: Annotated[Path, typer.Option(help="Output file for the model.")] = Path("model.itergp"),
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn hyper-parameters and fit the model to a table, within the budget. Ctrl-C stops early, saves
    the model and ends with exit code 3."""
    with reporting(as_json), table_file(train) as path:
        writable(out, path)
        _check(budget, cache)
        _check_choice(kernel, groups, mean)
        _check_table(missing, dates, decimal)
        check_cluster(cluster)
        variance = _noise(noise)
        read = {"header": header, "decimal": decimal, "skip_bad": skip_bad}
        chosen = _Chosen(target, tuple(drop or ()), tuple(categorical or ()), groups, missing, dates)
        layout, labels, X, y, notes = _training(path, read, chosen)
        say_notes(notes)
        from itergp.estimator.regressor import IterGPRegressor

        with engine_of(cluster) as engine:
            say_placement(engine, *X.shape)
            model = IterGPRegressor(
                kernel,
                mean=mean,
                noise=variance,
                budget=budget,
                cache=cache,
                threads=threads,
                random_state=seed,
                engine=engine or "auto",
            )
            model._overwrites = True  # nobody else needs X
            work = partial(model.fit, X, y, labels, table=layout)
            _compute(model, budget, "fitting", work, layout, out, as_json, notes)


@app.command()
def refine(
    model: ModelArgument,
    budget: BudgetOption = None,
    cluster: ClusterOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Improve a model with more computation. Ctrl-C stops early and saves the model."""
    with reporting(as_json):
        out = writable(out or existing(model))
        _check(budget)
        check_cluster(cluster)
        existing(model)
        with engine_of(cluster) as engine:
            estimator, layout = load_model(model, engine)
            _compute(estimator, budget, "refining", lambda: estimator.refine(budget), layout, out, as_json)


@app.command()
def update(
    model: ModelArgument,
    more: Annotated[
        Path,
        typer.Argument(
            help="Additional rows, including the target: CSV or Parquet; - for standard input.",
            metavar="MORE",
            show_default=False,
        ),
    ],
    target: TargetOption = None,
    budget: BudgetOption = None,
    cluster: ClusterOption = None,
    out: OutOption = None,
    header: HeaderOption = None,
    decimal: DecimalOption = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add rows to a model; hyper-parameters are kept. The default is the model's last budget. Ctrl-C stops
    early and saves the model."""
    with reporting(as_json), table_file(more) as path:
        out = writable(out or existing(model), path)
        _check(budget)
        check_decimal(decimal)
        check_cluster(cluster)
        existing(model)
        with engine_of(cluster) as engine:
            estimator, layout = load_model(model, engine)
            layout = with_target(layout, target)
            X, y, notes, _ = supervised(path, header, layout, decimal, skip_bad)
            say_notes(notes)
            estimator.budget = budget or estimator.budget
            work = partial(estimator.partial_fit, X, y)
            _compute(estimator, estimator.budget, "updating", work, layout, out, as_json, notes)


@dataclass(frozen=True)
class _Chosen:
    """What `fit` was told about columns."""

    target: str
    drop: Sequence[str]
    categorical: Sequence[str]
    groups: str | None
    missing: str
    dates: str

    def of(self, head: "Head") -> dict[str, Any]:
        names = ("target", "drop", "categorical", "missing", "dates")
        return {name: getattr(self, name) for name in names} | {"groups": grouping(head, self.groups)}


def _training(
    path: Path, read: dict[str, Any], chosen: _Chosen
) -> "tuple[Layout, list[str] | str | None, np.ndarray, np.ndarray, list[str]]":
    """The columns, the group of each row, X and y, and what was done to the table, which is gone before the
    fit begins."""
    table = read_table(path, use=lambda head: Layout.uses(head, **chosen.of(head)), **read)
    layout = Layout.of(table, **chosen.of(table))
    found = training(table, layout, ADVICE, read["skip_bad"])
    by, labels = grouping(table, chosen.groups), chosen.groups
    if by is None:
        return layout, labels, found.X, found.y, table.notes.sentences()
    kept = list(compress(group_labels(table, by), found.kept))
    return layout, kept, found.X, found.y, table.notes.sentences()


def _found_of_missing(fit: "Fit", layout: Layout) -> list[str]:
    """What a first fit found about columns that lack values; a loaded model knew it before."""
    if layout.told is not None or fit.donors is None:
        return []
    return layout.knowing(fit.donors.holes).outcome()


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def _check_table(missing: str, dates: str, decimal: str | None) -> None:
    """Validate what is to be done to a table before it is read."""
    from itergp.tables.dates import AUTO, parts_of
    from itergp.tables.feature import MISSING
    from itergp.validate import choice

    choice("--missing", missing, MISSING)
    check_decimal(decimal)
    if dates != AUTO:
        parts_of(dates)


def _check(budget: str | None, cache: str = "auto") -> None:
    """Validate options before any file is read."""
    from itergp.estimator.budgets import Budget
    from itergp.linalg.compute import parse_bytes

    Budget.parse(budget, "--budget")
    if cache != "auto":
        parse_bytes("--cache", cache)


def _check_choice(kernel: str, groups: str | None, mean: str) -> None:
    """Validate the prior before any file is read; groups serve to choose the kernel."""
    from itergp.estimator.names import AUTO, KERNELS, MEANS
    from itergp.validate import choice

    choice("--kernel", kernel, (AUTO, *KERNELS))
    choice("--mean", mean, MEANS)
    if groups is not None and kernel != AUTO:
        raise InputError(
            f"--groups chooses between kernels, but --kernel is {kernel!r}; leave one of them out. --drop "
            "excludes a column."
        )


def _noise(text: str) -> str | float:
    """A number, or what is to be learned; validated before any file is read."""
    from itergp.estimator.names import LEARNED_NOISE

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
    notes: Sequence[str] = (),
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
    found = _found_of_missing(model.fit_, layout)
    say_notes(found)
    values = described(model.fit_, layout, out) | {"notes": [*notes, *found]}
    interrupted = model.status_ is Status.INTERRUPTED
    if not interrupts.asked and not interrupted:
        try:
            values |= measured(model.fit_)
        except KeyboardInterrupt:
            say("Note: interrupted, so the benefit of a larger budget was not measured.")
        except (ItergpError, MemoryError) as error:
            say(f"Note: the benefit of a larger budget was not measured: {error}")
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
    else:
        from itergp.cli.drawing import draw_model

        draw_model(values)
        say(
            f"Saved: {out} ({_size(values['bytes'])}). {values['learning']['advice']} Inference: "
            f"{values['budget']['status']}."
        )
    if interrupted:
        raise typer.Exit(INTERRUPTED)
