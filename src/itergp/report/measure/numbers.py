"""What a report contains: a dictionary of plain JSON values, "itergp-report/1". The page draws it, and it
is the page's twin."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from itergp import __version__
from itergp.fitted.fit import Fit
from itergp.fitted.seen import TARGETS, look
from itergp.report.measure import quality, share
from itergp.report.measure.rounding import rounded
from itergp.report.measure.subject import Places, Subject, Target
from itergp.report.measure.words import title, verdict, warnings
from itergp.report.page.text import FORMAT, Json
from itergp.report.sections import SECTIONS


def numbers(
    fit: Fit,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    dropped: Sequence[str] = (),
    places: Places | None = None,
) -> Json:
    """Everything that a report says about a fit, for JSON; at test data, or by held-out folds.

    The names are for models that were fitted from plain arrays; `dropped` are columns that the fit left out.
    `places` are those of the test data in their file.
    """
    subject = Subject.of(look(fit, X_test, y_test), feature_names, target_names, dropped, places)
    points, shown = subject.seen.points, range(min(TARGETS, fit.targets))
    values: Json = {
        "format": FORMAT,
        "title": title(subject.targets, fit.used_features),
        "versions": {"itergp": __version__, "numpy": np.__version__},
        "points": {
            "source": points.source,
            "count": int(points.rows.size),
            "note": points.note,
            "learned_from": points.source != "test data" and fit.learned,
        },
        "share": share.share(subject),
        "more": share.more(subject),
        "path": share.path(subject),
        "targets": [_target(Target(subject, number)) for number in shown],
    }
    for section in SECTIONS:
        values |= {name: measure(subject) for name, measure in section.numbers.items()}
    values["verdict"] = verdict(values)
    values["warnings"] = warnings(values, TARGETS)
    return rounded(values)


def _target(target: Target) -> Json:
    values = {
        "name": target.name,
        "unit_sd": target.unit * float(target.training_y.std()),
        "baseline": quality.baseline(target),
        "metrics": quality.metrics(target),
    }
    for section in SECTIONS:
        values |= {name: measure(target) for name, measure in section.of_target.items()}
    return values
