"""The inputs of a model from a table of any size: checked as a whole, then block by block."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from itergp.errors import StorageError
from itergp.tables.layout import Layout
from itergp.tables.pieces import Pieces
from itergp.tables.reading import Table


class Inputs:
    """The rows of a file, as a model needs them. All are read and checked once before the first is used, so
    that a fault in the last row is found at once; memory does not grow with their number."""

    def __init__(self, path: Path, header: bool | None, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self._pieces = Pieces(path, header, layout.names, layout.columns)
        self._kept: list[Table] = []  # so that a small table is read once
        self.unknown: list[str] = []
        self.rows = layout.check(self._looked_at())

    def _looked_at(self) -> Iterator[Table]:
        for number, table in enumerate(self._pieces):
            self.unknown = self.layout.unknown(table)
            self._kept = [table] if number == 0 else []
            yield table

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        """All rows in order, this many at a time: (size, features), and the rest."""
        waiting, rows, done = [], 0, 0
        for table in self._kept or self._pieces:
            waiting.append(self.layout.X(table))
            rows += table.rows
            done += table.rows
            if rows >= size:
                X = np.concatenate(waiting)
                stop = rows - rows % size
                yield from (X[i : i + size] for i in range(0, stop, size))
                waiting, rows = [X[stop:].copy()], rows - stop
        if done != self.rows:
            raise StorageError(f"{self.path} has changed while it was read. Start again.")
        if rows:
            yield np.concatenate(waiting)
