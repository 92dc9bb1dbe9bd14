"""The verdict and the warnings: sentences derived only from the numbers of a report."""

import math

from itergp.fitted.formats import counted, passes, percent, roughly
from itergp.fitted.shares import amount
from itergp.report.page.text import Json, is_exact

SURPRISING = 3.0  # standard errors by which a coverage must differ to be called wrong


def title(targets: list[str], features: int) -> str:
    what = ", ".join(targets) if len(targets) <= 3 else f"{len(targets)} targets"
    return f"{what} by {features} {'feature' if features == 1 else 'features'}"


def verdict(values: Json) -> list[str]:
    """What matters most comes first."""
    quality = [_quality(values, target) for target in values["targets"]]
    fitted = values["fitted"]
    ended = fitted["learned"]["advice"] if is_exact(values) else fitted["ended"]
    return [*quality, _share(values), f"{_fit(values)} {fitted['regime']}", ended]


def _share(values: Json) -> str:
    share, where = values["share"], _where(values)
    if values["fitted"]["status"] == "EXACT" and not share["value"] > 0:
        return (
            "None of the variance is computational: this is the exact Gaussian process for these "
            "hyper-parameters."
        )
    rounding = values["fitted"]["status"] == "EXACT"
    more = (
        "It is due to rounding in float32 products; in float64 it is negligible."
        if rounding
        else values["more"]["sentence"]
    )
    known = amount(*(share[name] for name in ("value", "error", "upper", "method", "points")))
    return (
        f"{known[:1].upper()}{known[1:]} of the variance at {where} is computational. {_hidden(values)}{more}"
    )


def _hidden(values: Json) -> str:
    """The target whose own share is much larger than that of all together."""
    shares = values["share"].get("by_target") or []
    largest = max(shares, default=0.0)
    if len(shares) < 2 or largest < 0.01 or largest < 2.0 * values["share"]["value"]:
        return ""
    return f"For {values['fitted']['targets'][shares.index(largest)]} alone it is {percent(largest)}. "


def _quality(values: Json, target: Json) -> str:
    """How large errors are, beside those of a model that knows nothing; and whether the intervals hold."""
    m = target["metrics"]
    name = f"{target['name']}: " if len(values["targets"]) > 1 else ""
    r2 = "" if m["r2"][-1] is None else f"R2 {m['r2'][-1]:.3f}: "
    the = "the" if name or r2 else "The"
    return (
        f"{name}{r2}{the} typical error (RMSE) is {m['rmse'][-1]:.4g}, and {target['baseline']:.4g} if the "
        f"mean is predicted everywhere. The 95 % intervals contain {percent(m['coverage'][-1])} of "
        f"{_where(values)}.{_calibrated(m['coverage'][-1], values['points'])}"
    )


def _calibrated(coverage: float, points: Json) -> str:
    """Errors of rows from which the kernel was learned are smaller than those of new rows, so they can show
    that intervals are too narrow, and not that they are wide enough."""
    error = math.sqrt(0.95 * 0.05 / points["count"])
    if coverage < 0.95 - SURPRISING * error:
        return " They are too narrow."
    if points["learned_from"]:
        return (
            " They hold on these rows, but the kernel was learned from them too: new rows may be inside less "
            "often."
        )
    return " They are wider than needed." if coverage > 0.95 + SURPRISING * error else ""


def _fit(values: Json) -> str:
    f = values["fitted"]
    merged = "" if f["rows"] == f["distinct_rows"] else f" ({f['distinct_rows']:,} with distinct inputs)"
    total = f["seconds"]["total"]
    time = "" if total is None else f" and took {roughly(total)}"
    memory = "" if f["memory_bytes"] is None else f", with at most {f['memory_bytes'] / 1e9:.2g} GB of memory"
    used = f" used {counted(f['actions'], 'action')} in {passes(f['passes'])} over the kernel matrix{time}"
    if is_exact(values):
        used = " is done" if total is None else f" took {roughly(total)}"
    rows, features = counted(f["rows"], "row"), counted(f["features"], "feature")
    return f"The fit of {rows}{merged} and {features}{used}{memory}."


def _where(values: Json) -> str:
    points = values["points"]
    return counted(points["count"], "test point" if points["source"] == "test data" else "held-out row")


def warnings(values: Json, shown: int) -> list[str]:
    found = [
        f"{row['name']} ({row['words']}) is {row['value']:.4g}: learning stopped at the bound."
        for row in values["hyperparameters"]
        if row["at_bound"]
    ]
    for target in values["targets"]:
        text = _calibrated(target["metrics"]["coverage"][-1], values["points"])
        if text == " They are too narrow.":
            held = percent(target["metrics"]["coverage"][-1])
            found.append(
                f"The 95 % intervals for {target['name']} contain {held} of the observations: they are "
                "too narrow."
            )
    ended, short = values["fitted"]["status"], values["fitted"].get("learned_too_little")
    if short or ended in ("INTERRUPTED", "PRECISION_LIMIT", "ACTIONS_EXHAUSTED"):
        found.append(values["fitted"]["ended"])
    targets = len(values["fitted"]["targets"])
    if targets > shown:
        found.append(f"The first {shown} of {targets} targets are shown.")
    return found
