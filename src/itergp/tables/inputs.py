"""The inputs of a model from a table of any size: checked as a whole, then block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables.cells import DAMAGED
from itergp.tables.columns import columns_of
from itergp.tables.faults import listed, quoted
from itergp.tables.layout import ADVICE, Layout
from itergp.tables.notes import Notes
from itergp.tables.pieces import Pieces
from itergp.tables.table import RAW, Head, How, Table


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows: inputs, which of them have any, and columns that are copied to the predictions."""

    X: np.ndarray
    usable: np.ndarray
    kept: dict[str, list[str]]


class Inputs:
    """The rows of a file, as a model needs them. All are read and checked once before the first is used, so
    that a fault in the last row is found at once; memory does not grow with their number."""

    def __init__(
        self,
        path: Path,
        header: bool | None,
        layout: Layout,
        decimal: str | None = None,
        skip_bad: bool = False,
        keep: Sequence[str] = (),
    ) -> None:
        self.path, self.layout, self.skip_bad, self._keep = path, layout, skip_bad, keep
        how = How(header, layout.names, decimal, layout.decimal, skip_bad)
        self._pieces = Pieces(path, how, self._use)
        self._kept: list[Table] = []  # so that a small table is read once
        self.unknown: list[str] = []
        self.notes = Notes()
        self.rows = layout.check(self._looked_at(), skip_bad)

    def _use(self, head: Head) -> dict[int, str]:
        """A column that is copied is read as text, whatever the model makes of it."""
        used = self.layout.columns(head)
        return used | dict.fromkeys(columns_of(head, self._keep, "--keep"), RAW)

    def _looked_at(self) -> Iterator[Table]:
        for number, table in enumerate(self._pieces):
            self.unknown = self.layout.unknown(table)
            self._kept = [table] if number == 0 else []
            yield table

    def _block(self, table: Table) -> Block:
        X, missing, bad = self.layout.rows(table, ADVICE, self.skip_bad)
        note_rows(table, missing, bad)
        self.notes = table.notes
        places = columns_of(table, self._keep, "--keep")
        return Block(X, ~(missing | bad), {table.names[j]: _texts(table, j) for j in places})

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, this many at a time: X is (size, features), and the rest."""
        waiting: list[Block] = []
        rows = done = 0
        for table in self._kept or self._pieces:
            waiting.append(self._block(table))
            rows += table.rows
            done += table.rows
            if rows >= size:
                whole = _joined(waiting)
                stop = rows - rows % size
                yield from (_part(whole, i, i + size) for i in range(0, stop, size))
                waiting, rows = [_part(whole, stop, None)], rows - stop
            last = table
        if done != self.rows:
            raise StorageError(f"{self.path} has changed while it was read. Start again.")
        self.layout.note_percent(last)
        if rows:
            yield _joined(waiting)


def _texts(table: Table, j: int) -> list[str]:
    return ["" if cell == DAMAGED else cell for cell in table.columns[j]]


def _joined(blocks: Sequence[Block]) -> Block:
    kept = {name: [cell for block in blocks for cell in block.kept[name]] for name in blocks[0].kept}
    X, usable = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "usable"))
    return Block(X, usable, kept)


def _part(block: Block, start: int, stop: int | None) -> Block:
    """A copy, so that the whole can go."""
    kept = {name: cells[start:stop] for name, cells in block.kept.items()}
    return Block(block.X[start:stop].copy(), block.usable[start:stop].copy(), kept)


# With the target.


@dataclass(frozen=True, eq=False)
class Training:
    """Rows with a target, and which of those in the file they are."""

    X: np.ndarray
    y: np.ndarray
    kept: np.ndarray


def training(table: Table, layout: Layout, advice: str = ADVICE, skip_bad: bool = False) -> Training:
    """Rows that have all that is needed. How many have not, and why, is noted."""
    X, missing, bad = layout.rows(table, advice, skip_bad)
    y = layout.y(table, skip_bad)
    layout.note_percent(table)
    bad |= np.isinf(y)
    unknown = np.isnan(y) & ~bad
    note_rows(table, missing & ~unknown, bad)
    if unknown.any():
        name = "" if layout.target is None else layout.target.name
        said = f"rows without the target {name!r} are left out: {{count}}. `itergp predict` predicts them."
        table.notes.add("target", said, int(unknown.sum()))
    kept = ~(missing | bad | unknown)
    if not kept.any():
        why, text = " ".join(table.notes.sentences()), layout.without_numbers(table)
        hint = f"No cell is a number in {listed(text)}: use --categorical or --drop. " if text else ""
        if layout.target is not None and np.isinf(y).all():
            hint = f"No cell of the target {quoted(layout.target.name)} is a number: choose another. "
        raise InputError(
            f"{table.path}: no row is left that has the target and all features. {hint}Notes: {why}"
        )
    return Training(X[kept], y[kept], kept) if not kept.all() else Training(X, y, kept)


def note_rows(table: Table, missing: np.ndarray, bad: np.ndarray) -> None:
    """Rows that are left out."""
    if missing.any():
        said = "rows with missing values are left out, as --missing drop says: {count}."
        table.notes.add("rows missing", said, int(missing.sum()))
    if bad.any():
        line = f"{table.unit} {table.lines[int(bad.argmax())]}"
        said = f"bad rows are left out, as --skip-bad says: {{count}}; the first is {line}."
        table.notes.add("rows bad", said, int(bad.sum()))
