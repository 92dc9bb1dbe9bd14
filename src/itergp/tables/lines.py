"""The lines of a text file: unpacked, decoded and checked, one after the other."""

import bz2
import gzip
import io
import lzma
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from itergp.errors import InputError
from itergp.tables.notes import Notes

LONGEST = 1 << 24  # characters in a line
# characters of a compressed file that are too many, if they exceed its bytes by this factor
UNPACKED, TIMES = 20_000_000, 200
# how files begin: what `open` undoes, and what is no table
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
BINARY = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK": "a spreadsheet or an archive",
}
DAMAGE = (EOFError, lzma.LZMAError)  # raised for truncated or damaged compressed files


def unpacker(path: Path) -> Any:
    """What opens a compressed file, by its first bytes; None if it is not compressed."""
    with open(path, "rb") as file:
        start = file.read(6)
    return next((opener for magic, opener in PACKED.items() if start.startswith(magic)), None)


def opened(path: Path) -> TextIO:
    """The file as text; invalid UTF-8 becomes lone surrogates, so that its line can be read otherwise."""
    opener = unpacker(path) or open
    with opener(path, "rb") as file:
        start = file.read(2)
    if start in BINARY:
        raise InputError(
            f"{path} is {BINARY[start]}; expected a table as CSV in UTF-8, or Parquet. Save it as one of "
            "these."
        )
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    return opener(path, "rt", **how)


def checked_lines(path: Path, file: TextIO, notes: Notes, line: int = 1) -> Iterator[str]:
    """The lines of a text, the first of which is this line of the file."""
    packed = not isinstance(getattr(file, "buffer", None), io.BufferedReader | io.BytesIO)
    most = max(UNPACKED, TIMES * path.stat().st_size) if packed else math.inf
    seen = 0
    for number, text in enumerate(iter(lambda: file.readline(LONGEST), ""), line):
        seen += len(text)
        if seen > most:
            raise InputError(
                f"{path} unpacks to more than {TIMES} times its size, {seen / 1e6:,.0f} MB or more, which is "
                "unusual. If this is intended, unpack it first, and use the unpacked file."
            )
        if len(text) >= LONGEST:
            raise InputError(
                f"{path}, line {number}: longer than {LONGEST:,} characters, so not a table. Expected CSV."
            )
        if "\0" in text:
            raise InputError(
                f"{path}, line {number}: a NUL byte, so this is not text. Expected CSV in UTF-8, or Parquet."
            )
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            text = _western(text)
            notes.add(
                "encoding",
                f"line {number} is not UTF-8, so it is read as Latin-1 (Windows-1252), as are all such "
                "lines: {count}.",
            )
        yield text


def _western(text: str) -> str:
    """A line that is not UTF-8, in the encoding of older programs."""
    content = text.encode("utf-8", "surrogateescape")
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:  # five bytes have no meaning there
        return content.decode("latin-1")
