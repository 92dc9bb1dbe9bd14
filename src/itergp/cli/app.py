"""Shared by all commands: the app, two consoles, options, and one-line error messages."""

import contextlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from itergp.errors import (
    InputError,
    InterruptedWarning,
    ItergpError,
    LearningWarning,
    PrecisionWarning,
    StorageWarning,
)
from itergp.linalg.libraries import loading

app = typer.Typer(
    help="Gaussian processes that know what they have not computed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# Names of columns and files are printed verbatim: [red] in a name is not a colour.
console = Console(markup=False, highlight=False, emoji=False)
messages = Console(markup=False, highlight=False, emoji=False, stderr=True)
BAR_WIDTH = 24
# warnings of this library; others are not shown
SHOWN = (InterruptedWarning, LearningWarning, PrecisionWarning, StorageWarning)

INTERRUPTED = 3  # exit code of a fit that was stopped early, and whose model was saved

BudgetOption = Annotated[
    str | None,
    typer.Option(
        help="Wall-clock time such as 60s, 5m or 1h, or a count such as '200 actions'. Without it, learning "
        "and inference end after fixed counts: the result is reproducible, and takes as long as it takes.",
        show_default=False,
    ),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(
        help="How decimals are written in the table: . or , (found in its first rows by default).",
        metavar=".|,",
        show_default=False,
    ),
]
SkipBadOption = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Leave out rows that cannot be read (text for a number, cells too many or few)."
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="The column with the target, for a model that was saved by Python and does not know it: its "
        "name; where columns have no names, its number counted from 1.",
        show_default=False,
    ),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line holds names; auto-detected by default."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
ModelArgument = Annotated[
    Path, typer.Argument(help="A model file written by `fit`.", metavar="MODEL", show_default=False)
]


def _show_version(asked: bool) -> None:
    if asked:
        import itergp

        typer.echo(f"itergp {itergp.__version__}")
        raise typer.Exit


@app.callback()
def _every(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    pass


@contextlib.contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Errors end a command with one line, also as JSON if asked: exit code 2 for wrong usage, 1 for a
    failure. Warnings of this library are printed as one line too."""
    with warnings.catch_warnings():
        for shown in SHOWN:
            warnings.simplefilter("always", shown)
        warnings.showwarning = _note  # type: ignore[assignment]
        try:
            with loading():
                yield
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:  # the reader has closed the pipe
            raise typer.Exit(1) from None
        except (Exception, KeyboardInterrupt) as error:
            text = _sentence(error)
            if text is None:
                raise
            fail(text, 2 if isinstance(error, InputError) else 1, as_json)


def _sentence(error: BaseException) -> str | None:
    """What is said of an error; None if it should be raised, for its traceback."""
    if isinstance(error, ItergpError | OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory ({error})."
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing was written."
    if os.environ.get("ITERGP_TRACEBACK"):
        return None
    return (
        f"{type(error).__name__}: {error}. This is a bug in itergp; set ITERGP_TRACEBACK=1 for the traceback."
    )


def say(text: str) -> None:
    """Print a message to stderr, above the progress bar if there is one. Dropped if stderr cannot be
    written."""
    with contextlib.suppress(OSError):  # a closed terminal or a full disk
        messages.print(one_line(text), soft_wrap=True)


def one_line(text: str) -> str:
    """On one line, with control characters escaped."""
    return "".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter in " ".join(text.split())
    )


def fail(text: str, code: int, as_json: bool) -> NoReturn:
    """One line on stderr; with --json, an object on stdout too, so that who reads it finds one."""
    say(f"Error: {text}")
    if as_json:
        with contextlib.suppress(OSError):
            typer.echo(json.dumps({"error": " ".join(text.split()), "exit_code": code}))
    raise typer.Exit(code)


def say_notes(notes: Iterable[str]) -> None:
    """What was done to a table on the way to numbers."""
    for sentence in notes:
        say(f"Note: {sentence}")


def _note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Show warnings of this library only."""
    if issubclass(category, SHOWN):
        say(f"Note: {message}")
