"""Products that are made again from the kernel are those that would have been stored, for every question that
can be asked of them; and what is kept does not grow with n."""

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import KERNELS
from itergp import Compute
from itergp.linalg import products
from itergp.linalg.basis import Basis
from itergp.linalg.columns import InMemory
from itergp.linalg.gram import Gram
from itergp.linalg.products import Products, Remade, lowered, remakes, slabs, unstored

N = 700


def gram(n=N, kernel="matern32", seed=0, engine="auto"):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return Gram(KERNELS[kernel], X, Compute("float64", engine=engine))


def actions(n=N, r=9, each=3, seed=1):
    """Disjoint sparse columns of length 1; unit vectors if each touches one row."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(n)[: r * each]
    values = rng.standard_normal((r, each)) if each > 1 else rng.choice([-1.0, 1.0], (r, 1))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return sp.csc_array((values.ravel(), (rows, np.repeat(np.arange(r), each))), shape=(n, r))


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("kernel", ["matern32", "linear-plus-constant", "product"])
@pytest.mark.parametrize("rows", [products.LEAST, 64])
def test_what_is_made_again_is_what_would_be_stored(each, kernel, rows, monkeypatch):
    monkeypatch.setattr(products, "LEAST", rows)
    monkeypatch.setattr(products, "ENTRIES", 1)  # slabs as small as they may be
    k, Q, rng = gram(kernel=kernel), actions(each=each), np.random.default_rng(2)
    KQ = KERNELS[kernel](k.X, k.X) @ Q.toarray()  # a dense oracle
    remade, V, C = Remade(k, Q), rng.standard_normal((N, 4)), rng.standard_normal((9, 4))
    some = rng.choice(N, 20, replace=False)
    close = {"rtol": 1e-11, "atol": 1e-11}
    assert (remade.shape, remade.size) == ((N, 9), 9)
    np.testing.assert_allclose(remade.rows(some), KQ[some], **close)
    np.testing.assert_allclose(remade.between(2, 7), KQ[:, 2:7], **close)
    np.testing.assert_allclose(remade.inner(V), KQ.T @ V, **close)
    np.testing.assert_allclose(remade.combine(C[:5]), KQ[:, :5] @ C[:5], **close)
    np.testing.assert_allclose(remade.combine(C[:0]), np.zeros((N, 4)), **close)
    np.testing.assert_allclose(remade.against(remade), Q.T @ KQ, **close)
    np.testing.assert_allclose(remade.only(np.array([4, 1])).between(0, 2), KQ[:, [4, 1]], **close)


def test_the_first_columns_are_made_again_and_the_later_ones_stored():
    k, Q, rng = gram(), actions(), np.random.default_rng(3)
    K, later = KERNELS["matern32"](k.X, k.X), rng.standard_normal((N, 4))
    both = Remade(k, Q[:, :5]).after(InMemory(N))
    both = Remade(k, sp.csc_array(Q[:, 5:])).after(both).append(later)
    A = np.concatenate([K @ Q.toarray(), later], axis=1)
    assert (both.size, both.front.size, both.rest.size, both.n) == (13, 9, 4, N)
    close = {"rtol": 1e-11, "atol": 1e-11}
    for a, b in ((0, 13), (3, 8), (7, 11), (9, 13), (10, 12)):
        np.testing.assert_allclose(both.between(a, b), A[:, a:b], **close)
    V, C, some = rng.standard_normal((N, 3)), rng.standard_normal((13, 3)), np.array([5, 600, 17])
    np.testing.assert_allclose(both.inner(V), A.T @ V, **close)
    np.testing.assert_allclose(both.rows(some), A[some], **close)
    for stop in (4, 9, 12):
        np.testing.assert_allclose(both.combine(C[:stop]), A[:, :stop] @ C[:stop], **close)
    more = rng.uniform(-1, 1, (30, 2))
    new = np.concatenate([np.full((30, 9), np.nan), rng.standard_normal((30, 4))], axis=1)
    longer = both.with_rows(new, k.extended(more))
    K_new = KERNELS["matern32"](more, k.X) @ Q.toarray()
    np.testing.assert_allclose(
        longer.rows(np.arange(N, N + 30)), np.concatenate([K_new, new[:, 9:]], axis=1), **close
    )


def test_only_small_sparse_actions_of_many_rows_are_made_again(monkeypatch):
    small, wide, unit = actions(each=3), actions(r=2, each=products.FEW + 1), actions(each=1)
    assert not remakes(small, Basis.empty(N)), "700 rows are few"
    monkeypatch.setattr(products, "LEAN_ROWS", N - 1)
    assert remakes(small, Basis.empty(N))
    assert remakes(unit, Basis.empty(N))
    assert not remakes(wide, Basis.empty(N))
    remade = Basis.empty(N).append(unit, Remade(gram(), unit))
    assert remade.lean
    assert remakes(small, remade)
    assert not remakes(small, Basis.empty(N).append(unit, np.zeros((N, 9)))), "stored ones came before"
    dense = remade.append(np.ones((N, 1)), np.ones((N, 1)))
    assert not dense.lean
    assert not remakes(small, dense)
    assert dense.lean_until(9)
    assert not dense.lean_until(10)


def test_a_basis_that_has_grown_forgets_its_products(monkeypatch):
    k, Q = gram(), actions()
    stored = Basis.empty(N).append(Q, k.multiply_columns(np.arange(N), Q.toarray()))
    assert unstored(stored, k) is stored
    monkeypatch.setattr(products, "LEAN_ROWS", N - 1)
    lean = unstored(stored, k)
    assert isinstance(lean.KQ, Products)
    np.testing.assert_allclose(lean.KQ.between(0, 9), stored.KQ.between(0, 9), rtol=1e-12, atol=1e-12)
    assert unstored(lean, k) is lean


def test_slabs_cover_every_row_once():
    for width, n, first in ((1, 10, 0), (5000, 1000, 0), (5000, 1000, 999), (0, 7, 3)):
        rows = [row for some in slabs(width, n, first) for row in range(some.start, some.stop)]
        assert rows == list(range(first, n))


def test_variances_are_lowered_column_by_column_wherever_a_budget_cuts():
    rng = np.random.default_rng(4)
    variance, F = rng.uniform(1, 2, 50), rng.standard_normal((50, 12))
    expected = variance.copy()
    for f in F.T:
        expected -= f * f
    assert np.array_equal(lowered(variance, F), expected)
    assert np.array_equal(lowered(lowered(variance, F[:, :5]), F[:, 5:]), expected)
    assert np.array_equal(lowered(variance[:1], F[:1]), expected[:1])
