"""Large CSV files by Arrow, block by block: what it reads is what the standard library would have read.

Arrow gets a block of lines only if both must agree on it: whole lines of valid text, no blank ones, quotation
marks around whole cells or none. It must then find the right number of cells in each line, and numbers that
are finite, or missing. In all other cases the block is read again, cell by cell, by the reader that also
names what is wrong. So is all that follows a cell with a separator or a line end in quotation marks.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from itergp.tables.cells import Coded, Column
from itergp.tables.csvs import Csv, csv_rows, full_rows
from itergp.tables.lines import checked_lines
from itergp.tables.numbers import COMMA
from itergp.tables.pieces import piece, text_pieces
from itergp.tables.table import NUMBERS, RAW, Table

BLOCK = 1 << 21  # bytes at once
BOM = b"\xef\xbb\xbf"
# a number that is missing, as it is usually written; other ways are left to the other reader
NULLS = ["", "NA", "na", "N/A", "n/a", "NaN", "nan", "NAN", "NULL", "null", "Null", "None", "none", "?"]


def arrow_pieces(found: Csv, use: Mapping[int, str]) -> Iterator[Table]:
    """The rows below the names."""
    options = _options(found, use)
    with open(found.head.path, "rb") as file:
        begins = len(BOM) * (file.read(len(BOM)) == BOM)
        begins += sum(len(line.encode("utf-8", "surrogateescape")) for line in found.skipped)
        line = found.line
        for block in _blocks(file, begins):
            quoted = b'"' in block
            plain = _unquoted(block, found.separator) if quoted else block
            if plain is None or not block.endswith(b"\n"):  # the last line, or a row that goes on
                yield from _by_cells(found, use, _from(file, begins), line)
                return
            table = _by_arrow(found, use, plain, line, options) if _is_plain(plain) else None
            if table is None:
                yield from _by_cells(found, use, io.BytesIO(block), line)
            else:
                yield table
            line += _line_ends(block)
            begins += len(block)


def _blocks(file: BinaryIO, begins: int) -> Iterator[bytes]:
    """Whole lines. The last block has what follows the last line end, or a line that is too long."""
    while True:
        file.seek(begins)
        block = file.read(BLOCK)
        if not block:
            return
        end = block.rfind(b"\n") + 1 or len(block)
        yield block[:end]
        begins += end


def _line_ends(block: bytes) -> int:
    """As the other reader counts them: a carriage return alone ends a line too."""
    alone = block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0
    return block.count(b"\n") + alone


def _from(file: BinaryIO, begins: int) -> BinaryIO:
    file.seek(begins)
    return file


def _unquoted(block: bytes, separator: str) -> bytes | None:
    """Without quotation marks, if these are around whole cells that need none; None if not."""
    edge = re.escape(separator).encode()
    cell = rb'(?:^|(?<=[%b\n]))"[^"%b\r\n]*"(?=[%b\r\n]|\Z)' % (edge, edge, edge)
    if block.count(b'"') != 2 * sum(1 for _ in re.finditer(cell, block)):
        return None
    return block.replace(b'"', b"")


def _is_plain(block: bytes) -> bool:
    """Whether lines are what they seem."""
    if b"\0" in block or block.startswith((b"\n", b"\r", BOM)) or b"\n\n" in block:
        return False
    if b"\r" in block and (b"\n\r" in block or block.count(b"\r") != block.count(b"\r\n")):
        return False
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
    if np.diff(ends, prepend=-1).max() > csv.field_size_limit():
        return False
    return block.isascii() or _is_utf8(block)


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _options(found: Csv, use: Mapping[int, str]) -> tuple[Any, Any, Any]:
    """Columns are called by their places: names may be anything."""
    kinds = {str(j): pa.float64() if kind == NUMBERS else pa.string() for j, kind in use.items()}
    names = [str(j) for j in range(found.width)]
    return (
        pc.ReadOptions(column_names=names, block_size=BLOCK + 1, use_threads=False),
        pc.ParseOptions(
            delimiter=found.separator, quote_char=False, double_quote=False, ignore_empty_lines=False
        ),
        pc.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=NULLS,
            decimal_point="," if found.head.decimal == COMMA else ".",
        ),
    )


def _by_arrow(
    found: Csv, use: Mapping[int, str], block: bytes, line: int, options: tuple[Any, Any, Any]
) -> Table | None:
    """One row for each line; None if there is anything in it that the other reader must look at."""
    if found.head.decimal is None and b"." in block:  # which may separate thousands
        return None
    try:
        table = pc.read_csv(pa.BufferReader(block), *options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != block.count(b"\n"):
        return None
    columns: dict[int, Column] = {}
    for j, kind in use.items():
        cells = table.column(str(j))
        column = _numbers(cells) if kind == NUMBERS else cells.to_pylist() if kind == RAW else _coded(cells)
        if column is None:
            return None
        columns[j] = column
    return piece(found.head, columns, use, range(line, line + table.num_rows))


def _numbers(cells: Any) -> np.ndarray | None:
    """None if one is neither missing nor finite: what is infinite, or "-nan", is named as it is written."""
    values = cells.to_numpy()
    return values if np.isfinite(values).sum() == len(values) - cells.null_count else None


def _coded(cells: Any) -> Coded:
    coded = Coded()
    for chunk in cells.dictionary_encode().chunks:
        coded.append_coded(chunk.dictionary.to_pylist(), chunk.indices.to_numpy())
    return coded


def _by_cells(found: Csv, use: Mapping[int, str], content: BinaryIO, line: int) -> Iterator[Table]:
    """By the standard library, from this line of the file on."""
    path = found.head.path
    text = io.TextIOWrapper(content, encoding="utf-8", errors="surrogateescape", newline="")
    notes = found.head.notes
    lines = checked_lines(path, text, notes, line)
    cells = csv_rows(path, lines, found.separator, line)
    rows = full_rows(path, cells, notes, found.first, found.width, found.skip_bad)
    return text_pieces(found, rows, use)
