"""Append-only storage: what was appended never changes, and branches do not see each other."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

import itergp.linalg.basis
from itergp import InputError
from itergp.linalg.basis import Basis, Factor, cholesky_keeping
from itergp.linalg.columns import InMemory
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.linalg.orthonormal import orthonormalise

rng = np.random.default_rng(0)


def spd(n):
    A = rng.standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("widths", [(1,), (3, 70, 2), (64, 64), (200, 1), ()])
def test_columns_are_the_matrix_that_was_appended(widths):
    blocks = [rng.standard_normal((9, width)) for width in widths]
    A, columns = np.concatenate([np.zeros((9, 0)), *blocks], axis=1), InMemory(9)
    for block in blocks:
        columns = columns.append(block)
    V, r = rng.standard_normal((9, 2)), A.shape[1]
    assert columns.size == r
    np.testing.assert_allclose(columns.inner(V), A.T @ V)
    for some in {0, r // 2, r}:
        C = rng.standard_normal((some, 2))
        np.testing.assert_allclose(columns.combine(C), A[:, :some] @ C)
        np.testing.assert_array_equal(columns.between(some // 2, some), A[:, some // 2 : some])
    np.testing.assert_array_equal(columns.rows(np.array([8, 0])), A[[8, 0]])
    np.testing.assert_allclose(columns.squared_rows(), (A**2).sum(axis=1))
    more = rng.standard_normal((4, r))
    np.testing.assert_array_equal(columns.with_rows(more).between(0, r), np.concatenate([A, more]))


def test_branches_of_columns_and_factors_do_not_see_each_other():
    base = InMemory(5).append(rng.standard_normal((5, 3)))
    before = base.between(0, 3).copy()
    left, right = base.append(np.full((5, 2), 1.0)), base.append(np.full((5, 2), 2.0))
    assert (left.between(3, 5) == 1).all()
    assert (right.between(3, 5) == 2).all()
    np.testing.assert_array_equal(base.between(0, 3), before)
    G = spd(6)
    L = np.linalg.cholesky(G)
    start = Factor.empty().append(np.zeros((0, 4)), L[:4, :4])
    one = start.append(L[4:, :4].T, L[4:, 4:])
    other = start.append(np.zeros((4, 2)), np.eye(2))
    np.testing.assert_allclose(one.L() @ one.L().T, G)
    np.testing.assert_array_equal(other.L()[4:, 4:], np.eye(2))
    np.testing.assert_array_equal(start.L(), L[:4, :4])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_history_of_rows_columns_and_branches_is_a_matrix_of_its_own(data):
    """Each version, and each that goes on from an earlier one, stays what was put into it; told by plain
    copies."""
    own = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    versions = [(InMemory(3), np.zeros((3, 0)))]
    for _ in range(data.draw(st.integers(1, 25))):
        columns, A = versions[data.draw(st.integers(max(0, len(versions) - 4), len(versions) - 1))]
        size = data.draw(st.sampled_from([1, 1, 2, 3, 40, 70]))
        if data.draw(st.booleans()):
            block = own.standard_normal((len(A), size))
            versions.append((columns.append(block), np.concatenate([A, block], axis=1)))
        else:
            more = own.standard_normal((size, A.shape[1]))
            versions.append((columns.with_rows(more), np.concatenate([A, more])))
    for columns, A in versions:
        np.testing.assert_array_equal(columns.between(0, A.shape[1]), A)
        V, C = own.standard_normal((len(A), 2)), own.standard_normal((A.shape[1], 2))
        np.testing.assert_allclose(columns.inner(V), A.T @ V, atol=1e-12)
        np.testing.assert_allclose(columns.combine(C), A @ C, atol=1e-12)
        np.testing.assert_allclose(columns.squared_rows(), (A**2).sum(axis=1))
        np.testing.assert_array_equal(columns.rows(np.array([2, 0])), A[[2, 0]])


class Slow(np.ndarray):
    """Memory in which whoever writes waits a moment for somebody else to begin too."""

    meeting: threading.Barrier

    def __setitem__(self, where, values):
        with contextlib.suppress(threading.BrokenBarrierError):
            Slow.meeting.wait(0.3)
        super().__setitem__(where, values)


def slowly(memory):
    memory.array, Slow.meeting = memory.array.view(Slow), threading.Barrier(2)


def at_once(*tasks):
    with ThreadPoolExecutor(len(tasks)) as threads:
        return [task.result(60) for task in [threads.submit(task) for task in tasks]]


def test_threads_that_append_columns_to_the_same_ones_do_not_see_each_other():
    base = InMemory(5).append(np.zeros((5, 3)))
    slowly(base.chunks[-1][0])
    for value, longer in enumerate(at_once(*(partial(base.append, np.full((5, 2), k)) for k in range(2)))):
        assert (longer.between(3, 5) == value).all()


def test_threads_that_append_rows_to_the_same_ones_do_not_see_each_other():
    base = InMemory(5).append(np.zeros((5, 3))).with_rows(np.zeros((1, 3)))
    assert base.chunks[0][0].array.shape[0] > base.n  # there is room, which both could take
    slowly(base.chunks[0][0])
    for value, longer in enumerate(at_once(*(partial(base.with_rows, np.full((1, 3), k)) for k in range(2)))):
        assert (longer.rows(np.array([base.n])) == value).all()


def test_threads_that_extend_the_same_factor_do_not_see_each_other():
    base = Factor.empty().append(np.zeros((0, 3)), np.eye(3))
    slowly(base.memory)
    tasks = [partial(base.append, np.full((3, 2), k), np.eye(2)) for k in range(2)]
    for value, longer in enumerate(at_once(*tasks)):
        assert (longer.L()[3:, :3] == value).all()


@pytest.fixture
def allocated(monkeypatch):
    """The numbers in each allocation of columns."""
    sizes, chunk = [], itergp.linalg.columns._Chunk

    class Counted(chunk):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            sizes.append(self.array.size)

    monkeypatch.setattr(itergp.linalg.columns, "_Chunk", Counted)
    return sizes


def test_a_stream_of_rows_and_columns_copies_each_number_a_few_times(allocated):
    """A thousand rows, and a column with each: not a thousand matrices, but a few; and room for a quarter
    more at most."""
    columns = InMemory(500).append(np.zeros((500, 500)))
    once = sum(allocated)
    for n in range(500, 1500):
        columns = columns.with_rows(np.full((1, n), n)).append(np.full((n + 1, 1), -n))
    matrix = 1500 * 1500
    assert sum(allocated) < 4 * matrix
    held = sum(chunk.array.size for chunk, _ in columns.chunks)
    assert matrix <= held < 1.4 * matrix
    assert once == 500 * 500


def test_columns_alone_take_no_room_for_rows(allocated):
    InMemory(1000).append(np.zeros((1000, 64))).append(np.zeros((1000, 100)))
    assert sum(allocated) == 1000 * 164


def test_a_basis_mixes_dense_and_sparse_blocks_in_their_order():
    dense, unit = rng.standard_normal((7, 3)), sp.csc_array(np.eye(7)[:, [2, 5]])
    Q = np.concatenate([unit.toarray(), dense, unit.toarray()], axis=1)
    basis = Basis.empty(7)
    for block in (unit, dense[:, :1], dense[:, 1:], unit):
        basis = basis.append(block, np.zeros((7, block.shape[1])))
    V = rng.standard_normal((7, 2))
    assert (basis.size, basis.sparse, basis.support()) == (7, False, None)
    np.testing.assert_allclose(basis.inner(V), Q.T @ V)
    np.testing.assert_array_equal(basis.dense(1, 6), Q[:, 1:6])
    np.testing.assert_array_equal(basis.actions(4), Q[:, :4])
    np.testing.assert_array_equal(basis.rows(np.array([5, 1])), Q[[5, 1]])
    for some in range(8):
        C = rng.standard_normal((some, 2))
        np.testing.assert_allclose(basis.combine(C), Q[:, :some] @ C, atol=1e-14)
    assert basis.with_rows(np.ones((3, 7))).dense(0, 7)[7:].any() == np.False_


def test_dense_and_sparse_actions_in_turn_take_the_memory_of_one_matrix_and_few_parts():
    """As in a stream of rows, new ones and known ones: not an allocation of 64 columns for each of them."""
    n, turns = 300, 100
    basis, Q = Basis.empty(n), np.zeros((n, 0))
    for turn in range(turns):
        dense, unit = rng.standard_normal((n, 1)), sp.csc_array(np.eye(n)[:, [turn]])
        for block in (dense, unit):
            basis = basis.append(block, np.zeros((n, 1)))
            Q = np.concatenate([Q, block.toarray() if sp.issparse(block) else block], axis=1)
    held = sum(
        chunk.array.size for part in basis.parts if isinstance(part, InMemory) for chunk, _ in part.chunks
    )
    assert held < Q.size + 2 * 64 * n
    assert len(basis.parts) < 10
    np.testing.assert_array_equal(basis.dense(0, 2 * turns), Q)
    V, C = rng.standard_normal((n, 3)), rng.standard_normal((2 * turns, 3))
    np.testing.assert_allclose(basis.inner(V), Q.T @ V, atol=1e-12)
    np.testing.assert_allclose(basis.combine(C), Q @ C, atol=1e-12)


def test_a_sparse_basis_knows_its_support():
    basis = Basis.empty(7).append(sp.csc_array(np.eye(7)[:, [5, 2]]), np.zeros((7, 2)))
    assert basis.sparse
    np.testing.assert_array_equal(basis.support(), [2, 5])
    np.testing.assert_array_equal(np.flatnonzero(basis.spanned_rows()), [2, 5])
    assert sp.issparse(basis.actions(1))


def test_a_row_is_spanned_once_dense_actions_reach_its_unit_vector():
    Q = np.linalg.qr(np.concatenate([np.ones((7, 1)), np.eye(7)[:, [3]]], axis=1))[0]
    basis = Basis.empty(7).append(Q, np.zeros((7, 2)))
    np.testing.assert_array_equal(np.flatnonzero(basis.spanned_rows()), [3])


def test_a_factor_grows_and_solves():
    G, factor, r = spd(150), Factor.empty(), 0
    for width in (1, 60, 20, 69):
        b = slice(r, r + width)
        W = factor.solve(G[:r, b])
        factor, r = factor.append(W, np.linalg.cholesky(G[b, b] - W.T @ W)), r + width
    L, B = np.linalg.cholesky(G), rng.standard_normal((150, 2))
    np.testing.assert_allclose(factor.L(), L, atol=1e-10)
    np.testing.assert_allclose(factor.solve(B), scipy.linalg.solve_triangular(L, B, lower=True), atol=1e-9)
    np.testing.assert_allclose(
        factor.solve_transposed(B[:40], 40), scipy.linalg.solve(L[:40, :40].T, B[:40]), atol=1e-9
    )


@pytest.mark.parametrize("columns", [1, 3, 50])
def test_solves_with_large_factors_are_those_of_lapack(columns):
    """Few right-hand sides go through slabs of rows. Errors as in LAPACK: relative to L x, row by row."""
    r = 4 * itergp.linalg.basis.SLAB + 37
    L = np.tril(rng.standard_normal((r, r))) / r**0.5 + 2 * np.eye(r)
    factor, B = (
        Factor.of(L[:-20, :-20]).append(L[-20:, :-20].T, L[-20:, -20:]),
        rng.standard_normal((r, columns)),
    )
    for size in (r, r - 400, 1):
        for solve, A in ((factor.solve, L[:size, :size]), (factor.solve_transposed, L[:size, :size].T)):
            X = solve(B[:size], size)
            assert (np.abs(A @ X - B[:size]) <= 1e-14 * (np.abs(A) @ np.abs(X))).all()
    np.testing.assert_allclose(
        factor.solve(B), scipy.linalg.solve_triangular(L, B, lower=True), rtol=1e-9, atol=1e-12
    )


def test_cholesky_drops_what_depends_on_earlier_columns_and_keeps_their_order():
    A = rng.standard_normal((6, 6))
    A[:, 2], A[:, 4] = A[:, 0] + A[:, 1], 0.0
    L, kept = cholesky_keeping(A.T @ A, least=np.full(6, 1e-10))
    np.testing.assert_array_equal(kept, [0, 1, 3, 5])
    np.testing.assert_allclose(L @ L.T, (A.T @ A)[np.ix_(kept, kept)])
    assert cholesky_keeping(-np.eye(2), least=np.zeros(2))[1].size == 0


def test_orthonormal_blocks_reproduce_the_actions_without_the_dependent_ones():
    Q_old = np.linalg.qr(rng.standard_normal((12, 3)))[0]
    basis = Basis.empty(12).append(Q_old, np.zeros((12, 3)))
    S = rng.standard_normal((12, 5))
    S[:, 1], S[:, 3] = Q_old @ [1.0, 2.0, 3.0], S[:, 0] - 2 * S[:, 2]
    S /= np.linalg.norm(S, axis=0)
    Q, kept, C, R = orthonormalise(S, basis, 1e-10)
    np.testing.assert_array_equal(kept, [0, 2, 4])
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(Q_old.T @ Q, 0, atol=1e-14)
    np.testing.assert_allclose(Q_old @ C + Q @ R, S[:, kept], atol=1e-14)


def test_orthonormal_blocks_may_be_wider_than_the_space():
    Q, kept, _, _ = orthonormalise(rng.standard_normal((3, 8)), Basis.empty(3), 1e-10)
    assert kept.size == 3
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)


@pytest.mark.parametrize("shape", [(8,), (8, 3)])
def test_diagonal_plus_low_rank_solves_by_woodbury(shape):
    d, U, V = rng.uniform(0.5, 2, 8), rng.standard_normal((8, 3)), rng.standard_normal(shape)
    P = DiagonalPlusLowRank(d, U)
    np.testing.assert_allclose(P @ V, (np.diag(d) + U @ U.T) @ V)
    np.testing.assert_allclose(P.solve(P @ V), V)


def test_a_preconditioner_needs_noise():
    with pytest.raises(InputError, match="noise"):
        DiagonalPlusLowRank(np.array([1.0, 0.0]), np.ones((2, 1)))
