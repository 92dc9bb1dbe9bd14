"""The command line: parses, calls, prints. One file for each kind of command; what they share is in `app.py`."""

import contextlib
import io
import sys


def main() -> None:
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # somebody's replacement
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        from itergp.cli.commands import app

        app()
    except KeyboardInterrupt:  # so early that no command has begun, or so late that all are done
        sys.exit(1)
