"""What the commands share: the app, two consoles, options, and errors as one clear line."""

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
# Names of columns and files are shown as they are: [red] in them is no colour.
console = Console(markup=False, highlight=False, emoji=False)
messages = Console(markup=False, highlight=False, emoji=False, stderr=True)
BAR_WIDTH = 24
# of the library; others say nothing here
SHOWN = (InterruptedWarning, LearningWarning, PrecisionWarning, StorageWarning)

BudgetOption = Annotated[
    str | None, typer.Option(help="Wall clock such as 60s, 5m or 1h, or a count such as '200 actions'.")
]
HeaderOption = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line holds names; found out by default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ModelArgument = Annotated[
    Path, typer.Argument(help="A model, as `fit` writes it.", metavar="MODEL", show_default=False)
]


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Errors end a command with one line: code 2 for bad use, 1 for a failure. The library's warnings are
    lines too."""
    with warnings.catch_warnings():
        for shown in SHOWN:
            warnings.simplefilter("always", shown)
        warnings.showwarning = _note  # type: ignore[assignment]
        try:
            with loading():
                yield
        except InputError as error:
            _fail(str(error), 2)
        except BrokenPipeError:  # nobody reads any more
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
                f"{type(error).__name__}: {error}. This is a bug of itergp; with ITERGP_TRACEBACK=1 it "
                "says where.",
                1,
            )


def say(text: str) -> None:
    """A line for people, beside the results; above the progress bar, where there is one. Lost where nobody
    can read it."""
    with contextlib.suppress(OSError):  # a terminal that was closed, a full disk
        messages.print(one_line(text), soft_wrap=True)


def one_line(text: str) -> str:
    """On one line, with anything that could move a terminal's cursor or colour made visible."""
    return "".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter in " ".join(text.split())
    )


def _fail(text: str, code: int) -> NoReturn:
    say(f"Error: {text}")
    raise typer.Exit(code)


def _note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Warnings of other libraries say nothing to who sits at the terminal."""
    if issubclass(category, SHOWN):
        say(f"Note: {message}")
