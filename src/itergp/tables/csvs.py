"""CSV files: the separator, the names and the rows, found in the first lines."""

import contextlib
import csv
import itertools
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from itergp.errors import InputError
from itergp.tables.cells import DAMAGED, is_no_value, is_number
from itergp.tables.dates import days
from itergp.tables.lines import checked_lines
from itergp.tables.looking import looked_at
from itergp.tables.notes import Notes
from itergp.tables.numbers import DECIMALS, number
from itergp.tables.table import Head, How, Row

SEPARATORS = ";,\t|"
LOOK = 50  # rows used to detect the separator, the header, dates and how decimals are written
MOST_COMMENTS = 10_000  # lines before the first row
TITLE = 5  # lines above the names
_SEP = re.compile(rf'"?sep=([{SEPARATORS}])"?', re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Csv:
    """A CSV file whose first rows have been looked at."""

    head: Head
    rows: Iterator[Row]  # all, without the names
    separator: str
    width: int
    first: int  # the line of the first row, names or not
    line: int  # on which the rows below the names begin
    skipped: list[str]  # the lines before that one, as far as they were looked at
    skip_bad: bool = False


def opened_csv(path: Path, file: TextIO, how: How) -> Csv:
    """Find out about separator and names; `file` stays open as long as rows are read."""
    notes = Notes()
    lines = checked_lines(path, file, notes)
    first = _first_lines(lines)
    said = _said_separator(first, notes)
    looked, separator = _without_comments(path, ["\n", *first[1:]] if said else first, how, notes)
    separator = said or separator
    if how.header is not False:
        _refuse_title(path, looked, said)
    rows = full_rows(
        path, csv_rows(path, itertools.chain(looked, lines), separator), notes, skip_bad=how.skip_bad
    )
    head = list(itertools.islice(rows, LOOK + 1))
    if not head:
        raise InputError(f"{path} is empty; expected a line of names and lines of numbers.")
    header = how.header if how.header is not None else _has_header(path, head, how.known)
    line, cells = head[0]
    if how.header is None and not header and [*cells] == [str(j + 1) for j in range(len(cells))]:
        said = f"line {line} counts the columns, and is read as data: use --header if these are names."
        notes.add("counts columns", said)
    names = (
        column_names(path, cells, f"line {line}")
        if header
        else tuple(f"column {j + 1}" for j in range(len(cells)))
    )
    below = head[1:] if header else head
    if not below:
        raise InputError(f"{path} has names but no rows below them; expected at least one row of numbers.")
    begins = below[0][0]
    columns = dict(enumerate(zip(*_sound(below[:LOOK]), strict=True)))
    found = looked_at(Head(path, names, header, notes=notes), list(cells) if header else None, columns, how)
    return Csv(
        found,
        itertools.chain(below, rows),
        separator,
        len(cells),
        line,
        begins,
        first[: begins - 1],
        how.skip_bad,
    )


# Lines.


def _first_lines(lines: Iterator[str]) -> list[str]:
    """As many as are looked at; more where a long comment comes first."""
    first: list[str] = []
    while some := list(itertools.islice(lines, LOOK)):
        first += some
        if not all(map(_is_comment, first)) or len(first) > MOST_COMMENTS:
            break
    return first


def _said_separator(first: list[str], notes: Notes) -> str:
    """What the first line says separates cells, as Excel writes it (sep=;); "" if it does not."""
    found = _SEP.fullmatch(first[0].rstrip("\r\n")) if first else None
    if found is None:
        return ""
    notes.add("separator", f"line 1 says that cells are separated by {found[1]!r}, and is left out.")
    return found[1]


def _refuse_title(path: Path, lines: list[str], said: str) -> None:
    """Lines of one cell above names of several columns are no names."""
    for separator in said or SEPARATORS:
        rows: list[Row] = []
        with contextlib.suppress(csv.Error):
            rows.extend(enumerate(csv.reader(lines[: TITLE + 3], delimiter=separator), 1))
        rows = [(line, cells) for line, cells in rows if any(map(str.strip, cells))]
        titles = list(itertools.takewhile(_stands_alone, rows))
        below = rows[len(titles) : len(titles) + 2]
        if not 0 < len(titles) <= TITLE or len(below) < 2:
            continue
        (line, names), (_, cells) = below
        if len(names) == len(cells) and all(map(_is_text, names)) and any(map(_is_data, cells)):
            first, title = titles[0]
            raise InputError(
                f"{path}, line {first}: one cell, {title[0].strip()!r}, above names of {len(names)} columns "
                f"in line {line}. If it is a title, remove it, or begin it with #."
            )


def _stands_alone(row: Row) -> bool:
    """Whether all cells but the first are empty."""
    return not any(map(str.strip, row[1][1:]))


def _is_comment(line: str) -> bool:
    """Or blank."""
    text = line.strip()
    return not text or text.startswith("#")


def _without_comments(path: Path, first: list[str], how: How, notes: Notes) -> tuple[list[str], str]:
    """The first lines, with blank ones for comments above the table, and the separator. The last comments may
    be rows: the names, or data that begin with #."""
    start = len(list(itertools.takewhile(_is_comment, first)))
    below, whole = first[start:], len(first) < LOOK
    separator = _separator(below or first, whole)
    comments = [i for i in range(start) if first[i].strip()]
    if not comments or not below:
        return first, separator
    looked = ["\n" if i < start else line for i, line in enumerate(first)]
    while comments and _is_row(path, first[comments[-1]], below, separator, how):
        last = comments.pop()
        looked[last], names = first[last], first[last].lstrip().lstrip("#").lstrip(" ")
        if not any(map(_is_data, names.split(separator))):
            looked[last] = names
            notes.add("names", f"the names are those in the comment on line {last + 1}.")
            break
    if comments:
        said = "lines above the table that begin with # are left out: {count}."
        notes.add("comments", said, len(comments))
    return looked, separator


def _is_row(path: Path, line: str, below: list[str], separator: str, how: How) -> bool:
    """Whether a comment has as many cells as the rows below it, and these have no names of their own."""
    rows = list(full_rows(path, csv_rows(path, iter(below[:2]), separator), Notes(), skip_bad=True))
    width = len(line.rstrip("\r\n").split(separator))
    if not rows or width < 2 or width != len(rows[0][1]):
        return False
    return how.header is not True and not all(_is_text(cell) for cell in rows[0][1])


def _separator(lines: list[str], whole: bool) -> str:
    """The separator that splits the first lines into equally many cells, if possible: those that are numbers
    or dates, as 1,5 is where ; separates, then the most cells."""
    widths = {separator: _widths(lines, separator, whole) for separator in SEPARATORS}
    even = {
        separator: found[0] for separator, found in widths.items() if found[0] > 1 and len(set(found)) == 1
    }
    if len(even) == 1:
        return next(iter(even))
    if even:
        return max(even, key=lambda separator: (_share_of_data(lines, separator), even[separator]))
    first = {separator: found[0] for separator, found in widths.items() if found[0] > 1}
    return max(first, key=first.__getitem__) if first else ","


def _share_of_data(lines: list[str], separator: str) -> float:
    """Of the cells below the first line, which may be names."""
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        rows.extend(cells for cells in csv.reader(lines[1:], delimiter=separator) if cells)
    cells = [cell for row in rows for cell in row]
    return sum(map(_is_data, cells)) / len(cells) if cells else 0.0


def _widths(lines: list[str], separator: str, whole: bool) -> list[int]:
    """How many cells each row has; unless these lines are the whole file, the last row may be cut off and
    does not count."""
    found: list[int] = []
    with contextlib.suppress(csv.Error):
        found.extend(len(cells) for cells in csv.reader(lines, delimiter=separator) if cells)
    return (found if whole else found[:-1]) or found or [0]


# Rows.


def csv_rows(path: Path, lines: Iterator[str], separator: str, line: int = 1) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        begins = reader.line_num + line
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}, line {begins}: {error}. Look for an unclosed quotation mark."
            ) from None


def full_rows(
    path: Path,
    rows: Iterable[Row],
    notes: Notes,
    first: int = 0,
    width: int = 0,
    skip_bad: bool = False,
) -> Iterator[Row]:
    """Rows of equal width: that of the first, which is on this line. Blank lines are skipped; but in a single
    column, they are missing values."""
    blank = array("q")
    for line, cells in rows:
        if len(cells) < 2 and not (cells and cells[0].strip()):
            if width == 1:
                blank.append(line)
            continue
        if not width:
            first, width = line, len(cells)
        if len(cells) != width or (width == 1 and _is_comment(cells[0])):
            fitted = _fitted(cells, width, notes)
            if fitted is None:
                continue
            if not fitted and not skip_bad:
                raise InputError(
                    f"{path}, line {line}: {_cells(len(cells))}; expected {width}, as in line {first}. "
                    "--skip-bad leaves such rows out."
                )
            cells = fitted or [DAMAGED] * width
        for other in blank:
            yield other, [""]
        blank = array("q")
        yield line, cells


def _fitted(cells: Sequence[str], width: int, notes: Notes) -> list[str] | None:
    """The cells of a row that has not the width of the others, if only an empty one is too many; none of
    them if it is damaged; None if it is a comment."""
    if cells[0].lstrip().startswith("#"):
        notes.add("comments among rows", "lines among the rows that begin with # are left out: {count}.")
        return None
    if len(cells) == width + 1 and not cells[-1].strip():
        notes.add("ends", "rows end in a separator, and nothing after it: {count}.")
        return list(cells[:-1])
    return []


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


# Names.


def _has_header(path: Path, rows: list[Row], known: Collection[str]) -> bool:
    first, below = [cell.strip() for cell in rows[0][1]], _sound(rows[1 : 1 + LOOK])
    if known and set(known) <= set(first):
        return True
    if len(first) > 1 and first == [str(j) for j in range(len(first))]:
        raise InputError(
            f"{path}, line {rows[0][0]}: the cells count the columns, as pandas writes them, so they may be "
            "names or data. Use --header or --no-header."
        )
    numbers_in_it = any(_is_data(cell) and not cell.endswith("%") for cell in first)
    above_numbers = [
        j
        for j, cell in enumerate(first)
        if (_is_text(cell) or cell.endswith("%")) and _of_numbers([cells[j] for cells in below])
    ]
    if above_numbers and numbers_in_it:
        raise InputError(
            f"{path}, line {rows[0][0]}: both text ({first[above_numbers[0]]!r}, above numbers) and numbers, "
            "so it may be names or data. Use --header or --no-header."
        )
    if above_numbers or not below:
        return not numbers_in_it
    return not numbers_in_it and any(map(_is_text, first))


def _sound(rows: Sequence[Row]) -> list[Sequence[str]]:
    """The cells of rows that are not damaged."""
    return [cells for _, cells in rows if cells[0] != DAMAGED]


def _is_data(cell: str) -> bool:
    """Whether it is a number, however it is written, or a date."""
    written = any(number(cell, decimal) is not None for decimal in DECIMALS)
    return written or is_number(cell) or days(cell, day_first=True) is not None  # also infinite


def _is_text(cell: str) -> bool:
    return not _is_data(cell) and not is_no_value(cell)


def _of_numbers(cells: list[str]) -> bool:
    return any(map(_is_data, cells)) and not any(map(_is_text, cells))


def column_names(path: Path, cells: Sequence[str], place: str) -> tuple[str, ...]:
    """Distinct column names; a column without one is named by its number."""
    names = tuple(cell.strip() or f"column {j + 1}" for j, cell in enumerate(cells))
    for j, name in enumerate(names):
        if name in names[:j]:
            raise InputError(
                f"{path}, {place}: two columns are called {name!r} (columns {names.index(name) + 1} and "
                f"{j + 1}). Rename one."
            )
    return names


def without_fast_reader(found: Csv) -> bool:
    """Whether the lines before the rows do not say where these begin, or the first rows have what only the
    other reader can count."""
    seen = ("encoding", "comments among rows", "ends")
    return len(found.skipped) < found.line - 1 or any(found.head.notes.count(what) for what in seen)
