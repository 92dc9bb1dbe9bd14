"""The command line: parses, calls, prints. One file for each kind of command; what they share is in
`app.py`."""

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
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # somebody's replacement
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        require_libraries()
        from itergp.cli.commands import app

        app()
    except MemoryLimitError as error:  # so early that no command has begun
        sys.exit(f"Error: {error}")
    except (KeyboardInterrupt, SystemExit) as end:
        # Ctrl-C so early that no command has begun, which the parser ends with 130: a failure like others
        code = 1 if isinstance(end, KeyboardInterrupt) or end.code == 130 else end.code
    except OSError as error:  # of the help, which is written outside of commands
        code = _unwritten(error)
    sys.exit(_flushed() or code)  # type: ignore[arg-type]


def _flushed() -> int:
    """What is still to be written, before the interpreter tries it, who would show where it failed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    except ValueError:  # closed
        pass
    return 0


def _unwritten(error: OSError) -> int:
    """A full disk, or nobody who reads: one line, and nothing more is tried."""
    with contextlib.suppress(OSError, ValueError):
        if not isinstance(error, BrokenPipeError):
            print(
                f"Error: the output cannot be written: {error.strerror or error}.",
                file=sys.stderr,
                flush=True,
            )
    with contextlib.suppress(OSError, ValueError):  # the interpreter would try again to flush it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
