"""How far predictions were off at held-out rows, in their own standard deviations: the factor by which these
are wrong, and intervals that hold whatever the distribution of the errors (cross-conformal).

What comes of it is about observations; the computational share of the variance is another matter, and stays
what the theory says.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from itergp import brief
from itergp.errors import InputError
from itergp.fitted.formats import counted, percent
from itergp.validate import Array

LEVELS = (0.5, 0.8, 0.95, 0.99)  # that are shown
ROUNDING = 1e-9  # of sums of weights, and of 2 / (1 - level)
OPTIMISTIC = "; the kernel was learned from them too, so new ones may be inside less often"
ROUNDED = 0.5  # units: numbers of rows differ by whole ones


@dataclass(frozen=True, eq=False)
class Calibration:
    """Errors of held-out rows over the standard deviations that were predicted for them (noise included).

    Attributes
    ----------
    scores : (m,), or (m, targets); sorted.
    weights : of each score; they sum to 1. Rows of a group share the weight of one unit.
    units : how many rows, or groups, were held out: what has to be exchangeable with new ones.
    grouped : whether they are groups.
    """

    scores: Array
    weights: Array
    units: int
    grouped: bool = False

    __repr__ = brief.call

    @property
    def factor(self) -> Array:
        """By which standard deviations are too small: the root mean square of the scores, for each target."""
        squares = (self.weights * self.scores**2).sum(axis=0)
        return np.sqrt(np.where(squares > 0, squares, 1.0))

    def coverage(self, level: float) -> Array:
        """The share of held-out rows inside Gaussian intervals of this level, for each target."""
        inside = np.abs(self.scores) <= ndtri(0.5 + level / 2)
        return np.minimum((self.weights * inside).sum(axis=0), 1.0)

    def reach(self, level: float, name: str = "level") -> tuple[Array, Array]:
        """Where conformal intervals end, in standard deviations from the mean: below and above.

        A new score exceeds the upper end with a probability of at most (1 - level) / 2 if it is exchangeable
        with the others, since it has any rank among the units and itself with the same probability. The lower
        end likewise.
        """
        if self.units < needed(level):
            what = "groups" if self.grouped else "rows"
            raise InputError(
                f"{name} is {level!r}, and {self.units:,} {what} were held out; a conformal interval of that "
                f"level needs {needed(level):,}. Use a lower level, more {what}, or a Gaussian interval."
            )
        room = (1.0 - level) / 2.0 * (self.units + 1) + ROUNDING * self.units
        ends = _separate_ends if self.grouped else _ends
        columns = zip(_columns(self.scores).T, self.units * _columns(self.weights).T, strict=True)
        low, high = np.array([ends(Tail(-s[::-1], w[::-1]), Tail(s, w), room) for s, w in columns]).T
        shape = self.scores.shape[1:]
        return low.reshape(shape)[()], high.reshape(shape)[()]

    def quantiles(self, levels: Array, name: str = "levels") -> Array:
        """Those of a new score: (levels,), or (levels, targets).

        Each score is in the middle of its weight, and between them quantiles are linear. Single rows then
        have Weibull's quantiles: a new score is below the k-th of m others with probability k / (m + 1), if
        it is exchangeable with them and no two are equal. Of a new group, the expected share below is within
        1 / (2 m + 2) of the level, and the largest weight of a row over m + 1.
        """
        for level in levels.tolist():
            asked = (1.0 - ROUNDING) / min(level, 1.0 - level)
            if self.units + 1 < asked:
                what = "groups" if self.grouped else "rows"
                units = f"{math.ceil(asked) - 1:,}" if asked < 1e9 else f"{asked:.0e}"
                raise InputError(
                    f"{name} has {level!r}, which needs {units} held-out {what}, and there are "
                    f"{self.units:,}. Ask for levels nearer to 0.5, more {what}, or Gaussian quantiles."
                )
        position = levels * (self.units + 1) - 0.5
        columns = zip(_columns(self.scores).T, self.units * _columns(self.weights).T, strict=True)
        found = [np.interp(position, np.cumsum(w) - w / 2, scores) for scores, w in columns]
        return np.stack(found, axis=1).reshape(len(levels), *self.scores.shape[1:])

    @staticmethod
    def of(scores: Array, groups: Array | None = None) -> "Calibration":
        """Of scores as they come; `groups` has the number of the group of each."""
        if groups is None:
            units, weights = len(scores), np.full(len(scores), 1.0 / max(1, len(scores)))
        else:
            _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
            units, weights = sizes.size, 1.0 / (sizes.size * sizes[group])
        order = np.argsort(scores, axis=0, kind="stable")
        return Calibration(
            np.take_along_axis(scores, order, axis=0), weights[order], units, groups is not None
        )


def needed(level: float) -> int:
    """How many units a conformal interval of this level needs: with fewer, it would have no end."""
    return math.ceil(2.0 / (1.0 - level) * (1.0 - ROUNDING)) - 1


def sentence(calibration: Calibration, learned: bool) -> str:
    """What it says, for a reader; of several targets, the one that is farthest off. It is optimistic where
    the kernel was learned from the held-out rows too."""
    worst = int(np.abs(np.log(np.atleast_1d(calibration.factor))).argmax())
    held, factor = (np.atleast_1d(v)[worst] for v in (calibration.coverage(0.95), calibration.factor))
    several = " for the worst target" if calibration.factor.size > 1 else ""
    what = counted(calibration.units, "group" if calibration.grouped else "row")
    return (
        f"95 % intervals contain {percent(float(held))} of {what}; errors are {float(factor):.3g} times the "
        f"standard deviations{several}{OPTIMISTIC if learned else ''}"
    )


@dataclass(frozen=True, eq=False)
class Tail:
    """Scores in ascending order and their weights in units: what may lie beyond an upper end."""

    scores: Array
    weights: Array

    def beyond(self, end: float) -> float:
        return float(self.weights[self.scores > end].sum())

    def end(self, room: float) -> float:
        """The least score beyond which there is not more than this, if a new one is beyond it as well."""
        index = int((np.cumsum(self.weights) < self.weights.sum() - (room - 1.0)).sum())
        return float(self.scores[min(index, len(self.scores) - 1)])

    def slack(self, room: float) -> float:
        """What equal scores leave of the room, where the new one is not in this tail: the least score beyond
        which there is not more than the room may be that of many, none of which are beyond it."""
        return room - self.beyond(self.end(room + 1.0))


def _separate_ends(lower: Tail, upper: Tail, room: float) -> tuple[float, float]:
    return -lower.end(room), upper.end(room)


def _ends(lower: Tail, upper: Tail, room: float) -> tuple[float, float]:
    """Each end leaves out as much, unless scores are equal.

    An end takes all scores that are equal to it. If many are, as those of copies of a record, it leaves out
    far less than its room, and the other end may leave out the rest. It does if this slack is larger than its
    own could be, wherever the new score is: so whichever of the scores is the new one, the same is done, and
    the level holds. (A new group could be in both tails, so groups have separate ends.)
    """
    low, high = lower.end(room), upper.end(room)
    below, above = lower.slack(room), upper.slack(room)
    if below > room - upper.beyond(high) + ROUNDED:
        high = upper.end(room + below)
    elif above > room - lower.beyond(low) + ROUNDED:
        low = lower.end(room + above)
    return -low, high


def _columns(values: Array) -> Array:
    return values[:, None] if values.ndim == 1 else values
