"""One self-contained HTML page per fit, and its JSON twin."""

from itergp.report.measure.numbers import numbers as numbers
from itergp.report.page.writing import write_page as write_page, write_twin as write_twin
