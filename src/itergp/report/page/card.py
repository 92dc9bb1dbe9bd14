"""A fitted model in a notebook: a small card above scikit-learn's diagram. Nothing is computed for it: the
computational share stands there once a report has measured it."""

from html import escape

import numpy as np

from itergp.fitted import choice
from itergp.fitted.calibration import sentence
from itergp.fitted.fit import Fit
from itergp.fitted.formats import passes
from itergp.fitted.regime import regime
from itergp.fitted.seen import known_share
from itergp.report.measure.fitted import formula
from itergp.report.page.text import harmless

STYLE = (
    ".itergp-card{font:13px/1.5 system-ui,sans-serif;border:1px solid #8888;border-left:4px solid "
    "#9467bd;border-radius:4px;"
    "padding:.6em 1em;margin:0 0 .5em;max-width:46em}.itergp-card "
    "dl{display:grid;grid-template-columns:max-content 1fr;"
    "gap:.1em 1em;margin:.4em 0 0}.itergp-card dt{opacity:.7}.itergp-card dd{margin:0}"
)


def card(fit: Fit) -> str:
    """HTML of a few lines; every text in it is escaped."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(harmless(text))}</dd>" for name, text in facts(fit))
    return (
        f'<style>{STYLE}</style><div class="itergp-card"><strong>IterGPRegressor</strong>, '
        f"fitted<dl>{rows}</dl></div>"
    )


def facts(fit: Fit) -> list[tuple[str, str]]:
    posterior, done = fit.posterior, fit.posterior.state.progress
    n, rows, noise = posterior.problem.n, fit.rows, np.atleast_1d(fit.noise).tolist()
    merged = "" if n == rows else f", {n:,} with different inputs"
    across = f"{passes(done.passes)} over the kernel matrix"
    neighbours = fit.neighbours
    local = f", and {neighbours} local ones for each prediction" if neighbours else ""
    names = fit.names
    told = "" if names is None else ": " + ", ".join(map(str, names[:5])) + (" ..." if len(names) > 5 else "")
    units = "variances of the scaled target" if fit.asked["normalize"] else "the target's units squared"
    found = [
        ("data", f"{rows:,} rows{merged}; {fit.used_features:,} features{told}"),
        ("kernel", f"{formula(fit.kernel)}, noise {', '.join(f'{v:.3g}' for v in noise)} ({units})"),
        ("computed", f"{posterior.rank:,} of {n:,} actions in {across}{local}. {regime(fit)}"),
        ("inference", f"{fit.status.value}. {fit.status.advice}"),
        ("learning", f"{fit.learning.ended.value}. {fit.learning.advice}"),
    ]
    share = known_share(fit)
    if share is not None:
        found.insert(3, ("computational", f"{share.amount} of the variance at held-out rows"))
    if fit.calibration is not None:
        found.insert(3, ("held-out", sentence(fit.calibration, fit.learned)))
    if "total" in fit.timings:
        found.insert(3, ("seconds", f"{fit.timings['total']:.1f}"))
    chosen = choice.sentence(choice.rows(fit.trace.candidates))
    if chosen:
        found.insert(2, ("chosen", chosen))
    if fit.mean_words is not None:
        found.insert(1, ("mean", fit.mean_words))
    return found
