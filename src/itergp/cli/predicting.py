"""`itergp predict`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from itergp.cli.app import HeaderOption, JsonOption, ModelArgument, app, reporting, say
from itergp.cli.files import existing, load_model, writable
from itergp.errors import InputError, StorageError
from itergp.tables import csv_text, read_table, table_format, write_table


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
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict mean, standard deviation, its computational part and an interval for each row, in order."""
    with reporting():
        if not 0 < level < 1:
            raise InputError(f"--level is {level}; expected a probability between 0 and 1, such as 0.95.")
        if out is not None:
            table_format(writable(out, existing(model), existing(new)))
        estimator, layout = load_model(existing(model))
        table = read_table(existing(new), header, layout.names)
        X, unused = layout.X(table), layout.unknown(table)
        import numpy as np

        from itergp.cli.measuring import predictions

        columns, values = predictions(estimator.fit_, X, level)
        if not all(np.isfinite(column).all() for column in columns.values()):
            raise StorageError(
                f"{model} predicts values that are not finite, so the model is damaged; fit it again."
            )
        values |= {"unused_columns": unused, "out": None if out is None else str(out)}
        if out is not None:
            write_table(out, columns)
        if as_json:
            rows = {} if out is not None else {name: column.tolist() for name, column in columns.items()}
            typer.echo(json.dumps(values | ({"predictions": rows} if rows else {}), allow_nan=False))
            return
        if unused:
            say(f"Note: ignored columns that the model does not use: {', '.join(map(repr, unused))}.")
        if out is None:
            typer.echo(csv_text(columns), nl=False)
            return
        from itergp.cli.drawing import draw_predictions

        draw_predictions(values)
        say(f"Written: {out}")
