"""`itergp info`: describe the installation or a model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itergp.cli.app import JsonOption, app, console, one_line, reporting
from itergp.cli.clusters import ClusterOption, show_cluster
from itergp.cli.files import existing, load_fit
from itergp.errors import InputError

if TYPE_CHECKING:
    from itergp.tables import Layout

MOST = 5  # arrays of a file that are named


@app.command()
def info(
    model: Annotated[
        Path | None, typer.Argument(help="A model to describe.", metavar="[MODEL]", show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions, memory and the engine for kernel products, with the reason; or describe a model, or the
    workers of a cluster."""
    with reporting(as_json):
        if cluster is not None:
            if model is not None:
                raise InputError("MODEL and --cluster are both given; expected one of them.")
            show_cluster(cluster, as_json)
        elif model is None:
            _here(as_json)
        else:
            _model(model, as_json)


def _here(as_json: bool) -> None:
    import platform
    from importlib.metadata import version

    import itergp
    from itergp.linalg.compute import Compute, available_bytes
    from itergp.linalg.engines import choose
    from itergp.prior.stationary import Matern32

    engines = {n: choose(Compute(), Matern32(), n, 10) for n in (1_000, 20_000)}
    versions = {name: version(name) for name in ("numpy", "scipy", "jax", "scikit-learn")}
    if as_json:
        used = {str(n): {"engine": engine.name, "reason": reason} for n, (engine, reason) in engines.items()}
        own = {
            "itergp": itergp.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        typer.echo(
            json.dumps(own | {"versions": versions, "memory_bytes": available_bytes(), "engines": used})
        )
        return
    console.print(f"itergp {itergp.__version__}, Python {platform.python_version()}, {platform.machine()}")
    console.print(", ".join(f"{name} {number}" for name, number in versions.items()))
    console.print(
        f"memory available: {available_bytes() / 1e9:.1f} GB; cached tiles use at most a quarter of it"
    )
    for n, (engine, reason) in engines.items():
        console.print(f"engine for {n:,} rows: {engine.name} ({reason})")


def _model(path: Path, as_json: bool) -> None:
    fit, layout = load_fit(existing(path))
    from itergp.cli.measuring import described

    values = described(fit, layout, path) | {"columns": layout.as_json()}
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
        return
    from itergp.cli.drawing import draw_candidates, draw_model

    console.print(f"{one_line(str(path))}: {values['bytes'] / 1e6:.1f} MB, {fit.used_features} inputs")
    console.print(f"in the file: {', '.join(f'{name} {size / 1e6:.1f} MB' for name, size in _largest(path))}")
    for feature in layout.features:
        if feature.categories is not None:
            known = [category for category in feature.categories if category]
            console.print(f"categories of {feature.name!r}: {', '.join(map(repr, known))}")
        elif feature.dates is not None:
            parts = [name.removeprefix(f"{feature.name}: ") for name in feature.dates.names(feature.name)]
            console.print(f"{feature.name!r} is a date, used as: {', '.join(parts)}")
    if layout.missing != "refuse":
        console.print(f"missing values: {layout.missing}{_told(layout)}")
    draw_model(values)
    draw_candidates(values["learned"]["candidates"])


def _told(layout: "Layout") -> str:
    """Which inputs say where a value was missing."""
    if layout.told is None:
        return ""
    names = ", ".join(repr(name) for name in layout.inputs if name in layout.told)
    return f"; inputs that say where: {names}" if names else "; no input says where"


def _largest(path: Path) -> list[tuple[str, int]]:
    """The arrays that take the most room."""
    from itergp.storage import sizes

    return list(sizes(path).items())[:MOST]
