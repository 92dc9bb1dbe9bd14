"""Columns of a table, given by name or by number."""

import difflib
from collections.abc import Sequence

from itergp.errors import InputError
from itergp.tables.faults import listed, quoted
from itergp.tables.table import Head


def column_of(table: Head, asked: str, option: str) -> int:
    """The position of a column given by name, or by number from 1; names take precedence."""
    return _column_of(table, asked, option)


def _column_of(table: Head, asked: str, option: str, cure: str = "") -> int:
    place = _place(table, asked)
    if place is None:
        numbers = "" if table.header else " The file has no names: use numbers."
        raise InputError(
            f"{option} is {quoted(asked.strip())}, which is not a column of {table.path}; its columns are "
            f"{listed(table.names)}.{numbers}{cure or hint([asked], table.names)}"
        )
    return place


def chosen_columns(
    table: Head, target: str, drop: Sequence[str], categorical: Sequence[str], groups: int | None
) -> tuple[int, set[int], set[int]]:
    """The places of the target, of what is no feature, and of categories."""
    y = column_of(table, target, "--target")
    dropped, categories = columns_of(table, drop, "--drop"), columns_of(table, categorical, "--categorical")
    by = set() if groups is None else {groups}
    for option, columns in (("--drop", dropped), ("--categorical", categories), ("--groups", by)):
        if y in columns:
            raise InputError(
                f"{option} names {quoted(table.names[y])}, which is the target; expected another column."
            )
    for option, columns in (("--drop", dropped), ("--groups", by)):
        for j in columns & categories:
            raise InputError(
                f"{option} and --categorical both name {quoted(table.names[j])}; expected one of them."
            )
    no_feature = set(table.left_out) - {y} - categories - by
    if len(dropped | by | no_feature) + 1 < len(table.names):
        dropped |= no_feature  # unless nothing else is there
    if len(dropped | by) + 1 == len(table.names):
        raise InputError(
            f"{table.path} has no column other than the target {quoted(table.names[y])}; expected a feature."
        )
    return y, dropped | by, categories


def _place(table: Head, asked: str) -> int | None:
    name = asked.strip()
    if name in table.names:
        return table.names.index(name)
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    return None


def columns_of(table: Head, asked: Sequence[str], option: str) -> set[int]:
    """Split each item at commas; a column name that contains a comma is tried as it is first."""
    found = set()
    for one in asked:
        parts = [one] if _place(table, one) is not None else one.split(",")
        found |= {_column_of(table, part, option, _for_commas(table, one, option)) for part in parts}
    return found


def _for_commas(table: Head, asked: str, option: str) -> str:
    """What to do where a list names a column that has a comma in its own name."""
    name = next((name for name in table.names if "," in name and name in asked), None)
    if name is None:
        return ""
    return (
        f" Commas separate names, and {quoted(name)} contains one: repeat {option} once for each column, as "
        f"in {option} {quoted(name)}."
    )


def hint(absent: Sequence[str], names: Sequence[str]) -> str:
    close = difflib.get_close_matches(absent[0], names, 1) if len(absent) == 1 else []
    return f" Did you mean {quoted(close[0])}?" if close else ""
