"""Orthonormal blocks, by the same rules for few rows and for many: tall ones are factorised in parts."""

import numpy as np
import pytest

from itergp.linalg import orthonormal
from itergp.linalg.basis import Basis
from itergp.linalg.orthonormal import _qr, _triangle, orthonormalise

TALL = orthonormal.TALL * orthonormal.ROWS


def block(n, width, seed=0, condition=1.0):
    """Columns of unit length; the later ones nearly in the span of the earlier ones."""
    rng = np.random.default_rng([seed, n, width])
    A = np.linalg.qr(rng.standard_normal((n, width)))[0]
    A = A * np.geomspace(1.0, 1.0 / condition, width) + A[:, :1]
    return A / np.linalg.norm(A, axis=0)


@pytest.mark.parametrize("n", [TALL - 1, TALL, TALL + 777, 3 * TALL])
@pytest.mark.parametrize("width", [1, 40])
def test_the_triangle_of_a_tall_matrix_is_that_of_lapack(n, width):
    A = block(n, width)
    R = np.linalg.qr(A, mode="r")
    np.testing.assert_allclose(_triangle(A), R * np.sign(np.diag(R))[:, None], atol=1e-12)
    Q, R = _qr(A)
    assert (np.diag(R) > 0).all()
    np.testing.assert_allclose(Q @ R, A, atol=1e-13)


@pytest.mark.parametrize("width", [1, 7, 40, 90])
def test_blocks_wider_than_a_part_are_factorised_too(width, monkeypatch):
    monkeypatch.setattr(orthonormal, "ROWS", 8)
    A = block(800, width)
    R = np.linalg.qr(A, mode="r")
    np.testing.assert_allclose(_triangle(A), R * np.sign(np.diag(R))[:, None], atol=1e-12)


@pytest.mark.parametrize("n", [500, TALL + 100])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e9])
def test_blocks_are_orthonormal_to_each_other_and_within(n, condition):
    basis = Basis.empty(n)
    for seed in range(3):
        S = block(n, 30, seed, condition)
        Q, kept, C, R = orthonormalise(S, basis, 1e-10)
        assert kept.size == 30
        np.testing.assert_allclose(Q.T @ Q, np.eye(30), atol=1e-13)
        np.testing.assert_allclose(basis.inner(Q), 0.0, atol=1e-13)
        np.testing.assert_allclose(basis.combine(C) + Q @ R, S, atol=1e-12)
        basis = basis.append(Q, Q)


@pytest.mark.parametrize("n", [500, TALL + 100])
def test_dependent_columns_are_dropped_wherever_they_stand(n):
    first = block(n, 5, seed=1)
    basis = Basis.empty(n).append(np.linalg.qr(first)[0], first)
    new = block(n, 4, seed=2)
    S = np.column_stack(
        [new[:, 0], first[:, 2], new[:, 1], new[:, 0], new[:, 2], new[:, 1] + new[:, 0], new[:, 3]]
    )
    Q, kept, _, _ = orthonormalise(S / np.linalg.norm(S, axis=0), basis, 1e-10)
    np.testing.assert_array_equal(kept, [0, 2, 4, 6])
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-13)
    np.testing.assert_allclose(basis.inner(Q), 0.0, atol=1e-13)
    span = Q @ (Q.T @ new) + basis.combine(basis.inner(new))
    np.testing.assert_allclose(span, new, atol=1e-12)


def test_columns_that_are_zero_after_projection_are_dropped_in_tall_blocks():
    n = TALL + 5
    first = block(n, 3)
    basis = Basis.empty(n).append(np.linalg.qr(first)[0], first)
    S = np.zeros((n, 2))
    S[:, 0], S[0, 1] = basis.dense(0, 1)[:, 0], 1.0
    with np.errstate(all="raise"):
        _, kept, _, _ = orthonormalise(S, basis, 1e-10)
    np.testing.assert_array_equal(kept, [1])
    nothing, kept, _, _ = orthonormalise(S[:, :1], basis, 1e-10)
    assert nothing.shape == (n, 0)
    assert kept.size == 0
