"""`itergp predict`."""

import contextlib
import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itergp.cli.app import HeaderOption, JsonOption, ModelArgument, app, console, reporting, say
from itergp.cli.files import existing, load_model, writable
from itergp.errors import InputError, StorageError
from itergp.tables import Inputs, csv_text, table_format, writing_table

if TYPE_CHECKING:
    import numpy as np

    from itergp.cli.measuring import Predicting

Columns = dict[str, "np.ndarray"]


@app.command()
def predict(
    model: ModelArgument,
    new: Annotated[
        Path, typer.Argument(help="Rows to predict: CSV or Parquet.", metavar="NEW", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Output file, .csv or .parquet; printed to stdout by default.")
    ] = None,
    level: Annotated[float, typer.Option(help="Coverage probability of the prediction interval.")] = 0.95,
    interval: Annotated[
        str,
        typer.Option(
            help="How the interval is made: gaussian, or conformal, which ends where held-out rows say."
        ),
    ] = "gaussian",
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict mean, standard deviation, its computational part and an interval for each row, in order."""
    with reporting():
        if not 0 < level < 1:
            raise InputError(f"--level is {level}; expected a probability between 0 and 1, such as 0.95.")
        _check_interval(interval)
        if out is not None:
            table_format(writable(out, existing(model), existing(new)))
        estimator, layout = load_model(existing(model))
        inputs = Inputs(existing(new), header, layout)
        from itergp.cli.measuring import Predicting

        predicting = Predicting(estimator.fit_, level, inputs.rows, interval)
        about: dict[str, object] = {
            "unused_columns": inputs.unknown,
            "out": None if out is None else str(out),
        }
        # a progress line, but not between rows on a terminal
        shown = out is not None or as_json or not console.is_terminal
        with contextlib.closing(_predicted(model, predicting, inputs, shown)) as blocks:
            if out is not None:
                _write(out, blocks)
            elif as_json:
                about["predictions"] = _gathered(blocks)
            else:
                _say_unused(inputs)
                _print(blocks)
                return
        values = predicting.summary() | about
        if as_json:
            typer.echo(json.dumps(values, allow_nan=False))
            return
        _say_unused(inputs)
        from itergp.cli.drawing import draw_predictions

        draw_predictions(values)
        say(f"Written: {out}")


def _check_interval(interval: str) -> None:
    from itergp.validate import INTERVALS, choice

    choice("--interval", interval, INTERVALS)


def _say_unused(inputs: Inputs) -> None:
    if inputs.unknown:
        names = ", ".join(map(repr, inputs.unknown))
        say(f"Note: ignored columns that the model does not use: {names}.")


def _predicted(
    model: Path, predicting: "Predicting", inputs: Inputs, shown: bool
) -> Generator[Columns, None, None]:
    """The columns of each block of rows, in order. A progress line is `shown`, or not."""
    import numpy as np

    from itergp.cli.rows import progress_of_rows
    from itergp.fitted.predictions import batch

    with progress_of_rows(inputs.rows, shown) as advance:
        for X in inputs.blocks(batch(predicting.fit)):
            columns = predicting(X)
            if not all(np.isfinite(column).all() for column in columns.values()):
                raise StorageError(
                    f"{model} predicts values that are not finite, so the model is damaged; fit it again."
                )
            advance(len(X))
            yield columns


def _write(out: Path, blocks: Iterator[Columns]) -> None:
    """Block by block; the file appears, or is replaced, when all are written. Signals that end the process
    end it here, so that nothing is left behind."""
    from itergp.estimator.progress import watching_interrupts

    with watching_interrupts() as interrupts, interrupts.raised(), writing_table(out) as write:
        for columns in blocks:
            write(columns)


def _print(blocks: Iterator[Columns]) -> None:
    for number, columns in enumerate(blocks):
        typer.echo(csv_text(columns, names=number == 0), nl=False)


def _gathered(blocks: Iterator[Columns]) -> dict[str, list[float]]:
    gathered: dict[str, list[float]] = {}
    for columns in blocks:
        for name, column in columns.items():
            gathered.setdefault(name, []).extend(column.tolist())
    return gathered
