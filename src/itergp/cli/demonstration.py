"""The example run of `itergp demo`: the paper's synthetic data, fitted within a budget, with the uncertainty
decomposed."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from itergp.datasets import synthetic
from itergp.estimator.regressor import IterGPRegressor
from itergp.linalg.compute import peak_bytes
from itergp.metrics import coverage, nll, rmse
from itergp.posterior.combined import Posterior
from itergp.prior.stationary import Matern32
from itergp.solver.policies import PseudoInput
from itergp.solver.stopping import MaxActions

NOISE = 0.01
FEATURES = 3
BLOCK = 128


@dataclass(frozen=True)
class Row:
    """Results for one budget; variances are means over the test points."""

    actions: int
    passes: int
    seconds: float
    combined: float
    computational: float
    computational_error: float
    rmse: float
    nll: float
    coverage: float
    peak_memory: float  # GB

    @property
    def mathematical(self) -> float:
        return self.combined - self.computational


def run(
    n: int = 20_000,
    budgets: tuple[int, ...] = (128, 256, 512),
    plot: Path | None = None,
    page: Path | None = None,
) -> tuple[list[Row], Path | None]:
    """Fit with growing budgets, each continuing from the previous one; measure, plot along the diagonal of
    the cube, and write the report."""
    X, y = synthetic(n + 2000, FEATURES, NOISE)
    X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
    model = IterGPRegressor(
        kernel=1.0 * Matern32(lengthscale=0.7),
        mean="zero",
        noise=NOISE,
        learn=False,
        policy=PseudoInput(block_size=BLOCK),
        neighbours=0,  # the table is about the actions shared by all predictions
        budget=MaxActions(budgets[0]),
        normalize=False,
    )
    rows: list[Row] = []
    panels = []
    for budget in budgets:
        begun = time.perf_counter()
        if not rows:
            model.fit(X, y)
        else:
            model.refine(MaxActions(budget - model.posterior_.rank))
        seconds = time.perf_counter() - begun + (rows[-1].seconds if rows else 0.0)
        rows.append(measure(model.fit_.shared, X_test, y_test, seconds))
        if plot is not None and budget in (budgets[0], budgets[-1]):
            panels.append(line(model.fit_.shared))
    if page is not None:
        model.report(page, X_test, y_test)
    return rows, _save(panels, plot)


def measure(posterior: Posterior, X_test: np.ndarray, y_test: np.ndarray, seconds: float) -> Row:
    mean, latent = posterior.mean(X_test), posterior.var(X_test)
    share = posterior.computational_share(X_test, probes=8, passes=15)
    variance = latent + NOISE
    return Row(
        actions=posterior.rank,
        passes=posterior.trace[-1].passes,
        seconds=seconds,
        combined=float(latent.mean()),
        computational=float(share.estimate * latent.mean()),
        computational_error=float(share.half_width() * latent.mean()),
        rmse=rmse(y_test, mean),
        nll=nll(y_test, mean, variance),
        coverage=coverage(y_test, mean, variance),
        peak_memory=(peak_bytes() or 0) / 1e9,
    )


def line(posterior: Posterior, points: int = 160) -> dict[str, object]:
    t = np.linspace(-1.1, 1.1, points)
    X = np.tile(t[:, None], (1, FEATURES))
    parts = posterior.decompose(X)
    return {
        "t": t,
        "mean": posterior.mean(X),
        "combined": parts.combined,
        "mathematical": parts.mathematical,
        "exact": parts.exact,
        "truth": np.sin(np.pi * X.sum(axis=1)),
        "title": f"{posterior.rank} actions (passes over K: {posterior.trace[-1].passes})",
    }


def _save(panels: list[dict[str, object]], path: Path | None) -> Path | None:
    if path is None or not panels:
        return None
    from itergp.plots.drawing import save_line_plots

    return save_line_plots(panels, path)
