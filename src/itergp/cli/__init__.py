"""The command line interface: parse, call, print. One file per kind of command; `app.py` is shared."""

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from itergp.errors import MemoryLimitError
from itergp.linalg.libraries import require_libraries

if TYPE_CHECKING:
    from typer import Typer


def main() -> None:
    code: object = 0
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # a replaced stream
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        require_libraries()
        from itergp.cli.commands import app

        if "--json" in sys.argv:
            code = _answered(app)
        else:
            app()
    except MemoryLimitError as error:  # raised before any command has started
        sys.exit(f"Error: {error}")
    except (KeyboardInterrupt, SystemExit) as end:
        # Ctrl-C before any command has started; the parser exits with 130. Treated like any other failure.
        early = isinstance(end, KeyboardInterrupt) or end.code == 130
        code = _interrupted() if early else end.code  # type: ignore[union-attr]
    except OSError as error:  # from the help text, which is written outside of commands
        code = _unwritten(error)
    sys.exit(_flushed() or code)  # type: ignore[arg-type]


def _interrupted() -> int:
    """As inside of a command, without the libraries that may not be loaded yet."""
    text = "interrupted; nothing was written."
    with contextlib.suppress(OSError, ValueError):
        print(f"Error: {text}", file=sys.stderr, flush=True)
        if "--json" in sys.argv:
            print(f'{{"error": "{text}", "exit_code": 1}}')
    return 1


def _answered(app: "Typer") -> object:
    """Run a command; wrong options are said as JSON too. Errors inside of commands are already."""
    from itergp.cli.app import fail

    try:
        return app(standalone_mode=False) or 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # of the parser, whatever its name
            raise
        try:
            fail(error.format_message(), error.exit_code, as_json=True)  # type: ignore[attr-defined]
        except Exception as end:
            return getattr(end, "exit_code", 1)


def _flushed() -> int:
    """Flush before the interpreter does: if it failed there, a traceback would be shown."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    except ValueError:  # closed
        pass
    return 0


def _unwritten(error: OSError) -> int:
    """A full disk or a closed pipe: print one line and do not try again."""
    with contextlib.suppress(OSError, ValueError):
        if not isinstance(error, BrokenPipeError):
            print(
                f"Error: the output cannot be written: {error.strerror or error}.",
                file=sys.stderr,
                flush=True,
            )
    with contextlib.suppress(OSError, ValueError):  # otherwise the interpreter would flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
