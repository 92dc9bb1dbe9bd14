"""Shared by all commands: the app, two consoles, options, and one-line error messages."""

import contextlib
import os
import warnings
from collections.abc import Iterator
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
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Names of columns and files are printed verbatim: [red] in a name is not a colour.
console = Console(markup=False, highlight=False, emoji=False)
messages = Console(markup=False, highlight=False, emoji=False, stderr=True)
BAR_WIDTH = 24
# warnings of this library; others are not shown
SHOWN = (InterruptedWarning, LearningWarning, PrecisionWarning, StorageWarning)

BudgetOption = Annotated[
    str | None, typer.Option(help="Wall-clock time such as 60s, 5m or 1h, or a count such as '200 actions'.")
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


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Errors end a command with one line: exit code 2 for wrong usage, 1 for a failure. Warnings of this
    library are printed as one line too."""
    with warnings.catch_warnings():
        for shown in SHOWN:
            warnings.simplefilter("always", shown)
        warnings.showwarning = _note  # type: ignore[assignment]
        try:
            with loading():
                yield
        except InputError as error:
            _fail(str(error), 2)
        except BrokenPipeError:  # the reader has closed the pipe
            raise typer.Exit(1) from None
        except (ItergpError, OSError) as error:
            _fail(str(error), 1)
        except MemoryError as error:
            _fail(f"out of memory ({error}).", 1)
        except KeyboardInterrupt:
            _fail("interrupted; nothing was written.", 1)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if os.environ.get("ITERGP_TRACEBACK"):
                raise
            _fail(
                f"{type(error).__name__}: {error}. This is a bug in itergp; set ITERGP_TRACEBACK=1 for the "
                "traceback.",
                1,
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


def _fail(text: str, code: int) -> NoReturn:
    say(f"Error: {text}")
    raise typer.Exit(code)


def _note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Show warnings of this library only."""
    if issubclass(category, SHOWN):
        say(f"Note: {message}")
