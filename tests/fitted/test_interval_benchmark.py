"""A slice of benchmarks/intervals.py: conformal intervals hold where Gaussian ones do not; records are run
once."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import interval_problems as problems
import intervals


@pytest.mark.slow
def test_skewed_errors_at_repeated_inputs_are_covered_as_often_as_the_level_says():
    found = intervals.measure(problems.made("repeated inputs", 0))
    for level in intervals.LEVELS:
        chance = (level * (1 - level) * (1 / problems.ROWS + 1 / problems.NEW)) ** 0.5
        assert abs(found[f"conformal {level}"][0] - level) < 4 * chance
    assert found["gaussian 0.8"][0] > 0.85
    assert found["conformal 0.8"][1] < found["gaussian 0.8"][1]  # and narrower


def test_there_are_twelve_made_sets_and_seven_real_ones():
    assert (len(problems.MADE), len(problems.REAL)) == (12, 7)
    for name in problems.MADE:
        data = problems.made(name, 1)
        assert len(data.X_new) == len(data.y_new) == problems.NEW
        assert len(data.X) == len(data.y)
        assert np.isfinite(data.X).all()
        assert np.isfinite(data.y).all()
        assert np.array_equal(data.y, problems.made(name, 1).y)
        assert not np.array_equal(data.y, problems.made(name, 2).y)


def test_a_record_is_run_once(tmp_path, monkeypatch):
    asked = []

    def record(name, split):
        asked.append((name, split))
        return {"name": name, "split": split, "factor": 1.0, "gaussian 0.5": [0.5, 1.0]}

    monkeypatch.setattr(intervals, "record", record)
    path = tmp_path / "records.jsonl"
    first = intervals.run_all(["skewed", "jumps"], 1, path)
    second = intervals.run_all(["skewed", "jumps"], 2, path)
    assert asked == [("skewed", 0), ("jumps", 0), ("skewed", 1), ("jumps", 1)]
    assert first == [second[0], second[2]]
