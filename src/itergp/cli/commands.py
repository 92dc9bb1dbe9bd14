"""All commands: importing a file registers its commands with the app."""

from itergp.cli import demo, experiments, fitting, information, predicting, reporting  # noqa: F401
from itergp.cli.app import app as app
