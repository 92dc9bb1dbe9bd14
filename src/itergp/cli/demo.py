"""`itergp demo`: an example run on built-in data."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from itergp.cli.app import app, console, reporting
from itergp.cli.files import writable


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Training points.", min=1000)] = 20_000,
    plot: Annotated[Path, typer.Option(help="Output file for the plot.")] = Path("itergp-demo.png"),
    report: Annotated[Path, typer.Option(help="Output file for the report of the last fit.")] = Path(
        "itergp-demo.html"
    ),
) -> None:
    """Fit the paper's synthetic data with growing budgets, decompose the uncertainty, and write a report."""
    with reporting():
        _demo(rows, writable(plot), writable(report))


def _demo(rows: int, plot: Path, report: Path) -> None:
    from itergp.cli.demonstration import NOISE, run

    console.print(
        f"Fitting y = sin(pi x^T 1) + noise at {rows:,} points in 3 dimensions, with a budget of actions."
    )
    with console.status("computing ..."):
        measured, picture = run(rows, plot=_plot_path(plot), page=report)
    table = Table(title="What each budget bought")
    table.add_column("")
    for row in measured:
        table.add_column(f"{row.actions} actions", justify="right")
    lines = {
        "passes over K": lambda row: str(row.passes),
        "seconds": lambda row: f"{row.seconds:.1f}",
        "combined variance": lambda row: f"{row.combined:.4f}",
        "= computational": lambda row: f"{row.computational:.4f} ± {row.computational_error:.4f}",
        "+ mathematical": lambda row: f"{row.mathematical:.4f}",
        "RMSE": lambda row: f"{row.rmse:.4f}",
        "NLL": lambda row: f"{row.nll:.3f}",
        "95 % coverage": lambda row: f"{100 * row.coverage:.1f} %",
        "peak memory": lambda row: f"{row.peak_memory:.2f} GB",
    }
    for name, show in lines.items():
        table.add_row(name, *(show(row) for row in measured))
    console.print(table)
    console.print(
        "Variances are those of the latent function, averaged over 2,000 test points. The computational part "
        "is what more computation would remove, estimated with 15 further passes. The noise variance is "
        f"{NOISE}, so no RMSE can be below {NOISE**0.5:.2f}."
    )
    if picture is not None:
        console.print(f"Plot: {picture}")
    console.print(f"Report of the last fit (open in a browser): {report}")


def _plot_path(path: Path) -> Path | None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        console.print("No plot: matplotlib is not installed. Run pip install matplotlib.")
        return None
    return path
