"""What was fitted, and how: read off the model, nothing is computed."""

from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.fitted.fit import Fit
from itergp.learning.parameters import Space
from itergp.posterior.combined import Posterior
from itergp.prior.kernel import Kernel, OnColumns, Product, Scaled, Sum
from itergp.prior.parameters import parameters
from itergp.solver.schedule import turns
from itergp.storage.states import NotStored

RECORDS = 500  # of a trace, at most


def fitted(
    fit: Fit, posterior: Posterior, names: list[str], targets: list[str], neighbours: int
) -> dict[str, Any]:
    done, gram = posterior.state.progress, posterior.problem.gram
    seconds = {name: fit.timings.get(name) for name in ("learn", "act", "total")}
    return {
        "rows": fit.rows,
        "distinct_rows": posterior.problem.n,
        "features": len(names),
        "feature_names": names,
        "targets": targets,
        "kernel": formula(fit.kernel),
        "noise": np.atleast_1d(fit.noise * fit.scaling.y_scale**2),
        "policy": policy_text(fit.asked["policy"], posterior.policy),
        "budget": "the default" if fit.asked["budget"] is None else str(fit.asked["budget"]),
        "learn": str(fit.asked["learn"]),
        "neighbours": neighbours,
        "engine": f"{gram.engine.name}, {gram.dtype.name}",
        "status": fit.status.name,
        "ended": f"{fit.status.advice} {fit.learning.advice}",
        "learned": {"ended": fit.learning.ended.name, "iterations": fit.learning.iterations},
        "learned_too_little": fit.learning.falls_short,
        "actions": posterior.rank,
        "passes": done.passes,
        "seconds": seconds,
        "memory_bytes": fit.trace.peak_bytes,
    }


def formula(kernel: Kernel) -> str:
    """A kernel in a few words, without its lengthscales."""
    if isinstance(kernel, Scaled):
        return f"{float(kernel.scale):.3g} * {formula(kernel.kernel)}"
    if isinstance(kernel, Sum | Product):
        sign = " + " if isinstance(kernel, Sum) else " * "
        return f"({formula(kernel.left)}{sign}{formula(kernel.right)})"
    if isinstance(kernel, OnColumns):
        return (
            f"{formula(kernel.kernel)} on columns {', '.join(str(column + 1) for column in kernel.columns)}"
        )
    return type(kernel).__name__


def policy_text(asked: Any, used: Any) -> str:
    """What was asked for, and what that was."""
    if used is None or isinstance(used, NotStored):
        return str(asked) if isinstance(asked, str) else "not stored with the model"
    entries = [policy for policy, _ in turns(used)]
    names = ", then ".join(getattr(policy, "__name__", type(policy).__name__) for policy in entries)
    return f"{asked}: {names}" if isinstance(asked, str) else names


# Hyper-parameters.


def hyperparameters(fit: Fit, b: np.ndarray, names: list[str], targets: list[str]) -> list[dict[str, Any]]:
    """Each with the range in which it was sought; in units of the scaled data."""
    learned, learned_noise = fit.learned, fit.learned and fit.free.noise
    data = Rows.of(fit.posterior.problem.X, b, fit.counts, fit.scatter)
    space = Space.of(fit.kernel, fit.noise, data, learned_noise)
    low, high = np.exp(space.lower), np.exp(space.upper)
    hit = set(space.at_bounds(space.vector(fit.kernel, fit.noise))) if learned else set()
    rows, start = [], 0
    for path, value in parameters(fit.kernel).items():
        values = np.atleast_1d(np.asarray(value, dtype=np.float64))
        for i, one in enumerate(values):
            place = start + i
            name = path if values.size == 1 else f"{path}[{i}]"
            bounds = (low[place], high[place]) if learned else None
            feature = names[i] if values.size == len(names) and values.size > 1 else None
            rows.append(_row(name, float(one), bounds, name in hit, _words(path, feature)))
        start += values.size
    told = np.ones(data.t, dtype=bool) if fit.first_rows is None else fit.first_rows.told
    for j, (name, value) in enumerate(zip(space.noise_names, np.atleast_1d(fit.noise), strict=True)):
        sought = learned_noise and told[j]  # a target of equal values has told nothing about its noise
        noise = (low[start + j], high[start + j]) if sought else None
        of = f" of {targets[j]}" if np.ndim(fit.noise) else ""
        rows.append(_row(name, float(value), noise, sought and name in hit, f"the variance of the noise{of}"))
    return rows


def _row(
    name: str, value: float, bounds: tuple[float, float] | None, at_bound: bool, words: str
) -> dict[str, Any]:
    low, high = (None, None) if bounds is None else bounds
    given, end = "; given, not learned" if bounds is None else "", ""
    if at_bound:
        end = (
            "; at the lower end of its range"
            if low is not None and value <= low * 1.01
            else "; at the upper end of its range"
        )
    return {
        "name": name,
        "value": value,
        "low": low,
        "high": high,
        "at_bound": at_bound,
        "words": words + given + end,
    }


def _words(path: str, feature: str | None) -> str:
    last = path.rpartition(".")[2]
    what = {
        "scale": "the variance of the function",
        "lengthscale": "the lengthscale",
        "period": "the period",
    }.get(last, last)
    return what if feature is None else f"{what} of {feature}"


# Traces.


def learning(fit: Fit) -> list[dict[str, Any]]:
    records = thinned(list(fit.trace.learning))
    return [{"seconds": r.seconds, "objective": r.objective, "stage": r.stage} for r in records]


def convergence(posterior: Posterior) -> list[dict[str, Any]]:
    """The residual norm along the computation, relative to that before it."""
    before = float(np.linalg.norm(posterior.problem.b)) or 1.0
    return [
        {"actions": s.actions, "passes": s.passes, "seconds": s.seconds, "residual": s.residual_norm / before}
        for s in thinned(list(posterior.trace))
    ]


def thinned(records: list[Any]) -> list[Any]:
    """At most 500 of them, the first and the last among these."""
    if len(records) <= RECORDS:
        return records
    return [records[i] for i in np.linspace(0, len(records) - 1, RECORDS).astype(int)]


# Data.


def data(fit: Fit, posterior: Posterior, dropped: list[str]) -> dict[str, str | None]:
    rows, distinct = fit.rows, posterior.problem.n
    scaled = (
        "Inputs and targets were standardised: hyper-parameters are in units of the scaled data, "
        "predictions in those of y."
    )
    if not fit.asked["normalize"]:
        scaled = "Nothing was scaled: hyper-parameters are in the units of the data."
    merged = (
        "No two rows had the same inputs."
        if fit.asked["merge_duplicates"]
        else "Rows with the same inputs were not merged."
    )
    if distinct < rows:
        merged = (
            f"{rows:,} rows have {distinct:,} different inputs; those with the same inputs are one "
            "row, an exact reduction."
        )
    sentences = []
    if dropped:
        sentences.append(f"Columns left out by who fitted the model: {', '.join(dropped)}.")
    lost = posterior.state.progress.dropped
    if lost:
        sentences.append(f"{lost:,} actions were linearly dependent on earlier ones, and were left out.")
    return {"scaled": scaled, "merged": merged, "dropped": " ".join(sentences) or None}
