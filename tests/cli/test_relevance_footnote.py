"""What the summary says of features that are not listed is true of them."""

import pytest

from itergp.cli.drawing import MOST_FEATURES, _not_shown

MOST = [3.0] * MOST_FEATURES


@pytest.mark.parametrize(
    ("relevances", "said"),
    [
        (MOST, ""),
        ([*MOST, 1.0], " 1 less relevant feature is not shown; --json lists all."),
        ([*MOST, 2.0, 1.0], " 2 less relevant features are not shown; --json lists all."),
        ([*MOST, 3.0], " 1 more, of the same relevance, is not shown; --json lists all."),
        ([*MOST, *MOST], " 12 more, of the same relevance, are not shown; --json lists all."),
        (
            [*MOST, 3.0, 1.0],
            " 2 more, 1 of the same relevance and 1 of less, are not shown; --json lists all.",
        ),
        ([0.0] * 14, " 2 more, of the same relevance, are not shown; --json lists all."),
    ],
)
def test_features_that_are_not_shown_are_called_less_relevant_only_if_they_are(relevances, said):
    assert _not_shown(relevances) == said
