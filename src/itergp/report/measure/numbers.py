"""What a report contains: a dictionary of plain JSON values, "itergp-report/1". The page draws it, and it
is the page's twin."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from itergp import __version__
from itergp.errors import InputError
from itergp.fitted import shares as share
from itergp.fitted.fit import Fit
from itergp.fitted.formats import percent
from itergp.fitted.points import LEADING, EachTarget, Points, from_folds, from_test_data
from itergp.fitted.price import seconds_for
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import with_targets
from itergp.posterior.targets import TargetPosterior
from itergp.report.measure import fitted, quality, slices
from itergp.report.measure.rounding import rounded
from itergp.report.measure.words import title, verdict, warnings
from itergp.report.page.text import FORMAT
from itergp.solver.state import Status
from itergp.validate import as_float64, finite

POSITIONS = 24  # of the slider, beside no computation and local actions
TARGETS = 8  # on a page
EXTRA = 0.5  # of the seconds of a fit, that a report may take for the computational share


def numbers(
    fit: Fit,
    X_test: Any = None,
    y_test: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    dropped: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that a report says about a fit, for JSON; at test data, or by held-out
    folds.

    The names are for models that were fitted from plain arrays; `dropped` are columns that the fit left out.
    """
    each, b = _posteriors(fit)
    posterior = each[0]
    neighbours = fit.neighbours
    names, targets = _names(fit, feature_names), _target_names(fit, target_names)
    points = _points(fit, each, X_test, y_test, neighbours)
    ranks, factors = positions(posterior), share.mathematical_factors(each)
    L: Any = factors[0] if factors and len(each) == 1 else factors
    y = np.column_stack([np.asarray(one.problem.y) for one in each])
    means, variances = points.path(ranks, neighbours)
    parts = share.parts(points, variances[-1], neighbours, L, seconds_for(fit, EXTRA))
    order, relevances = _relevance(fit, posterior, names)
    lines = slices.lines(posterior, order, len(targets))
    own = [None] * len(each) if factors is None else factors
    along = (
        [slices.variances_along(*pair, lines, ranks, neighbours) for pair in zip(each, own, strict=True)]
        if lines
        else []
    )
    values: dict[str, Any] = {
        "format": FORMAT,
        "title": title(targets, len(names)),
        "versions": {"itergp": __version__, "numpy": np.__version__},
        "fitted": fitted.fitted(fit, posterior, names, targets, neighbours),
        "points": {"source": points.source, "count": int(points.rows.size), "note": points.note},
        "share": share.share_value(parts),
        "more": share.more(parts, neighbours, posterior.trace),
        "path": _path(posterior, ranks, neighbours, share.along(parts, variances)),
        "targets": [
            _target(fit, y[:, t], points, means[..., t], variances, parts, t, name, names, order)
            | {"slices": slices.as_values(lines, along, fit, posterior, y[:, t], names, t) if along else []}
            for t, name in enumerate(targets[:TARGETS])
        ],
        "hyperparameters": fitted.hyperparameters(fit, b, names, targets),
        "relevance": relevances,
        "learning": fitted.learning(fit),
        "convergence": fitted.convergence(posterior),
        "data": fitted.data(fit, posterior, list(dropped)),
    }
    values["verdict"] = verdict(values)
    values["warnings"] = warnings(values, TARGETS)
    return rounded(values)


def positions(posterior: Posterior) -> np.ndarray:
    """The prefixes of the computation that a slider shows: denser at its beginning, where most happens."""
    r = posterior.rank
    last = min(r, LEADING) if r == posterior.problem.n else r
    ranks = np.round(last * (np.arange(POSITIONS + 1) / POSITIONS) ** 2).astype(int)
    return np.unique(np.append(ranks, r))


def _posteriors(fit: Fit) -> tuple[list[Posterior], np.ndarray]:
    """One for all targets, or one for each that is shown; and the centred targets, all of them."""
    if isinstance(fit.posterior, TargetPosterior):
        return list(fit.posterior.each[:TARGETS]), fit.posterior.problem.b
    whole = with_targets(fit.posterior)
    return [whole], whole.problem.b


def _points(fit: Fit, each: list[Posterior], X_test: Any, y_test: Any, neighbours: int) -> Points:
    if (X_test is None) != (y_test is None):
        given, missing = ("X_test", "y_test") if y_test is None else ("y_test", "X_test")
        raise InputError(f"{given} is given and {missing} is not; give both, or neither for held-out folds.")
    if X_test is None:
        found = [from_folds(one, fit.counts, neighbours, fit.learned) for one in each]
        return found[0] if len(found) == 1 else EachTarget(tuple(found))
    X = finite("X_test", as_float64("X_test", X_test))
    if X.ndim != 2 or X.shape[1] != fit.features:
        raise InputError(
            f"X_test has shape {X.shape}; expected (m, {fit.features}): the features of the fit."
        )
    y = finite("y_test", as_float64("y_test", y_test))
    shape = fit.posterior.problem.y.shape[1:]
    if y.shape != (len(X), *shape):
        raise InputError(
            f"y_test has shape {y.shape}; expected {(len(X), *shape)}: one row per row of X_test, targets as "
            "in fit."
        )
    X, y = fit.scaling.inputs(X), fit.scaling.targets(y)
    if len(each) == 1:
        return from_test_data(each[0], X, y, fit.noise_of(0))
    return EachTarget(tuple(from_test_data(one, X, y[:, t], fit.noise_of(t)) for t, one in enumerate(each)))


def _names(fit: Fit, given: Sequence[str] | None) -> list[str]:
    d = fit.features
    names = fit.names if given is None else given
    names = [f"x{j + 1}" for j in range(d)] if names is None else [str(name) for name in names]
    if len(names) != d:
        raise InputError(f"feature_names has {len(names)} names; expected {d}, one per feature.")
    return names


def _target_names(fit: Fit, given: Sequence[str] | None) -> list[str]:
    t = int(fit.scaling.y_mean.size)
    names = (
        (["y"] if t == 1 else [f"y{j + 1}" for j in range(t)])
        if given is None
        else [str(name) for name in given]
    )
    if len(names) != t:
        raise InputError(f"target_names has {len(names)} names; expected {t}, one per target.")
    return names


def _relevance(fit: Fit, posterior: Posterior, names: list[str]) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Features in the order of their relevance, the most relevant first."""
    found, lengthscales = slices.relevance(posterior.problem.gram)
    order = np.argsort(-found, kind="stable")
    unit = fit.scaling.x_scale
    rows = [
        {
            "feature": names[j],
            "relevance": found[j],
            "lengthscale": None if lengthscales is None else lengthscales[j] * unit[j],
        }
        for j in order
    ]
    return order, rows


def _path(posterior: Posterior, ranks: np.ndarray, neighbours: int, shares: list[float]) -> dict[str, Any]:
    """What each position of the slider had cost; a prefix of a block costs what its block cost."""
    steps, exact = posterior.trace, posterior.status is Status.EXACT
    labels, actions, passes, seconds = [], ranks.tolist(), [], []
    for rank in ranks.tolist():
        step = next((step for step in steps if step.actions >= rank), None) if rank else None
        labels.append("no computation" if not rank else "1 action" if rank == 1 else f"{rank:,} actions")
        passes.append(0 if not rank else posterior.state.progress.passes if step is None else step.passes)
        seconds.append(0.0 if not rank else None if step is None else step.seconds)
    if exact:
        labels[-1] = f"all {posterior.rank:,} actions: exact"
    if neighbours:
        labels.append(f"with {neighbours} local actions")
        actions, passes, seconds = ([*column, column[-1]] for column in (actions, passes, seconds))
    return {"labels": labels, "actions": actions, "passes": passes, "seconds": seconds, "share": shares}


def _target(
    fit: Fit,
    observed: np.ndarray,
    points: Points,
    means: np.ndarray,
    variances: np.ndarray,
    parts: share.Parts,
    t: int,
    name: str,
    names: list[str],
    order: np.ndarray,
) -> dict[str, Any]:
    """Everything that depends on one target, in its units."""
    scaling = fit.scaling
    centre, unit = float(np.atleast_1d(scaling.y_mean)[t]), float(np.atleast_1d(scaling.y_scale)[t])
    own = points.of_target(t)
    y, mean, variance = (
        centre + unit * points.y[:, t],
        centre + unit * means,
        unit**2 * (variances + points.noise)[:, own],
    )
    X = scaling.original(points.X)
    return {
        "name": name,
        "unit_sd": unit * float(observed.std()),
        "metrics": quality.metrics_along(y, mean, variance),
        "decomposition": _decomposition(parts, own, unit, _noise(fit, t)),
        "calibration": quality.calibration(y, mean, variance),
        "pit": quality.pit(y, mean, variance),
        "residuals": quality.residuals(y, mean[-1], variance[-1]),
        "worst": quality.worst(y, mean[-1], variance[-1], points.rows, X, names, order),
    }


def _noise(fit: Fit, target: int) -> float:
    """In units of the scaled data."""
    return float(np.broadcast_to(fit.noise, fit.scaling.y_mean.size)[target])


def _decomposition(parts: share.Parts, own: slice, unit: float, noise: float) -> dict[str, Any]:
    """At most 200 points, by their combined variance; where there are more, at even steps of this order."""
    inside = np.flatnonzero((parts.chosen >= own.start) & (parts.chosen < own.stop))
    order = inside[np.argsort(parts.combined[inside], kind="stable")]
    if order.size > share.SHOWN:
        order = order[np.linspace(0, order.size - 1, share.SHOWN).astype(int)]
    found = parts.decomposition
    most = percent(found.share_bounds[1])
    about = (
        "Exact."
        if found.exact
        else f"The computational part is at least this; over all points it is at most {most}."
    )
    return {
        "mathematical": unit**2 * parts.mathematical[order],
        "computational": unit**2 * parts.computational[order],
        "noise": unit**2 * noise,
        "about": f"Variances of the latent function at {order.size} of {own.stop - own.start:,} points, "
        f"smallest first. {about}",
    }
