"""The sections of a report: where the numbers of each come from, and what the page makes of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from itergp.report.measure import fitted, quality, share
from itergp.report.measure.slices import slices
from itergp.report.measure.subject import Subject, Target
from itergp.report.page import parts
from itergp.report.page.text import Json


@dataclass(frozen=True)
class Section:
    """A titled part of the page, in which `draw` makes HTML of all numbers of the report.

    `numbers` and `of_target` measure what it adds to these, by name: once, or for each target. Figures are
    drawn by the page's script, from the numbers of sections that say `in_browser`.
    """

    key: str
    title: str
    draw: Callable[[Json], str]
    help: str = ""
    numbers: Mapping[str, Callable[[Subject], Any]] = field(default_factory=dict)
    of_target: Mapping[str, Callable[[Target], Any]] = field(default_factory=dict)
    in_browser: bool = False


SECTIONS = (
    Section("targets", "All targets", parts.all_targets),
    Section(
        "bands",
        "The function, and what is not known of it",
        parts.bands,
        of_target={"slices": slices},
        in_browser=True,
    ),
    Section(
        "parts",
        "Where the variance comes from",
        parts.figures(
            parts.Figure(
                "decomposition",
                "One bar for each point, from the most to the least certain: blue could only be removed by "
                "more data, hatched green by more compute. For the model as it predicts.",
            )
        ),
        of_target={"decomposition": share.decomposition},
        in_browser=True,
    ),
    Section(
        "calibration",
        "Do the intervals hold what they promise?",
        parts.figures(
            parts.Figure(
                "calibration",
                "The share of points inside central intervals of each level: above the diagonal the model is "
                "too careful, below it too sure.",
                "Calibration",
            ),
            parts.Figure(
                "pit",
                "Where the observations fall in their predictive distributions: flat is right, a hill is too "
                "careful, a valley too sure, a slope a bias; the band is chance.",
                "Probability integral transform",
            ),
        ),
        of_target={"calibration": quality.calibration, "pit": quality.pit},
        in_browser=True,
    ),
    Section(
        "residuals",
        "Residuals",
        parts.figures(
            parts.Figure(
                "residuals",
                "Errors in units of their predicted standard deviation over the predicted mean, darker where "
                "there are more points; 95 % should lie between the dashed lines, at every mean. For the "
                "model as it predicts.",
            )
        ),
        of_target={"residuals": quality.residuals},
        in_browser=True,
    ),
    Section(
        "worst",
        "The worst points",
        parts.worst_tables,
        "Up to 20 points whose observations lie furthest from their predictions, in predicted standard "
        "deviations: often errors in the data.",
        of_target={"worst": quality.worst},
    ),
    Section(
        "hyper",
        "Hyper-parameters",
        parts.hyperparameters,
        "On a logarithmic scale between the bounds of the search; at a bound, the data may have asked for "
        "more.",
        {"hyperparameters": fitted.hyperparameters},
    ),
    Section(
        "relevance",
        "Relevance of the features",
        parts.relevance,
        "One over the lengthscale, relative to the largest: along a relevant feature the function changes "
        "quickly.",
        {"relevance": fitted.relevance},
    ),
    Section(
        "traces",
        "How it got there",
        parts.figures(
            parts.Figure(
                "learning",
                "The objective, in nats per observation, while kernel and noise were learned; lower is "
                "better, and stages may differ in what they measure.",
                "Learning",
            ),
            parts.Figure(
                "convergence",
                "The residual of the linear system, relative to the data, on a logarithmic scale; the "
                "vertical line is where the slider stands.",
                "Convergence",
            ),
        ),
        numbers={"learning": fitted.learning, "convergence": fitted.convergence},
        in_browser=True,
    ),
    Section(
        "fitted",
        "What was fitted, and what was done to the data",
        parts.fitted,
        numbers={"fitted": fitted.fitted, "data": fitted.data},
    ),
)
