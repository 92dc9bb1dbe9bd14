"""Which kernel was chosen is said in a sentence and in a table, with what is known of it and no more."""

import pytest

from itergp.fitted import choice
from itergp.fitted.formats import MINUS, with_error
from itergp.learning.candidates import Considered
from itergp.report.page import parts


def one(name, score=None, error=None, coverage=None, chosen=False):
    return Considered(name, -0.1, score, error, coverage, chosen)


BEST = one("rbf", -0.5, 0.0, 0.95, True)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([], ""),
        (
            [BEST, one("matern52", -0.513, 0.004, 0.94), one("matern12")],
            "rbf, chosen among 3; next best matern52, 0.013 ± 0.004 nats per held-out row worse",
        ),
        (
            [BEST, one("matern52, one lengthscale + linear", -0.498, 0.004, 0.94)],
            "rbf, chosen among 2; next best matern52 (one lengthscale) + linear, 0.002 ± 0.004 nats per "
            "held-out row better, within the error",
        ),
        (
            [BEST, one("matern52", -0.4, 0.004, 0.94)],
            "rbf, chosen among 2; next best matern52, 0.100 ± 0.004 nats per held-out row better",
        ),
        (
            [one("rbf", chosen=True), one("matern52", -0.5, 0.1, 0.9)],
            "rbf, chosen among 2 by the likelihood alone, without held-out rows",
        ),
        (
            [BEST, one("matern52"), one("matern12")],
            "rbf, chosen among 3 by the likelihood alone; held-out rows were then predicted with it, and not "
            "compared with others",
        ),
        ([one("matern32", chosen=True)], "matern32; there was no time to compare it with others"),
    ],
)
def test_the_sentence_says_what_is_known(candidates, said):
    assert choice.sentence(choice.rows(candidates)) == said


def test_what_was_only_screened_has_dashes():
    rows = choice.rows([BEST, one("matern52", -0.513, 0.004, 0.94), one("matern12")])
    assert choice.cells(rows) == [
        ["rbf", f"{MINUS}0.5000", "chosen", "95.0\N{NO-BREAK SPACE}%"],
        ["matern52", f"{MINUS}0.5130", f"{MINUS}0.013 ± 0.004", "94.0\N{NO-BREAK SPACE}%"],
        ["matern12", choice.NONE, choice.NONE, choice.NONE],
    ]


def test_there_is_no_table_of_dashes():
    """Where nothing was compared, the sentence says it all."""
    for candidates in ([BEST, one("matern52"), one("matern12")], [BEST], []):
        found = choice.rows(candidates)
        assert choice.cells(found) == []
        page = parts.candidates({"candidates": found})
        assert "<table" not in page
        assert ("<p>Kernel: rbf" in page) == bool(candidates)


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (-0.0131, 0.0042, f"{MINUS}0.013 ± 0.004"),
        (0.25, 0.096, "0.25 ± 0.10"),
        (1234.5, 31.0, "1,234 ± 31"),
        (0.013, 0.0, "0.013"),
        (0.013, None, "0.013"),
        (None, 0.1, "not known"),
    ],
)
def test_a_value_has_as_many_digits_as_its_error(value, error, said):
    assert with_error(value, error) == said
