"""Files that an earlier version wrote are read by this one, and give the same numbers. `written/make.py`
made them."""

import json
from pathlib import Path

import numpy as np
import pytest

from itergp import InputError, IterGPRegressor

WRITTEN = Path(__file__).parent / "written"
EXPECTED = json.loads((WRITTEN / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_of_an_earlier_version_predicts_and_refines_as_it_did(name):
    model, then = IterGPRegressor.load(WRITTEN / f"{name}.itergp"), EXPECTED[name]
    X = np.array(then["X"])
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, then["mean"], rtol=1e-9)
    np.testing.assert_allclose(std, then["std"], rtol=1e-9)
    if then["refined"]:
        np.testing.assert_allclose(model.refine("4 actions").predict(X), then["refined"], rtol=1e-9)
    else:
        with pytest.raises(InputError, match="refinable=False"):
            model.refine("4 actions")
