"""Predictions stay what they were: to the bit on the machine that recorded them, to rounding on others
(tests/golden.py)."""

import json

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import golden

RECORDED = json.loads(golden.FILE.read_text())
# of the largest value, on other machines; where learning ends depends on bits
CLOSE, FLOAT32, LEARNED = 1e-7, 1e-3, 1e-2


def test_every_golden_run_is_recorded():
    assert list(RECORDED["runs"]) == list(golden.RUNS)


@pytest.mark.parametrize("name", golden.RUNS)
def test_predictions_stay_what_they_were(name):
    with threadpool_limits(1):  # as they were recorded: sums over threads have other bits
        then, now = RECORDED["runs"][name], golden.run(name)
    if RECORDED["machine"] == golden.machine():
        assert now == then
    close = LEARNED if "learned" in name else FLOAT32 if "float32" in name else CLOSE
    for old, new in zip(then, now, strict=True):
        old, new = (np.array([float.fromhex(value) for value in part]) for part in (old, new))
        np.testing.assert_allclose(new, old, rtol=0, atol=close * np.abs(old).max())
