"""A fitted model in a notebook: a small card above scikit-learn's diagram. Read off the model, nothing is
computed."""

from html import escape
from typing import Any

import numpy as np

from itergp.report.measure.fitted import formula
from itergp.report.page.text import harmless

STYLE = (
    ".itergp-card{font:13px/1.5 system-ui,sans-serif;border:1px solid #8888;border-left:4px solid "
    "#9467bd;border-radius:4px;"
    "padding:.6em 1em;margin:0 0 .5em;max-width:46em}.itergp-card "
    "dl{display:grid;grid-template-columns:max-content 1fr;"
    "gap:.1em 1em;margin:.4em 0 0}.itergp-card dt{opacity:.7}.itergp-card dd{margin:0}"
)


def card(model: Any) -> str:
    """HTML of a few lines; every text in it is escaped."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(harmless(text))}</dd>" for name, text in facts(model))
    return (
        f'<style>{STYLE}</style><div class="itergp-card"><strong>IterGPRegressor</strong>, '
        f"fitted<dl>{rows}</dl></div>"
    )


def facts(model: Any) -> list[tuple[str, str]]:
    posterior, done = model.posterior_, model.posterior_.state.progress
    n, rows, noise = posterior.problem.n, int(model.row_counts_.sum()), np.atleast_1d(model.noise_).tolist()
    merged = "" if n == rows else f", {n:,} with different inputs"
    passes = f"{done.passes:,} {'pass' if done.passes == 1 else 'passes'} over the kernel matrix"
    neighbours = getattr(model._process(), "neighbours", 0)
    local = f", and {neighbours} local ones for each prediction" if neighbours else ""
    names = getattr(model, "feature_names_in_", None)
    told = "" if names is None else ": " + ", ".join(map(str, names[:5])) + (" ..." if len(names) > 5 else "")
    units = "variances of the scaled target" if model.normalize else "the target's units squared"
    found = [
        ("data", f"{rows:,} rows{merged}; {model.n_features_in_:,} features{told}"),
        ("kernel", f"{formula(model.kernel_)}, noise {', '.join(f'{v:.3g}' for v in noise)} ({units})"),
        ("computed", f"{posterior.rank:,} of {n:,} actions in {passes}{local}"),
        ("inference", f"{model.status_.value}. {model.status_.advice}"),
        ("learning", f"{model.learning_.ended.value}. {model.learning_.advice}"),
    ]
    if "total" in model.timings_:
        found.insert(3, ("seconds", f"{model.timings_['total']:.1f}"))
    return found
