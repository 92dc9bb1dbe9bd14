"""The command line: parses, calls, prints."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    help="Gaussian processes that know what they have not computed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Training points.", min=1000)] = 20_000,
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("itergp-demo.png"),
) -> None:
    """Fit the paper's synthetic data under growing budgets, and take the uncertainty apart."""
    from itergp.demo import NOISE, run

    console.print(f"Fitting y = sin(pi x^T 1) + noise at {rows:,} points in 4 dimensions, under a budget of actions.")
    with console.status("computing ..."):
        measured, picture = run(rows, plot=_plot_path(plot))
    table = Table(title="What each budget bought (latent variances, mean over 2,000 test points)")
    for heading in (
        "actions",
        "passes over K",
        "seconds",
        "combined",
        "computational",
        "mathematical",
        "RMSE",
        "NLL",
        "95 % coverage",
    ):
        table.add_column(heading, justify="right")
    for row in measured:
        table.add_row(
            str(row.actions),
            str(row.passes),
            f"{row.seconds:.1f}",
            f"{row.combined:.5f}",
            f"{row.computational:.5f} ± {row.computational_error:.5f}",
            f"{row.mathematical:.5f}",
            f"{row.rmse:.4f}",
            f"{row.nll:.3f}",
            f"{100 * row.coverage:.1f} %",
        )
    console.print(table)
    console.print(
        "The computational part is estimated with 15 further passes; what more compute would remove, and no more data would."
    )
    console.print(
        f"Noise variance {NOISE}; the best possible RMSE is {NOISE**0.5:.3f}. Peak memory {measured[-1].peak_memory:.2f} GB."
    )
    if picture is not None:
        console.print(f"Picture: {picture}")


def _plot_path(path: Path) -> Path | None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        console.print("No picture: matplotlib is missing. Install itergp[plots].")
        return None
    return path


@app.command()
def info() -> None:
    """Versions, memory, and which engine computes kernel products here, and why."""
    import platform
    from importlib.metadata import version

    import itergp
    from itergp.linalg.compute import Compute, available_bytes
    from itergp.linalg.engines import choose
    from itergp.prior.kernels import Matern32

    console.print(f"itergp {itergp.__version__}, Python {platform.python_version()}, {platform.machine()}")
    console.print(", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "jax", "scikit-learn")))
    console.print(f"memory available: {available_bytes() / 1e9:.1f} GB; tiles are stored in at most a quarter of it")
    for n in (1_000, 20_000):
        engine, reason = choose(Compute(), Matern32(), n, 10)
        console.print(f"engine for {n:,} rows: {engine.name} ({reason})")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
