"""Where inputs may be missing from rows: NaN, or an input that says so."""

from dataclasses import dataclass, replace

import numpy as np

from itergp.validate import Array


@dataclass(frozen=True)
class Hole:
    """Inputs that are missing together, as those of one column of a table are. `flag` is the input that says
    so, if there is one. Those of a category are one-hot."""

    values: tuple[int, ...]
    flag: int | None = None
    category: bool = False
    told: bool = True  # whether the model is told by the flag; else that is always 0
    factor: float = 1.0  # by which the variance of rows that lack it is larger than the fit says
    held_out: int = 0  # rows that lack it and said so,
    squares: float = 0.0  # and the sum of their squared errors in units of that variance

    def moved(self, by: int) -> "Hole":
        """The same among inputs of which the first so many are others."""
        flag = None if self.flag is None else self.flag + by
        return replace(self, values=tuple(j + by for j in self.values), flag=flag)

    @property
    def own(self) -> bool:
        """Whether a missing category is a category of its own."""
        return self.category and self.flag is not None and self.told


@dataclass(frozen=True)
class Holes:
    """All of them."""

    columns: tuple[Hole, ...]

    def missing(self, X: Array) -> Array:
        """(m, columns): whether each is missing, from inputs with NaN or flags."""
        found = np.zeros((len(X), len(self.columns)), dtype=bool)
        for j, hole in enumerate(self.columns):
            found[:, j] = np.isnan(X[:, hole.values]).any(axis=1)
            if hole.flag is not None:
                found[:, j] |= X[:, hole.flag] > 0.5
        return found

    @property
    def flags(self) -> dict[int, "Hole"]:
        """The inputs that say whether a column is missing. That of a category is one of its categories, and
        not among them; unless the model is not told, and it says nothing."""
        return {hole.flag: hole for hole in self.columns if hole.flag is not None and not hole.own}

    def of(self, pattern: Array) -> list[Hole]:
        """Those that a row with this pattern lacks."""
        return [hole for hole, missing in zip(self.columns, pattern, strict=True) if missing]

    def telling(self, told: Array) -> "Holes":
        """The same, where the model is told of these columns alone."""
        return Holes(tuple(replace(hole, told=bool(t)) for hole, t in zip(self.columns, told, strict=True)))

    def widened(self, factors: Array) -> "Holes":
        """The same, where variances are larger by these."""
        each = zip(self.columns, factors, strict=True)
        return Holes(tuple(replace(hole, factor=float(factor)) for hole, factor in each))

    def held(self, rows: Array, squares: Array) -> "Holes":
        """The same, after so many held-out rows with these sums."""
        each = zip(self.columns, rows, squares, strict=True)
        return Holes(tuple(replace(hole, held_out=int(m), squares=float(s)) for hole, m, s in each))

    def outside(self, X: Array) -> Array:
        """Rows with NaN where nothing can be missing."""
        can = [j for hole in self.columns for j in hole.values]
        return np.flatnonzero(np.isnan(np.delete(X, can, axis=1)).any(axis=1))
