"""`itergp report`: one page about a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from itergp.cli.app import HeaderOption, ModelArgument, app, console, one_line, reporting, say
from itergp.cli.files import existing, load_model, writable
from itergp.errors import InputError
from itergp.tables import read_table


@app.command()
def report(
    model: ModelArgument,
    data: Annotated[
        Path | None,
        typer.Option(help="Test rows, with the target: CSV or Parquet. Else training rows are held out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes; MODEL with .html by default.")
    ] = None,
    header: HeaderOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers of the page as JSON; no page, unless --out.")
    ] = False,
) -> None:
    """One HTML page about a model: quality, what is not computed yet, and what the computation bought step
    by step."""
    with reporting():
        if out is None and not as_json:
            out = existing(model).with_suffix(".html")
        if out is not None:
            _page(writable(out, existing(model), *([] if data is None else [existing(data)])))
        estimator, layout = load_model(existing(model))
        X_test = y_test = None
        if data is not None:
            table = read_table(existing(data), header, layout.names)
            X_test, y_test = layout.X(table), layout.y(table)
        from itergp.report import numbers, write_page

        target = None if layout.target is None else [layout.target.name]
        values = numbers(
            estimator.fit_,
            X_test,
            y_test,
            feature_names=layout.inputs,
            target_names=target,
            dropped=layout.dropped,
        )
        if out is not None:
            write_page(out, values)
        if as_json:
            typer.echo(json.dumps(values, allow_nan=False))
            return
        for sentence in values["verdict"] + values["warnings"]:
            console.print(one_line(sentence))
        say(f"Written: {out}")


def _page(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path} ends in {path.suffix!r}; expected the name of a page, such as fit.html.")
