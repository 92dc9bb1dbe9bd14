"""The page about the estimator runs as it is printed."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "estimator.md"


def test_the_example_runs_and_does_what_its_comments_say():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    parts = names["parts"]
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, names["std"] ** 2)
    inside = (names["lower"] <= names["y"][500:]) & (names["y"][500:] <= names["upper"])
    assert 0.8 < inside.mean() <= 0.98
    assert names["model"].posterior_.problem.n == 600
