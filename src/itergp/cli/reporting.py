"""`itergp report`: an HTML report about a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from itergp.cli.app import (
    DecimalOption,
    HeaderOption,
    ModelArgument,
    SkipBadOption,
    TargetOption,
    app,
    console,
    one_line,
    reporting,
    say,
    say_notes,
)
from itergp.cli.files import check_decimal, existing, load_fit, supervised, with_target, writable
from itergp.errors import InputError


@app.command()
def report(
    model: ModelArgument,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Test rows with the target: CSV or Parquet; by default, training rows are held out."
        ),
    ] = None,
    target: TargetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file; MODEL with the suffix .html by default.")
    ] = None,
    header: HeaderOption = None,
    decimal: DecimalOption = None,
    skip_bad: SkipBadOption = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the report's numbers as JSON; writes a page only with --out."),
    ] = False,
) -> None:
    """Write an HTML report about a model: its quality, what is not computed yet, and what each step of the
    computation bought."""
    with reporting(as_json):
        check_decimal(decimal)
        if out is None and not as_json:
            out = existing(model).with_suffix(".html")
        if out is not None:
            _page(writable(out, existing(model), *([] if data is None else [existing(data)])))
        fit, layout = load_fit(existing(model))
        layout = with_target(layout, target)
        X_test = y_test = places = None
        if data is not None:
            X_test, y_test, notes, places = supervised(existing(data), header, layout, decimal, skip_bad)
            say_notes(notes)
        from itergp.report import numbers, write_page

        called = None if layout.target is None else [layout.target.name]
        values = numbers(
            fit,
            X_test,
            y_test,
            feature_names=layout.inputs,
            target_names=called,
            dropped=layout.dropped,
            places=places,
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
        raise InputError(f"{path} ends in {path.suffix!r}; expected an HTML file name, such as fit.html.")
