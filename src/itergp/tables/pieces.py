"""Tables of any size: a file as pieces of some rows each, in order, and a whole table joined from them."""

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from itergp.tables import reading
from itergp.tables.cells import Cells, Coded, Column, Lines
from itergp.tables.csvs import Csv, opened_csv, without_fast_reader
from itergp.tables.lines import opened, unpacker
from itergp.tables.reading import ROOM, readable
from itergp.tables.table import (
    ANY_DATES,
    NUMBERS,
    RAW,
    TEXT,
    Head,
    How,
    Row,
    Table,
    Use,
    as_numbers,
)

LARGE = 20_000_000  # bytes of a CSV file from which Arrow reads it, if it is installed
BATCH = 1 << 16  # rows of Parquet at once
ABSENT: Cells = ()  # a column that nobody uses


class Pieces:
    """The rows of a file as tables of some rows each. It can be read several times."""

    def __init__(self, path: Path, how: How, use: Use) -> None:
        self.path, self.how, self.use = path, replace(how, use=use), use
        self.rows = 0  # in all, where a file says so at its beginning

    def __iter__(self) -> Iterator[Table]:
        with readable(self.path) as parquet:
            yield from (self._parquet() if parquet else self._csv())

    def _parquet(self) -> Iterator[Table]:
        pa, pq = reading.parquet_libraries(self.path)
        with (
            reading.parquet_errors(self.path, pa),
            pq.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20) as file,
        ):
            head = reading.parquet_head(self.path, pa, file, self.how)
            self.rows = file.metadata.num_rows
            use, start = self.use(head), 1
            used = sorted(use)
            originals = [file.schema_arrow.names[j] for j in used]
            for batch in file.iter_batches(BATCH, columns=originals):
                arrays = dict(zip(used, (batch.column(name) for name in originals), strict=True))
                columns = {
                    j: reading.arrow_column(pa, pa.chunked_array([a]), use[j]) for j, a in arrays.items()
                }
                yield piece(head, columns, use, range(start, start + batch.num_rows))
                start += batch.num_rows

    def _csv(self) -> Iterator[Table]:
        with opened(self.path) as file:
            found = opened_csv(self.path, file, self.how)
            use = self.use(found.head)
            fast = self._fast(found, use)
            yield from text_pieces(found, found.rows, use) if fast is None else fast

    def _fast(self, found: Csv, use: Mapping[int, str]) -> Iterator[Table] | None:
        """By Arrow, where the file is large and plain enough."""
        if found.width < 2 or not use or self.path.stat().st_size < LARGE or unpacker(self.path):
            return None
        if without_fast_reader(found):
            return None
        try:
            from itergp.tables.arrow import arrow_pieces
        except ImportError:
            return None
        return arrow_pieces(found, use)


def piece(head: Head, columns: Mapping[int, Column], use: Mapping[int, str], lines: Sequence[int]) -> Table:
    """Some rows: text that should be numbers is read as such, columns that nobody uses are left out."""
    ready: dict[int, Column] = {}
    foreign: dict[int, tuple[int, str]] = {}
    for j, cells in columns.items():
        ready[j] = cells
        if use[j] in (NUMBERS, *ANY_DATES) and not isinstance(cells, np.ndarray):
            found = as_numbers(head, j, cells, use[j])
            ready[j] = found.values
            if found.foreign is not None:
                foreign[j] = found.foreign
        elif use[j] == NUMBERS and isinstance(cells, np.ndarray):
            plain = cells[np.isfinite(cells) & (cells != 0)]
            head.notes.met(("without percent signs", j), f"{plain[0]:.15g}" if plain.size else "")
    return _table(head, ready, lines, foreign)


def _table(
    head: Head, columns: Mapping[int, Column], lines: Sequence[int], foreign: Mapping[int, tuple[int, str]]
) -> Table:
    cells = tuple(columns.get(j, ABSENT) for j in range(len(head.names)))
    known = {name: getattr(head, name) for name in Head.__dataclass_fields__}
    return Table(**known, columns=cells, lines=lines, foreign=foreign)


def text_pieces(found: Csv, rows: Iterator[Row], use: Mapping[int, str]) -> Iterator[Table]:
    """From cells as they are in the file."""
    while some := list(itertools.islice(rows, max(1, reading.TOGETHER // found.width))):
        cells = tuple(zip(*(cells for _, cells in some), strict=True))
        yield piece(found.head, {j: cells[j] for j in use}, use, array("q", (line for line, _ in some)))


# Whole tables.


class _Numbers:
    """A column of numbers that grows: room is doubled, and takes no memory before it is used."""

    def __init__(self, room: int) -> None:
        self.values, self.rows = np.empty(room), 0
        self.foreign: tuple[int, str] | None = None

    def add(self, table: Table, j: int) -> None:
        if self.foreign is None and j in table.foreign:
            row, cell = table.foreign[j]
            self.foreign = self.rows + row, cell
        start, self.rows = self.rows, self.rows + table.rows
        if self.rows > len(self.values):
            larger = np.empty(2 * self.rows)
            larger[:start] = self.values[:start]
            self.values = larger
        self.values[start : self.rows] = table.columns[j]

    def whole(self) -> np.ndarray:
        return self.values[: self.rows]


class _Texts:
    """A column of text that grows."""

    def __init__(self) -> None:
        self.cells, self.foreign = Coded(), None

    def add(self, table: Table, j: int) -> None:
        self.cells.append(table.coded(j))

    def whole(self) -> Coded:
        return self.cells


def joined(pieces: Pieces) -> Table:
    """All rows in one table, while they fit in memory."""
    from itergp.linalg.compute import require_bytes

    head: Head | None = None
    growing: dict[int, _Numbers | _Texts] = {}
    lines = Lines()
    for some in pieces:
        if head is None:
            head, use = some, pieces.use(some)
            if pieces.rows:
                what = f"{pieces.path}: {pieces.rows:,} rows of {len(use):,} cells"
                require_bytes(ROOM * pieces.rows * len(use), what, "Remove rows or columns.")
            growing = {
                j: _Texts() if kind in (TEXT, RAW) else _Numbers(pieces.rows) for j, kind in use.items()
            }
        for j, column in growing.items():
            column.add(some, j)
        lines.extend(some.lines)
        what = f"{pieces.path}: the first {len(lines):,} rows of {len(growing):,} cells"
        require_bytes(ROOM * len(lines) * len(growing), what, "Remove rows or columns.")
    assert head is not None  # a file without rows was refused
    foreign = {j: column.foreign for j, column in growing.items() if column.foreign is not None}
    columns = {j: column.whole() for j, column in growing.items()}
    return _table(head, columns, lines, foreign)
