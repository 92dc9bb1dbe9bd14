"""Reports as files, written whole or not at all."""

import json
from os import PathLike

from itergp.errors import StorageError
from itergp.report.page.text import Json
from itergp.storage.replacing import file_path, replacing


def write_page(path: str | PathLike[str], numbers: Json) -> None:
    """The HTML page of these numbers."""
    from itergp.report.page.page import render

    _write(path, render(numbers))


def write_twin(path: str | PathLike[str], numbers: Json) -> None:
    """The numbers themselves, as JSON."""
    _write(path, json.dumps(numbers, allow_nan=False, indent=1) + "\n")


def _write(path: str | PathLike[str], text: str) -> None:
    try:
        with (
            replacing(file_path(path)) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            file.write(text)
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        raise StorageError(
            f"{path} cannot be written: {getattr(error, 'strerror', None) or error}."
        ) from error
