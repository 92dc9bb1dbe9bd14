"""Human-readable summaries, 80 columns wide."""

from collections.abc import Iterable

from rich.box import SIMPLE
from rich.table import Table

from itergp.cli.app import console, one_line
from itergp.cli.measuring import Values
from itergp.fitted.choice import HEAD, HELP, cells, sentence
from itergp.fitted.formats import brief, counted, passes, percent
from itergp.fitted.shares import amount

MOST_FEATURES = 12
ROUNDING = 1e-9  # by which relevances may differ, and be the same


def draw_model(values: Values) -> None:
    """What was learned, what the budget bought and, if measured, what is missing."""
    _draw_learned(values["learned"], values["target"])
    rows = list(_bought(values))
    if "computational_share" in values:
        rows += [("computational share", line) for line in _share_lines(values["computational_share"])]
        rows += [("more would buy", line) for line in _more_lines(values)]
    _draw_pairs("What the budget bought", rows)


def _draw_learned(learned: Values, target: str | None) -> None:
    unit = "the target" if target is None else repr(target)
    noise = f"standard deviation {brief(learned['noise_std'])} in units of {unit}"
    if learned["noise_share"] is not None:  # the target varies
        noise += f", {percent(learned['noise_share'])} of its variance"
    noise += _how_noise_varies(learned)
    kernel = [f"{learned['kernel']}, scale in variances of the target", sentence(learned["candidates"])]
    pairs = [("kernel", line) for line in kernel if line]
    mean = [("mean", learned["mean"])] if learned["mean"] else []
    _draw_pairs("What was learned", [*mean, *pairs, ("noise", noise)])
    features = learned["features"]
    if not features:
        return
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("feature", no_wrap=True, overflow="ellipsis", max_width=36)
    own = features[0]["lengthscale"] is not None  # otherwise the column would be empty
    if own:
        table.add_column("lengthscale", justify="right", no_wrap=True)
    table.add_column("relevance", no_wrap=True)
    most = features[0]["relevance"]
    for row in features[:MOST_FEATURES]:
        share = row["relevance"] / most if most else 0.0
        lengthscale = [brief(row["lengthscale"])] if own else []
        table.add_row(one_line(row["name"]), *lengthscale, f"{'█' * round(16 * share):<16} {percent(share)}")
    console.print(table)
    meaning = (
        "Relevance is how far the predicted mean moves when a feature moves by one standard deviation"
        if not own
        else "Lengthscales are in the units of each feature; relevance is 1 / lengthscale in standard "
        "deviations of the feature"
    )
    console.print(f"{meaning}, in % of the largest.{_not_shown([row['relevance'] for row in features])}")


def _not_shown(relevances: list[float]) -> str:
    """How many features there are beyond those shown, and what is known of them; the largest is first."""
    left = len(relevances) - MOST_FEATURES
    if left <= 0:
        return ""
    least = relevances[MOST_FEATURES - 1] * (1 - ROUNDING)
    same = sum(relevance >= least for relevance in relevances[MOST_FEATURES:])
    if not same:
        more = counted(left, "less relevant feature")
    elif same == left:
        more = f"{left} more, of the same relevance,"
    else:
        more = f"{left} more, {same} of the same relevance and {left - same} of less,"
    return f" {more} {'is' if left == 1 else 'are'} not shown; --json lists all."


def _how_noise_varies(learned: Values) -> str:
    if learned["noise_varies"]:
        return ", on average: it varies with the features"
    asked = learned["noise_asked"] == "heteroscedastic"
    return "; constant: nothing shows that it varies, or there was no time to learn that" if asked else ""


def draw_candidates(found: list[Values]) -> None:
    """The kernels among which one was chosen; nothing if it was given, or if none was compared with it."""
    rows = cells(found)
    if not rows:
        return
    table = Table(
        title="How the kernel was chosen",
        title_justify="left",
        title_style="bold",
        box=SIMPLE,
        pad_edge=False,
    )
    for j, name in enumerate(HEAD):
        table.add_column(name, justify="right" if j else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)
    console.print(HELP)


def _bought(values: Values) -> Iterable[tuple[str, str]]:
    budget, seconds = values["budget"], values["budget"]["seconds"]
    merged = (
        ""
        if values["rows"] == values["distinct_rows"]
        else f", {values['distinct_rows']:,} with distinct inputs"
    )
    yield "rows", f"{values['rows']:,}{merged}"
    yield (
        "actions",
        f"{budget['actions']:,} of {values['distinct_rows']:,}, in {passes(budget['passes'])} over the "
        "kernel matrix",
    )
    yield "why these", budget["regime"]
    parts = ", ".join(
        f"{name} {seconds[key]:.1f}"
        for key, name in (("learn", "learning"), ("act", "acting"))
        if key in seconds
    )
    yield "seconds", f"{seconds.get('total', 0.0):.1f}" + (f" ({parts})" if parts else "")
    if budget["cluster"] is not None:
        yield "cluster", budget["cluster"]
    if values["calibration"] is not None:
        yield "held-out rows", f"{values['calibration']['sentence']}."
    yield "inference ended", f"{budget['status']}. {budget['advice']}"
    yield "learning ended", f"{values['learning']['ended']}. {values['learning']['advice']}"


def _share_lines(share: Values) -> Iterable[str]:
    where = f"of the latent variance at {share['held_out']:,} held-out rows{_with_neighbours(share)}"
    yield f"{_amount(share)} {where}; {_how(share)}."
    if share["neighbours"]:
        yield f"Before neighbours: {_amount(share['global_actions'])}."


def _amount(share: Values) -> str:
    return amount(*(share[name] for name in ("share", "error", "upper", "kind", "points")))


def _how(share: Values) -> str:
    if share["kind"] == "exact":
        return "computed exactly"
    if share["kind"] == "neighbours":
        return (
            f"what {share['by_neighbours']} neighbours would remove, since passes over the kernel matrix "
            "would take too long"
        )
    return f"bounds from {passes(share['passes'])}"


def _with_neighbours(share: Values) -> str:
    return f", as in `predict` with {share['neighbours']} neighbours" if share["neighbours"] else ""


def _more_lines(values: Values) -> Iterable[str]:
    acting, learning, share = (
        values["more_budget"]["acting"],
        values["more_budget"]["learning"],
        values["computational_share"],
    )
    if values["budget"]["status"] == "exact":
        yield "`refine` has nothing to add: inference is exact for these hyper-parameters."
    elif share["kind"] == "exact":
        yield (
            f"`refine` can lower this variance by the computational share, {percent(share['share'])}, and "
            "no further."
        )
    if share["beside"] is not None:
        yield share["beside"]
    if acting is not None:
        neighbours = " before neighbours" if share["neighbours"] else ""
        yield (
            f"The last half of the actions ({acting['from']:,} to {acting['to']:,}) lowered the "
            f"variance{neighbours} by "
            f"{percent(acting['fell_by'])}, from {brief(acting['variance_from'])} to "
            f"{brief(acting['variance_to'])}."
        )
    if learning is not None:
        gained = f"{brief(learning['gained'])} nats per row" if learning["gained"] > 0 else "nothing more"
        yield (
            f"The last {learning['over_the_last']} of {learning['iterations']} learning iterations "
            f"gained {gained}."
        )


def draw_predictions(values: Values) -> None:
    empty = f", of which {values['empty_rows']:,} are empty" if values["empty_rows"] else ""
    rows = [("rows", f"{values['rows']:,}{empty}")]
    if values["mean_std"] is not None:
        where = "in every row" if values["same_noise_in_every_row"] else "on average over rows"
        noise = f"of which noise {brief(values['noise_std'])} {where}"
        rows.append(("mean std", f"{brief(values['mean_std'])}, {noise}"))
    rows += [
        ("computational", _share_of_predictions(values["computational_share"])),
        ("interval", _interval(values["level"], values["interval"])),
    ]
    if values["cluster"] is not None:
        rows.append(("cluster", values["cluster"]))
    _draw_pairs("Predictions", rows)


def _share_of_predictions(share: Values | None) -> str:
    if share is None:
        return "not measured here; --share does, row by row"
    how = {
        "exact": "computed exactly",
        "neighbours": f"what {share['by_neighbours']} neighbours would remove",
    }
    where = how.get(share["kind"], "bounds from passes over the kernel matrix")
    beside = "" if share["beside"] is None else f". {share['beside']}"
    return f"{_amount(share)} of the latent variance ({where}){beside}"


def _interval(level: float, interval: Values) -> str:
    text = f"{percent(level)} central, for new observations"
    if interval["method"] == "gaussian":
        return text
    low, high = interval["ends_in_std"]
    return f"{text}; conformal, from {low:+.2f} to {high:+.2f} standard deviations"


def _draw_pairs(title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
    )
    table.add_column(no_wrap=True, min_width=19)
    table.add_column(overflow="fold")
    before = ""
    for name, text in rows:
        table.add_row("" if name == before else name, one_line(text))
        before = name
    console.print()
    console.print(table)
