"""The sections of a report: where the numbers of each come from, and what the page makes of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from itergp.report.measure import fitted, noise, quality, share
from itergp.report.measure.slices import slices
from itergp.report.measure.subject import Subject, Target
from itergp.report.page import parts
from itergp.report.page.text import Json, is_exact


def always(numbers: Json) -> bool:
    return True


@dataclass(frozen=True)
class Section:
    """A titled part of the page, in which `draw` makes HTML of all numbers of the report.

    `numbers` and `of_target` measure what it adds to these, by name: once, or for each target. Figures are
    drawn by the page's script, from the numbers of sections that say `in_browser`. What few readers need is
    `folded`; it is not printed either, unless it was opened.
    """

    key: str
    title: str
    draw: Callable[[Json], str]
    help: str = ""
    numbers: Mapping[str, Callable[[Subject], Any]] = field(default_factory=dict)
    of_target: Mapping[str, Callable[[Target], Any]] = field(default_factory=dict)
    in_browser: bool = False
    folded: Callable[[Json], bool] = lambda numbers: False  # whether a reader has to open it


SECTIONS = (
    Section("targets", "All targets", parts.all_targets),
    Section(
        "predicted",
        "Observed against predicted",
        parts.figures(
            parts.Figure(
                "predicted",
                "One dot per point. On the diagonal, the prediction is right; far from it, look at the worst "
                "points below.",
            )
        ),
        of_target={"predicted": quality.predicted},
        in_browser=True,
    ),
    Section(
        "bands",
        "The function and its uncertainty",
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
                "One bar per point, from the most to the least certain. Blue can only be removed by more "
                "data, hatched green by more compute. For the final model.",
            )
        ),
        of_target={"decomposition": share.decomposition},
        in_browser=True,
        folded=is_exact,
    ),
    Section(
        "calibration",
        "Are the intervals calibrated?",
        parts.figures(
            parts.Figure(
                "calibration",
                "The share of points inside central intervals of each level. Above the diagonal, the model "
                "is underconfident; below it, overconfident.",
                "Calibration",
            ),
            parts.Figure(
                "pit",
                "Where the observations fall in their predictive distributions. Flat is calibrated, a hill "
                "is underconfident, a valley overconfident, a slope a bias; the band is sampling error.",
                "Probability integral transform",
            ),
        ),
        of_target={"calibration": quality.calibration, "pit": quality.pit},
        in_browser=True,
    ),
    Section(
        "intervals",
        "Intervals that hold",
        parts.interval_tables,
        "The share of points inside intervals of four levels, and where these end, in standard deviations "
        "from the mean. Gaussian intervals take the model at its word. Conformal ones end where held-out "
        "training rows say, so they hold for new rows like these, whatever the distribution of the errors; "
        "somewhat less often where the kernel was learned from few of these rows for many features.",
        of_target={"intervals": quality.intervals},
    ),
    Section(
        "residuals",
        "Residuals",
        parts.figures(
            parts.Figure(
                "residuals",
                "Errors in predicted standard deviations against the predicted mean, darker where there are "
                "more points. At every mean, 95 % should lie between the dashed lines. For the final "
                "model.",
            )
        ),
        of_target={"residuals": quality.residuals},
        in_browser=True,
    ),
    Section(
        "noise",
        "Is the noise the same everywhere?",
        parts.noise,
        "Whether squared errors, in predicted standard deviations, depend on a feature or on the prediction, "
        "and whether there are more large ones than a normal distribution has.",
        of_target={"noise": noise.noise},
    ),
    Section(
        "worst",
        "The worst points",
        parts.worst_tables,
        "Up to 20 points whose observations lie furthest from their predictions, in predicted standard "
        "deviations: often errors in the data.",
        {"numbered": quality.numbered},
        of_target={"worst": quality.worst},
    ),
    Section(
        "candidates",
        "How the kernel was chosen",
        parts.candidates,
        numbers={"candidates": fitted.candidates},
        folded=always,
    ),
    Section(
        "hyper",
        "Hyper-parameters",
        parts.hyperparameters,
        "On a logarithmic scale between the search bounds. At a bound, the best value may lie beyond it.",
        {"hyperparameters": fitted.hyperparameters},
        folded=always,
    ),
    Section(
        "relevance",
        "Relevance of the features",
        parts.relevance,
        "One over the lengthscale, relative to the largest: along a relevant feature the function changes "
        "quickly. For a kernel without one lengthscale for each feature: how far the predicted mean moves "
        "when the feature moves by one standard deviation. What is named '... is missing' says where a value "
        "was missing.",
        {"relevance": fitted.relevance},
    ),
    Section(
        "traces",
        "Learning and convergence",
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
                "vertical line marks the position of the slider.",
                "Convergence",
            ),
        ),
        numbers={"learning": fitted.learning, "convergence": fitted.convergence},
        in_browser=True,
        folded=always,
    ),
    Section(
        "fitted",
        "Model and data preparation",
        parts.fitted,
        numbers={"fitted": fitted.fitted, "data": fitted.data},
        folded=always,
    ),
)
