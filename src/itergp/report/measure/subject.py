"""What a report is about: a fit that was looked at, with the names that a reader knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from itergp.errors import InputError
from itergp.fitted.calibration import Calibration
from itergp.fitted.filling import lacked
from itergp.fitted.fit import Fit
from itergp.fitted.relevance import Relevance, relevances
from itergp.fitted.scores import calibrated
from itergp.fitted.seen import Seen
from itergp.posterior.combined import Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.report.measure.columns import Column, columns
from itergp.report.measure.lines import Along, Line, along, lines


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of test data are in the file that they are from."""

    unit: str  # "line" of a text file, or "row"; both from 1
    numbers: Sequence[int]  # for each row of the test data


@dataclass(frozen=True, eq=False)
class Subject:
    """Every section of a report is measured on this."""

    seen: Seen
    names: list[str]  # of the features
    targets: list[str]
    dropped: list[str]  # columns that the fit left out
    places: Places | None = None

    @staticmethod
    def of(
        seen: Seen,
        names: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        dropped: Sequence[str] = (),
        places: Places | None = None,
    ) -> "Subject":
        d, t = seen.fit.features, seen.fit.targets
        names = seen.fit.names if names is None else names
        names = [f"x{j + 1}" for j in range(d)] if names is None else [str(name) for name in names]
        if len(names) != d:
            raise InputError(f"feature_names has {len(names)} names; expected {d}, one per feature.")
        if targets is None:
            targets = ["y"] if t == 1 else [f"y{j + 1}" for j in range(t)]
        targets = [str(name) for name in targets]
        if len(targets) != t:
            raise InputError(f"target_names has {len(targets)} names; expected {t}, one per target.")
        return Subject(seen, names, targets, list(dropped), places)

    @property
    def fit(self) -> Fit:
        return self.seen.fit

    @property
    def posterior(self) -> Posterior:
        return self.seen.posterior

    @property
    def b(self) -> np.ndarray:
        """The centred targets, all of them."""
        own = isinstance(self.fit.posterior, TargetPosterior)
        return self.fit.posterior.problem.b if own else self.posterior.problem.b

    @cached_property
    def relevance(self) -> list[Relevance]:
        return relevances(self.fit)

    @cached_property
    def columns(self) -> list[Column]:
        """The columns as a reader knows them, those of a category as one; the most relevant one first.
        Without those that never vary: they tell no row from another."""
        holes = None if self.fit.donors is None else self.fit.donors.holes
        order = [row.feature for row in self.relevance if row.varies]
        return columns(self.posterior.problem.X, self.fit.scaling, self.names, order, holes)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What held-out rows say, whether there are test data or not; None where they cannot be asked."""
        try:
            return calibrated(self.fit).calibration
        except InputError:
            return None

    @cached_property
    def lines(self) -> list[Line]:
        """Along the most relevant features."""
        return lines(self.posterior, self.columns, len(self.targets), self._made_up)

    @property
    def _made_up(self) -> np.ndarray | None:
        """(n, columns that may be missing): where something stands, or may, for a value of the fit."""
        if self.fit.donors is None:
            return None
        found, perhaps = lacked(self.fit)
        return found | perhaps

    @cached_property
    def along(self) -> list[Along]:
        """The function along them, for each posterior."""
        return [along(self.seen, number, self.lines) for number in range(len(self.seen.posteriors))]


@dataclass(frozen=True, eq=False)
class Target:
    """One target of it, in its units: what was observed and predicted at the points."""

    subject: Subject
    number: int

    @property
    def name(self) -> str:
        return self.subject.targets[self.number]

    @property
    def own(self) -> slice:
        """Where its variances are among all."""
        return self.subject.seen.points.of_target(self.number)

    @cached_property
    def centre_and_unit(self) -> tuple[float, float]:
        return self.subject.fit.unit_of(self.number)

    @property
    def unit(self) -> float:
        return self.centre_and_unit[1]

    def back(self, values: np.ndarray) -> np.ndarray:
        """Scaled values in the units of the target."""
        centre, unit = self.centre_and_unit
        return centre + unit * values

    @property
    def noise(self) -> float:
        return self.unit**2 * self.subject.fit.noise_of(self.number)

    def noise_at(self, X: np.ndarray) -> float | np.ndarray:
        """At inputs in scaled units: a number where it is the same everywhere."""
        fit = self.subject.fit
        if fit.noise_function is None:
            return self.noise
        noise = np.asarray(fit.noise_at(X))
        return self.unit**2 * (noise if noise.ndim == 1 else noise[:, self.number])

    @cached_property
    def training_y(self) -> np.ndarray:
        """All observations of the fit, in scaled units."""
        posteriors, t = self.subject.seen.posteriors, self.number
        y = np.asarray(posteriors[t if len(posteriors) > 1 else 0].problem.y)
        return y if y.ndim == 1 else y[:, 0 if len(posteriors) > 1 else t]

    @cached_property
    def y(self) -> np.ndarray:
        """At the points."""
        return self.back(self.subject.seen.points.y[:, self.number])

    @cached_property
    def means(self) -> np.ndarray:
        """Along the path, (K, m)."""
        return self.back(self.subject.seen.means[..., self.number])

    @cached_property
    def variances(self) -> np.ndarray:
        """Of observations, along the path, (K, m)."""
        seen = self.subject.seen
        return self.unit**2 * (seen.variances + seen.points.noise)[:, self.own]
