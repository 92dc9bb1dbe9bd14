"""Files of the command line: checks before any work, and models stored with their table layout."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itergp.errors import InputError
from itergp.tables import Layout, read_table, training

if TYPE_CHECKING:
    import numpy as np

    from itergp.estimator.regressor import IterGPRegressor
    from itergp.fitted.fit import Fit
    from itergp.report.measure.subject import Places


STDIN = "-"


class _StandardInput(type(Path())):  # type: ignore[misc]
    """A copy of standard input, called so in messages."""

    def __str__(self) -> str:
        return "standard input"

    def __fspath__(self) -> str:
        return super().__str__()


@contextlib.contextmanager
def table_file(path: Path) -> Iterator[Path]:
    """The file of a table. Standard input is copied to a temporary one first, which can be read twice."""
    if str(path) != STDIN:
        yield existing(path)
        return
    if sys.stdin.isatty():
        raise InputError("- is standard input, but nothing is piped into it; expected a table.")
    with tempfile.TemporaryDirectory(prefix="itergp-") as folder:
        copy = _StandardInput(folder, "table")
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        yield copy


def existing(path: Path) -> Path:
    """Check that the path is a readable file."""
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    from itergp.storage.replacing import irregular

    kind = irregular(path)
    if kind is not None:
        pipe = " Use - for standard input." if "pipe" in kind else ""
        raise InputError(f"{path} is {kind}; expected a file.{pipe}")
    return path


def writable(path: Path, *inputs: Path) -> Path:
    """Check an output path before any work is done; it must not be one of the input files."""
    from itergp.storage.replacing import refusal

    reason = refusal(path)
    if reason is not None:
        raise InputError(f"{path} cannot be written: {reason}.")
    for other in inputs:
        if path.exists() and path.samefile(other):
            raise InputError(
                f"{path} is an input of this command and cannot be overwritten; choose another --out."
            )
    # a real file is replaced by a temporary file in its own folder
    folder = (Path(os.path.realpath(path)) if path.is_symlink() else path).parent
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {folder} is read-only.")
    return path


def save_model(path: Path, fit: "Fit", layout: Layout) -> None:
    """Save the model atomically."""
    from itergp import storage
    from itergp.estimator.files import about

    storage.save(path, fit.posterior, about(fit) | {"table": layout.as_json()})


def load_model(path: Path, engine: Any = None) -> tuple["IterGPRegressor", Layout]:
    """A model and its table layout. An engine other than that of the file is one of a cluster."""
    from itergp.estimator.regressor import IterGPRegressor

    model = IterGPRegressor.load(path, engine=engine)
    return model, _layout(path, model.fit_, getattr(model, "table_", None))


def load_fit(path: Path) -> tuple["Fit", Layout]:
    """The same without an estimator, for what only looks at it."""
    from itergp.estimator import files

    fit, layout = files.load_fit(path)
    return fit, _layout(path, fit, layout)


def _layout(path: Path, fit: "Fit", layout: Layout | None) -> Layout:
    """For models saved from Python, it follows from the feature names. It knows what the fit found."""
    if fit.targets > 1:
        raise InputError(
            f"{path} has {fit.targets} targets; the command line supports only "
            "models with one target. Use Python."
        )
    if layout is None:
        return Layout.of_inputs(fit.features, fit.names)
    return layout.knowing(None if fit.donors is None else fit.donors.holes)


def with_target(layout: Layout, target: str | None) -> Layout:
    """Models saved by Python do not know their target."""
    if target is None:
        return layout
    if layout.target is None:
        return layout.with_target(target)
    if target.strip() not in (layout.target.name, str(layout.target.place + 1)):
        raise InputError(f"--target is {target!r}, but the target of the model is {layout.target.name!r}.")
    return layout


def supervised(
    path: Path, header: bool | None, layout: Layout, decimal: str | None = None, skip_bad: bool = False
) -> "tuple[np.ndarray, np.ndarray, list[str], Places]":
    """X and y of a table that has the model's columns and its target; what was done to it; and where each row
    is in the file."""
    from itergp.report.measure.subject import Places

    table = read_table(
        path,
        header,
        layout.names,
        lambda head: layout.columns(head, target=True),
        decimal,
        layout.decimal,
        skip_bad,
    )
    found = training(table, layout, skip_bad=skip_bad)
    places = Places(table.unit, list(compress(table.lines, found.kept)))
    return found.X, found.y, table.notes.sentences(), places


def check_decimal(decimal: str | None) -> None:
    from itergp.tables.numbers import DECIMALS

    if decimal is not None and decimal not in DECIMALS:
        raise InputError(f"--decimal is {decimal!r}; expected . or , which separates decimals.")
