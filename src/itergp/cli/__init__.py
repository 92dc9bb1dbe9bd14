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
    except (KeyboardInterrupt, SystemExit) as end:
        # Ctrl-C so early that no command has begun, which the parser ends with 130: a failure like others
        sys.exit(1 if isinstance(end, KeyboardInterrupt) or end.code == 130 else end.code)
