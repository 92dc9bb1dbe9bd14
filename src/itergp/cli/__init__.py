"""The command line: parses, calls, prints. One file for each kind of command; what they share is in `app.py`."""

import contextlib
import io
import sys

from itergp.cli import demo, fitting, information, predicting  # noqa: F401 (each adds its commands)
from itergp.cli.app import app


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # somebody's replacement
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()
