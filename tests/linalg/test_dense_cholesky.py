"""Dense factors and inverses that look at the clock."""

import numpy as np
import pytest

from itergp.linalg import cholesky as module
from itergp.linalg.cholesky import cholesky, factor, inverse
from itergp.linalg.gram import Gram
from itergp.prior.stationary import Matern32


class Enough(Exception):  # noqa: N818 (no error)
    pass


def counted(most=np.inf):
    calls = []

    def tick():
        calls.append(1)
        if len(calls) > most:
            raise Enough

    return calls, tick


def matrix(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, 2 * n))
    return np.asfortranarray(A @ A.T / n + 0.1 * np.eye(n))


@pytest.mark.parametrize("n", [7, 40, 64, 75])
def test_blocks_give_the_factor_and_the_inverse_of_lapack(monkeypatch, n):
    monkeypatch.setattr(module, "WHOLE", 5)
    monkeypatch.setattr(module, "BLOCK", 16)
    A = matrix(n)
    calls, tick = counted()
    L, failed = factor(A.copy(order="F"), tick)
    assert not failed
    np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        np.tril(inverse(L.copy(order="F"), tick)), np.tril(np.linalg.inv(A)), rtol=1e-9, atol=1e-11
    )
    assert len(calls) >= 2 + (n // 16) ** 2  # at least once for each pair of blocks


def test_blocks_say_where_a_matrix_is_not_positive_definite(monkeypatch):
    monkeypatch.setattr(module, "WHOLE", 5)
    monkeypatch.setattr(module, "BLOCK", 16)
    A = matrix(40)
    A[33, 33] = -1.0
    assert factor(A)[1]


def test_a_factorisation_ends_where_a_tick_says_so(monkeypatch):
    monkeypatch.setattr(module, "WHOLE", 5)
    monkeypatch.setattr(module, "BLOCK", 16)
    with pytest.raises(Enough):
        factor(matrix(75), counted(3)[1])


def test_wide_data_are_evaluated_some_columns_at_a_time_to_the_same_bits(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 100))
    gram, N = Gram(Matern32(10.0), X), np.full(50, 0.1)
    whole = cholesky(gram, N)[0]
    monkeypatch.setattr(module, "ENTRIES", 50 * (100 + module.OTHER) * 7.0)
    calls, tick = counted()
    np.testing.assert_array_equal(cholesky(gram, N, tick)[0], whole)
    assert len(calls) >= 50 // 7
