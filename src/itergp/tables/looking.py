"""What the first rows of a table say about its columns: how numbers are written, what is a date, and what is
no feature."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from itergp.tables.cells import Cells, is_missing
from itergp.tables.dates import are_dates, have_day_first
from itergp.tables.numbers import COMMA, decimal_of
from itergp.tables.table import EMPTY, INDEX, NUMBERS, Head, How

PANDAS_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # in CSV, read and written again, in Parquet


def looked_at(head: Head, written: Sequence[str] | None, columns: Mapping[int, Cells], how: How) -> Head:
    """The head of a table with what its first rows say. `columns` are the cells of those that are text;
    `written` are the names as in the file, None if it has none."""
    day_first = frozenset(j for j, cells in columns.items() if have_day_first(cells))
    head = replace(
        head,
        dates=day_first.union(j for j, cells in columns.items() if are_dates(cells)),
        day_first=day_first,
        left_out=_left_out(head, written, columns),
    )
    votes = columns.values() if how.use is None else _numbers(columns, how.use(head))
    decimal = how.decimal or decimal_of(votes, how.otherwise)
    if decimal == COMMA:
        why = "as --decimal says" if how.decimal else "by the first rows"
        head.notes.add("decimal", f"decimals are written with a comma, {why}: 1,5 is read as 1.5.")
    return replace(head, decimal=decimal)


def _numbers(columns: Mapping[int, Cells], use: Mapping[int, str]) -> list[Cells]:
    """The columns that are used as numbers: how a dropped one is written does not matter."""
    return [columns[j] for j, kind in use.items() if kind == NUMBERS and j in columns]


def _left_out(head: Head, written: Sequence[str] | None, columns: Mapping[int, Cells]) -> dict[int, str]:
    """The index of a data frame, and columns that have neither a name nor a value. Where no column has a
    name, what is empty is only known when all rows are read."""
    if written is None:
        return {}
    names = [name.strip() for name in written]
    found = {
        j: EMPTY
        for j, cells in columns.items()
        if (not names[j] or names[j].startswith("Unnamed:")) and all(map(is_missing, cells))
    }
    if 0 in columns and names[0] in PANDAS_INDEX and counts_rows(columns[0]):
        found[0] = INDEX
    return found


def counts_rows(cells: Cells) -> bool:
    """Whether they number the rows: whole numbers, each once."""
    known = [cell.strip() for cell in cells]
    return all(cell.isascii() and cell.isdigit() for cell in known) and len(set(known)) == len(known)
