"""One self-contained HTML page per fit, and its JSON twin."""

from itergp.report.numbers import numbers as numbers
