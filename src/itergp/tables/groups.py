"""The group of each row: a column of the table, which is then not a feature."""

from itergp.errors import InputError
from itergp.tables.columns import column_of
from itergp.tables.table import Head, Table

BLOCKS = "blocks"  # groups of rows that are near each other, which need no column


def grouping(table: Head, asked: str | None) -> int | None:
    """The place of the column that names the groups; None without one. A column may be called "blocks"."""
    if asked is None or (asked == BLOCKS and BLOCKS not in table.names):
        return None
    return column_of(table, asked, "--groups")


def group_labels(table: Table, column: int) -> list[str]:
    """One label per row."""
    missing = table.missing(column)
    if missing.any():
        raise InputError(
            f"{table.place(int(missing.argmax()), column)}: the group is missing ({missing.sum()} missing "
            "in all). Give each row a group, or remove these rows."
        )
    return table.text(column)
