"""What was fitted, and how: read from the model; nothing is computed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from itergp.fitted import choice
from itergp.fitted.regime import regime
from itergp.learning.parameters import NOISE_FREE, RANGES, Space
from itergp.prior.kernel import Kernel, OnColumns, Product, Scaled, Sum
from itergp.prior.parameters import parameters
from itergp.report.measure.rounding import Table
from itergp.report.measure.subject import Subject
from itergp.report.page.text import Json
from itergp.solver.schedule import turns
from itergp.storage.states import NotStored

RECORDS = 500  # of a trace, at most
IDLE = "; of no effect, since that input is 0 in every row"
SILENT = "; at the upper end of its range: this feature hardly matters"
T = TypeVar("T")


def fitted(subject: Subject) -> Json:
    fit, posterior = subject.fit, subject.posterior
    done, gram, budget = posterior.state.progress, posterior.problem.gram, fit.asked["budget"]
    return {
        "rows": fit.rows,
        "distinct_rows": posterior.problem.n,
        "features": fit.used_features,
        "feature_names": [name for j, name in enumerate(subject.names) if j not in fit.idle],
        "targets": subject.targets,
        "mean": fit.mean_words,
        "kernel": formula(fit.kernel),
        "noise": np.atleast_1d(fit.noise * fit.scaling.y_scale**2),
        "policy": policy_text(fit.asked["policy"], posterior.policy),
        "regime": regime(fit),
        "budget": "the default" if budget is None else str(budget),
        "learn": str(fit.asked["learn"]),
        "neighbours": fit.neighbours,
        "engine": ", ".join(filter(None, (gram.engine.name, gram.dtype.name, gram.engine.activity()))),
        "status": fit.status.name,
        "ended": f"{fit.status.advice} {fit.learning.advice}",
        "learned": {
            "ended": fit.learning.ended.name,
            "iterations": fit.learning.iterations,
            "advice": fit.learning.advice,
        },
        "learned_too_little": fit.learning.falls_short,
        "actions": posterior.rank,
        "passes": done.passes,
        "seconds": {name: fit.timings.get(name) for name in ("learn", "act", "total")},
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


def candidates(subject: Subject) -> Table:
    """The kernels among which one was chosen; none if it was given."""
    return Table(choice.rows(subject.fit.trace.candidates))


def hyperparameters(subject: Subject) -> Table:
    """Each with the range in which it was sought; in units of the scaled data."""
    fit, names = subject.fit, subject.names
    learned, learned_noise = fit.learned, fit.learned and fit.free.noise
    unit = fit.data.unit  # weights have the mean 1 where noise is learned
    data = replace(fit.data, y=subject.b).per(unit)
    own = data.variances if fit.own_variances else data.variance
    # a noise below its range was sought in that of data without noise
    noise_free = learned_noise and np.any(np.asarray(fit.noise) / unit < 0.99 * RANGES.noise[0] * own)
    ranges = NOISE_FREE if noise_free else RANGES
    space = Space.of(fit.kernel, fit.noise / unit, data, learned_noise, ranges=ranges)
    low, high = np.exp(space.lower), np.exp(space.upper)
    hit = set(space.at_bounds(space.vector(fit.kernel, fit.noise / unit))) if learned else set()
    rows, start = Table(), 0
    for path, value in parameters(fit.kernel).items():
        values = np.atleast_1d(np.asarray(value, dtype=np.float64))
        for i, one in enumerate(values):
            place = start + i
            name = path if values.size == 1 else f"{path}[{i}]"
            bounds = (low[place], high[place]) if learned else None
            feature = names[i] if values.size == len(names) and values.size > 1 else None
            words = _words(path, feature) + (IDLE if feature is not None and i in fit.idle else "")
            silent = name in hit and feature is not None and one > 1.0 and _hardly_matters(subject, i)
            words += SILENT if silent else ""
            rows.append(_row(name, float(one), bounds, name in hit and not silent, words))
        start += values.size
    told = np.ones(data.t, dtype=bool) if fit.first_rows is None else fit.first_rows.told
    for j, name in enumerate(space.noise_names):
        sought = learned_noise and told[j]  # a target of equal values has told nothing about its noise
        noise = (unit * low[start + j], unit * high[start + j]) if sought else None
        of = f" of {subject.targets[j]}" if fit.own_variances else ""
        words = f"the noise variance{of}"
        rows.append(_row(name, fit.noise_of(j), noise, sought and name in hit, words))
    return rows


def _hardly_matters(subject: Subject, j: int) -> bool:
    """Whether the function of the prior changes along a feature, over one standard deviation of it, by less
    than a tenth of that of the targets."""
    problem = subject.posterior.problem
    x = np.median(problem.X, axis=0)[None]
    moved = x + np.std(problem.X[:, j]) * (np.arange(x.size) == j)
    k = problem.prior.kernel
    change = (k(x, x) + k(moved, moved) - 2.0 * k(x, moved)).item()
    return bool(change < 0.01 * np.max(np.var(problem.y, axis=0)))


def _row(name: str, value: float, bounds: tuple[float, float] | None, at_bound: bool, words: str) -> Json:
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


def relevance(subject: Subject) -> Table:
    return Table(
        {
            "feature": subject.names[row.feature],
            "relevance": row.value,
            "lengthscale": row.own_lengthscale,
        }
        for row in subject.relevance
    )


# Traces.


def learning(subject: Subject) -> Table:
    records = thinned(subject.fit.trace.learning)
    return Table({"seconds": r.seconds, "objective": r.objective, "stage": r.stage} for r in records)


def convergence(subject: Subject) -> Table:
    """The residual norm along the computation, relative to that before it."""
    before = float(np.linalg.norm(subject.posterior.problem.b)) or 1.0
    return Table(
        {"actions": s.actions, "passes": s.passes, "seconds": s.seconds, "residual": s.residual_norm / before}
        for s in thinned(subject.posterior.trace)
    )


def thinned(records: Sequence[T]) -> Sequence[T]:
    """At most 500 of them, the first and the last among these."""
    if len(records) <= RECORDS:
        return records
    return [records[i] for i in np.linspace(0, len(records) - 1, RECORDS).astype(int)]


# Data.


def data(subject: Subject) -> Json:
    fit, dropped = subject.fit, subject.dropped
    rows, distinct = fit.rows, fit.posterior.problem.n
    scaled = (
        "Inputs and targets were standardised: hyper-parameters are in units of the scaled data, "
        "predictions in the units of y."
    )
    if not isinstance(fit.asked["kernel"], str):
        scaled = (
            "Targets were standardised, inputs only centred: lengthscales and periods are in the units of "
            "the inputs, scale and noise in variances of y."
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
            f"{rows:,} rows have {distinct:,} distinct inputs; rows with the same inputs were merged, "
            "which is exact."
        )
    sentences = []
    if dropped:
        sentences.append(f"Columns excluded from the fit: {', '.join(dropped)}.")
    lost = subject.posterior.state.progress.dropped
    if lost:
        sentences.append(f"{lost:,} actions were linearly dependent on earlier ones and were dropped.")
    return {"scaled": scaled, "merged": merged, "dropped": " ".join(sentences) or None}
