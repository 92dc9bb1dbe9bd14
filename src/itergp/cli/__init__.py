"""The command line interface: parse, call, print. One file per kind of command; `app.py` is shared."""

import contextlib
import io
import os
import sys

from itergp.errors import MemoryLimitError
from itergp.linalg.libraries import require_libraries


def main() -> None:
    code: object = 0
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # a replaced stream
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        require_libraries()
        from itergp.cli.commands import app

        app()
    except MemoryLimitError as error:  # raised before any command has started
        sys.exit(f"Error: {error}")
    except (KeyboardInterrupt, SystemExit) as end:
        # Ctrl-C before any command has started; the parser exits with 130. Treated like any other failure.
        code = 1 if isinstance(end, KeyboardInterrupt) or end.code == 130 else end.code
    except OSError as error:  # from the help text, which is written outside of commands
        code = _unwritten(error)
    sys.exit(_flushed() or code)  # type: ignore[arg-type]


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
