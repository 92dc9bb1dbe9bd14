"""`itergp predict`."""

import contextlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itergp.cli.app import (
    DecimalOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    SkipBadOption,
    app,
    console,
    reporting,
    say,
    say_notes,
)
from itergp.cli.clusters import ClusterOption, check_cluster, engine_of
from itergp.cli.files import check_decimal, existing, load_model, table_file, writable
from itergp.errors import InputError, StorageError
from itergp.tables import Inputs, csv_text, table_format, writing_table

if TYPE_CHECKING:
    import numpy as np

    from itergp.cli.measuring import Predicting
    from itergp.tables.inputs import Block

Columns = Mapping[str, "np.ndarray | Sequence[str]"]
SPREAD = 2**18  # rows at once, so that each worker of a cluster has some


@app.command()
def predict(
    model: ModelArgument,
    new: Annotated[
        Path,
        typer.Argument(
            help="Rows to predict: CSV or Parquet; - for standard input.", metavar="NEW", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Output file, .csv or .parquet; printed to stdout by default.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Columns to copy to the output, such as an id; repeat or separate by commas."),
    ] = None,
    level: Annotated[float, typer.Option(help="Coverage probability of the prediction interval.")] = 0.95,
    interval: Annotated[
        str,
        typer.Option(
            help="How the interval is made: gaussian, or conformal, which ends where held-out rows say."
        ),
    ] = "gaussian",
    quantiles: Annotated[
        str | None,
        typer.Option(
            help="Also predict these quantiles, such as 0.1,0.5,0.9, in columns q0.1 and so on, made as the "
            "interval is.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Also measure which part of the uncertainty is computational, in a column of its own. This "
            "takes much longer than the predictions, unless inference was exact.",
        ),
    ] = False,
    cluster: ClusterOption = None,
    header: HeaderOption = None,
    decimal: DecimalOption = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict mean, standard deviation and an interval for each row, in order. Rows that cannot be predicted
    are empty."""
    with reporting(as_json), table_file(new) as path:
        if not 0 < level < 1:
            raise InputError(f"--level is {level}; expected a probability between 0 and 1, such as 0.95.")
        _check_interval(interval)
        asked = _levels(quantiles)
        check_decimal(decimal)
        check_cluster(cluster)
        if out is not None:
            table_format(writable(out, existing(model), path))
        existing(model)
        with engine_of(cluster) as engine:
            estimator, layout = load_model(model, engine)
            inputs = Inputs(path, header, layout, decimal, skip_bad, keep or ())
            from itergp.cli.measuring import Predicting

            predicting = Predicting(estimator.fit_, level, inputs.rows, interval, share, asked)
            # a progress line, but not between rows on a terminal
            shown = out is not None or as_json or not console.is_terminal
            with contextlib.closing(_predicted(model, predicting, inputs, shown)) as blocks:
                _put_out(predicting, inputs, blocks, out, as_json)


def _put_out(
    predicting: "Predicting", inputs: Inputs, blocks: Iterator[Columns], out: Path | None, as_json: bool
) -> None:
    """To a file with a summary, as JSON, or row by row."""
    about: dict[str, object] = {"unused_columns": inputs.unknown, "out": None if out is None else str(out)}
    if out is not None:
        _write(out, blocks)
    elif as_json:
        about["predictions"] = _gathered(blocks)
    else:
        _say_unused(inputs)
        _print(blocks)
        _say_done(inputs)
        return
    values = predicting.summary() | about | {"notes": _notes(inputs)}
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
        return
    _say_unused(inputs)
    _say_done(inputs)
    from itergp.cli.drawing import draw_predictions

    draw_predictions(values)
    say(f"Written: {out}")


def _check_interval(interval: str) -> None:
    from itergp.validate import INTERVALS, choice

    choice("--interval", interval, INTERVALS)


def _levels(quantiles: str | None) -> list[float]:
    """Probabilities, separated by commas; each once."""
    from itergp.estimator.inputs import probabilities

    if quantiles is None:
        return []
    try:
        found = [float(text) for text in quantiles.split(",")]
    except ValueError:
        raise InputError(
            f"--quantiles is {quantiles!r}; expected probabilities, such as 0.1,0.5,0.9."
        ) from None
    return list(dict.fromkeys(probabilities(found, "--quantiles").tolist()))


def _say_unused(inputs: Inputs) -> None:
    if inputs.unknown:
        names = ", ".join(map(repr, inputs.unknown))
        say(f"Note: ignored columns that the model does not use: {names}.")


def _notes(inputs: Inputs) -> list[str]:
    """Rows are not left out of the output here: they are there, and empty."""
    return [
        said.replace("are left out, as", "are empty in the output, as") for said in inputs.notes.sentences()
    ]


def _say_done(inputs: Inputs) -> None:
    say_notes(_notes(inputs))


def _predicted(
    model: Path, predicting: "Predicting", inputs: Inputs, shown: bool
) -> Generator[Columns, None, None]:
    """The columns of each block of rows, in order. A progress line is `shown`, or not."""
    import numpy as np

    from itergp.cli.rows import progress_of_rows
    from itergp.fitted.batches import batch

    with progress_of_rows(inputs.rows, shown) as advance:
        for block in inputs.blocks(max(batch(predicting.fit), SPREAD if predicting.spread else 0)):
            columns = predicting(block.X[block.usable]) if block.usable.any() else {}
            if not all(np.isfinite(column).all() for column in columns.values()):
                raise StorageError(
                    f"{model} predicts values that are not finite, so the model is damaged; fit it again."
                )
            advance(len(block.X))
            yield _with_empty(predicting.columns, columns, block)


def _with_empty(names: Sequence[str], columns: "dict[str, np.ndarray]", block: "Block") -> Columns:
    """What is kept of the table, and the predictions: NaN in rows that have none."""
    import numpy as np

    for name in names:
        if name in block.kept:
            raise InputError(f"--keep names {name!r}, which is a column of the predictions; rename it.")
    found = {}
    for name in names:
        found[name] = np.full(len(block.X), np.nan)
        if columns:
            found[name][block.usable] = columns[name]
    return {**block.kept, **found}


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


def _gathered(blocks: Iterator[Columns]) -> dict[str, list[Any]]:
    gathered: dict[str, list[Any]] = {}
    for columns in blocks:
        for name, column in columns.items():
            cells = column if isinstance(column, list) else column.tolist()  # type: ignore[union-attr]
            gathered.setdefault(name, []).extend(None if cell != cell else cell for cell in cells)
    return gathered
