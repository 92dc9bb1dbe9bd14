"""Files of models whose products are not stored: without K Q, and the same bits after loading."""

import numpy as np
import pytest
from safetensors import safe_open

from helpers import KERNELS, make_data
from itergp import (
    BlockKrylov,
    MaxActions,
    Posterior,
    Prior,
    Problem,
    Schedule,
    StorageError,
    UnitVector,
    condition,
    solve,
)
from itergp.linalg import products
from itergp.storage import models
from itergp.storage.checkpoints import Checkpoint, fingerprint
from itergp.storage.models import load, save

ROWS = 50
DATA = make_data(ROWS)
POLICIES = {
    "lean": lambda: UnitVector("random", block_size=6),
    "then dense": lambda: Schedule((UnitVector("random", block_size=6), 12), (BlockKrylov(4), None)),
}


@pytest.fixture(autouse=True)
def _lean(monkeypatch):
    monkeypatch.setattr(products, "LEAN_ROWS", ROWS - 1)
    monkeypatch.setattr(products, "LEAST", 16)
    monkeypatch.setattr(products, "ENTRIES", 1)


def fitted(policy, number=17, noise=0.05):
    return condition(Prior(KERNELS["rbf"]), DATA.X, DATA.y, noise, POLICIES[policy](), MaxActions(number))


def answers(posterior):
    local, certificate = posterior.local(5), posterior.certify(DATA.X_new)
    found = [posterior.mean(DATA.X_new), posterior.var(DATA.X_new), *local.marginals(DATA.X_new)]
    return [*found, certificate.mean_error, posterior.state.residual]


def assert_same_bits(a, b):
    for one, other in zip(answers(a), answers(b), strict=True):
        assert np.array_equal(one, other)


def stored_numbers(path):
    with safe_open(path, framework="np") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [0.05, np.linspace(0.02, 0.1, ROWS)], ids=["scalar", "per row"])
def test_a_loaded_model_goes_on_with_the_same_bits(policy, noise, tmp_path):
    saved = fitted(policy, noise=noise)
    save(tmp_path / "m", saved)
    loaded = load(tmp_path / "m")[0]
    assert_same_bits(loaded, saved)
    more = MaxActions(9)
    assert_same_bits(loaded.refine(stop=more), saved.refine(stop=more))
    new = DATA.X_new[:5], DATA.y[:5], None if np.ndim(noise) == 0 else np.full(5, 0.1)
    assert_same_bits(loaded.append(*new), saved.append(*new))


def test_a_lean_file_has_no_products_and_loads_lean(tmp_path, monkeypatch):
    save(tmp_path / "m", fitted("lean"))
    assert "KQ" not in stored_numbers(tmp_path / "m")
    assert load(tmp_path / "m")[0].state.basis.lean
    monkeypatch.setattr(products, "LEAN_ROWS", 10**9)  # also where the same fit would store them today
    assert load(tmp_path / "m")[0].state.basis.lean


def test_products_after_a_dense_action_are_in_the_file(tmp_path):
    saved = fitted("then dense")
    save(tmp_path / "m", saved)
    assert stored_numbers(tmp_path / "m")["KQ"] == [saved.state.basis.size - 12, ROWS]


def test_a_file_with_products_loads_with_them_whatever_the_rows(tmp_path, monkeypatch):
    """As the files of earlier versions are: their heads do not say that products are made again."""
    monkeypatch.setattr(products, "LEAN_ROWS", 10**9)
    saved = fitted("lean")
    save(tmp_path / "m", saved)
    monkeypatch.setattr(products, "LEAN_ROWS", 0)
    loaded = load(tmp_path / "m")[0]
    assert "KQ" in stored_numbers(tmp_path / "m")
    assert not loaded.state.basis.lean
    assert_same_bits(loaded, saved)
    assert loaded.refine(stop=MaxActions(6)).rank == 23


@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_for_predictions_only(policy, tmp_path):
    saved = fitted(policy)
    save(tmp_path / "m", saved, refinable=False)
    assert_same_bits(load(tmp_path / "m")[0], saved)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [6, 8, 14])
def test_a_checkpoint_resumes_with_the_same_bits(policy, first, tmp_path):
    problem, acting = Problem(Prior(KERNELS["rbf"]), DATA.X, DATA.y, 0.05), POLICIES[policy]()
    whole = solve(problem, acting, MaxActions(20))
    with Checkpoint(tmp_path / "c", fingerprint(problem, acting), every=0) as checkpoint:
        solve(problem, acting, MaxActions(first), callback=checkpoint.write)
    written = [stored_numbers(path) for path in (tmp_path / "c").glob("columns-*")]
    assert any("KQ" in names for names in written) == (policy == "then dense" and first > 12)
    with Checkpoint(tmp_path / "c", fingerprint(problem, acting)) as checkpoint:
        state = checkpoint.resume(problem, acting)
    assert state.rank == first
    assert state.basis.KQ.lean
    found = solve(problem, acting, MaxActions(20 - first), state)
    assert_same_bits(Posterior(problem, found, acting), Posterior(problem, whole, acting))


@pytest.mark.parametrize(("remade", "what"), [(7, "within a block"), (16, "dense actions without")])
def test_a_file_that_lies_about_its_products_is_refused(remade, what, tmp_path, monkeypatch):
    saved, head_value, columns = fitted("then dense", 16), models.head_value, models.columns
    assert saved.state.blocks == (0, 6, 12, 16)
    monkeypatch.setattr(models, "head_value", lambda *given: {**head_value(*given), "remade": remade})
    monkeypatch.setattr(models, "columns", lambda *given: columns(*given[:4], products=False))
    save(tmp_path / "m", saved)
    with pytest.raises(StorageError, match=what):
        load(tmp_path / "m")
