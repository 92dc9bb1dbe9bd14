"""Matrices in shards of rows: the numbers of one matrix, and the same bits wherever the shards lie."""

import copy
import pickle

import numpy as np
import pytest

from itergp import Compute, Matern32
from itergp.linalg.columns import InMemory
from itergp.linalg.gram import Gram
from itergp.linalg.shards import Here, Place, Shard, Sharded, in_pairs

pytest.importorskip("itergp.linalg.engines.native.shares", reason="the native engine was not built")

LEAF = 16


def sent_oddly(shard):
    """Pickled, with its arrays in buffers that begin at an odd byte."""
    buffers = []
    data = pickle.dumps(shard, protocol=5, buffer_callback=buffers.append)
    return data, [(b"abc" + bytes(buffer.raw()), buffer.raw().nbytes) for buffer in buffers]


def arrived(sent):
    data, buffers = sent
    return pickle.loads(data, buffers=[memoryview(bytearray(raw))[3:] for raw, _ in buffers])


class Apart(Place):
    """Shards that are known by bytes alone, so many leaves together: what is asked of them is sent there."""

    def __init__(self, together):
        self.together, self.crossed = together, []

    def leaves(self, leaves):
        return self.together

    def _sent(self, what):
        """Arrays arrive at odd places of the memory, as they do from a socket."""
        if not isinstance(what, np.ndarray):
            return pickle.loads(pickle.dumps(what))
        self.crossed.append(what.size)
        buffer = np.empty(what.nbytes + 3, dtype=np.uint8)
        odd = np.ndarray(what.shape, what.dtype, buffer.data, offset=3)
        odd[:] = what
        return odd

    def put(self, shards):
        return tuple(sent_oddly(shard) for shard in shards)

    def changed(self, held, change, given):
        each = zip(held, given, strict=True)
        return self.put([change(arrived(shard), self._sent(some)) for shard, some in each])

    def each(self, held, ask, given):
        each = zip(held, given, strict=True)
        return [self._sent(ask(arrived(shard), self._sent(some))) for shard, some in each]

    def total(self, held, ask, given):
        return in_pairs(self.each(held, ask, given), np.add)


PLACES = {"here": Here(), **{f"{k} together": Apart(k) for k in (1, 2, 4, 16)}, "moves": Here(7000, Apart(2))}


def grown(place, rng, n=139):
    """A matrix in shards, and as one array, after blocks of columns and of rows."""
    found, A = Sharded.start(n, place, LEAF), np.zeros((n, 0))
    for width, rows in ((1, 0), (3, 5), (70, 0), (0, 30), (64, 1), (1, 0)):
        block = rng.standard_normal((len(A), width))
        found, A = found.append(block), np.concatenate([A, block], axis=1)
        if rows:
            new = rng.standard_normal((rows, A.shape[1]))
            found, A = found.with_rows(new), np.concatenate([A, new])
    return found, A


def answers(matrix, rng):
    n, r = matrix.n, matrix.size
    V, C, indices = rng.standard_normal((n, 3)), rng.standard_normal((r - 2, 4)), rng.permutation(n)[:50]
    return {
        "inner": (matrix.inner(V), lambda A: A.T @ V),
        "inner of a transposed layout": (matrix.inner(np.asfortranarray(V)), lambda A: A.T @ V),
        "combine": (matrix.combine(C), lambda A: A[:, : r - 2] @ C),
        "between": (matrix.between(2, 71), lambda A: A[:, 2:71]),
        "blocks": (np.hstack(list(matrix.blocks(1, 90, 40))), lambda A: A[:, 1:90]),
        "rows": (matrix.rows(indices), lambda A: A[indices]),
        "squared rows": (matrix.squared_rows(), lambda A: (A**2).sum(axis=1)),
    }


@pytest.mark.parametrize("place", PLACES)
def test_shards_answer_as_one_matrix_with_the_same_bits_everywhere(place):
    matrix, A = grown(PLACES[place], np.random.default_rng(0))
    assert (matrix.n, matrix.size) == A.shape == (175, 139)
    expected = answers(grown(PLACES["here"], np.random.default_rng(0))[0], np.random.default_rng(1))
    for what, (found, formula) in answers(matrix, np.random.default_rng(1)).items():
        np.testing.assert_allclose(found, formula(A), rtol=0, atol=1e-12, err_msg=what)
        np.testing.assert_array_equal(found, expected[what][0], err_msg=what)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_rows_are_found_by_indices_of_any_kind(dtype):
    """Those of neighbours are int32; a shard that has all rows may have more of them than that can say."""
    A = np.random.default_rng(0).standard_normal((50, 3))
    matrix, some = Sharded.start(50, Here()).append(A), np.array([49, 3, 3, 17], dtype=dtype)
    np.testing.assert_array_equal(matrix.rows(some), A[some])


@pytest.mark.parametrize("place", PLACES)
def test_rows_that_came_later_leave_no_trace(place):
    """How a matrix lies depends on its size alone: as if all rows had been there when its columns came."""
    matrix, A = grown(PLACES[place], np.random.default_rng(0))
    at_once = Sharded.start(len(A), PLACES[place], LEAF)
    for start in range(0, A.shape[1], 9):
        at_once = at_once.append(A[:, start : start + 9])
    ours, theirs = (answers(some, np.random.default_rng(1)) for some in (matrix, at_once))
    for what, (found, _) in ours.items():
        np.testing.assert_array_equal(found, theirs[what][0], err_msg=what)


@pytest.mark.parametrize("place", PLACES)
def test_two_that_go_on_from_one_do_not_see_each_other(place):
    base = Sharded.start(40, PLACES[place], LEAF).append(np.zeros((40, 2)))
    left, right = (base.append(np.full((40, 1), value)) for value in (1.0, 2.0))
    taller = [base.with_rows(np.full((20, 2), value)) for value in (3.0, 4.0)]
    assert base.size == 2
    assert (left.between(2, 3) == 1.0).all()
    assert (right.between(2, 3) == 2.0).all()
    assert [set(some.between(0, 2)[40:].ravel()) for some in taller] == [{3.0}, {4.0}]


def test_a_matrix_moves_when_it_is_too_large_for_this_process():
    elsewhere = Apart(1)
    matrix = Sharded.start(100, Here(8 * 100 * 10, elsewhere), LEAF).append(np.ones((100, 10)))
    assert isinstance(matrix.place, Here)
    assert matrix.bytes_here(50) == 0.0  # ten columns at most, and they are there
    matrix = matrix.append(np.ones((100, 1)))
    assert matrix.place is elsewhere
    assert len(matrix.held) == 7
    assert matrix.empty().place is elsewhere
    assert matrix.bytes_here(1000) == 0.0
    assert Sharded.start(100, Here(), LEAF).bytes_here(3) == InMemory(100).bytes_here(3) == 2400


def test_only_blocks_and_small_numbers_cross():
    """n x r numbers stay where they are: what crosses is n x b, or r x b."""
    place = Apart(2)
    matrix = Sharded.start(100, place, LEAF)
    for _ in range(20):
        matrix = matrix.append(np.ones((100, 4)))
    rest = np.ones((100, 4))
    rest = rest - matrix.combine(matrix.inner(rest))
    assert max(place.crossed) <= 80 * 4
    assert sum(place.crossed) <= 20 * 100 * 4 + 4 * (4 * 100 + 4 * 80 * 4)  # appended; projected, by 4 shards


def test_a_copy_in_another_process_has_all_numbers():
    matrix, A = grown(Apart(2), np.random.default_rng(0))
    sent = pickle.loads(pickle.dumps(matrix))
    assert isinstance(sent.place, Here)
    np.testing.assert_array_equal(sent.between(0, sent.size), A)
    np.testing.assert_array_equal(sent.inner(A), matrix.inner(A))
    assert copy.deepcopy(matrix) is matrix


@pytest.mark.parametrize("place", PLACES)
def test_inner_products_with_the_kernel_at_points(place):
    rng = np.random.default_rng(0)
    X, points, kernel = rng.uniform(-1, 1, (100, 2)), rng.uniform(-1, 1, (1030, 2)), 1.3 * Matern32(0.4)
    gram, Q = Gram(kernel, X, Compute("float64")), rng.standard_normal((90, 20))
    matrix = Sharded.start(90, PLACES[place], LEAF).append(Q)  # of the first rows
    found, entries = matrix.projected(gram, points), gram.entries
    np.testing.assert_allclose(found, Q.T @ kernel(X[:90], points), rtol=0, atol=1e-12)
    assert entries >= 90 * 1030
    here = Sharded.start(90, Here(), LEAF).append(Q).projected(gram, points)
    np.testing.assert_array_equal(found, here)
    np.testing.assert_allclose(InMemory(90).append(Q).projected(gram, points), here, rtol=0, atol=1e-12)


def test_empty_matrices_and_empty_blocks():
    matrix = Sharded.start(40, Apart(1), LEAF)
    assert matrix.inner(np.ones((40, 2))).shape == (0, 2)
    assert matrix.combine(np.zeros((0, 3))).shape == (40, 3)
    assert not matrix.squared_rows().any()
    assert matrix.append(np.zeros((40, 0))).size == 0
    assert matrix.append(np.ones((40, 2))).inner(np.zeros((40, 0))).shape == (2, 0)


@pytest.mark.parametrize("count", range(1, 20))
def test_a_sum_in_pairs_is_that_of_aligned_parts(count):
    """Sums of a power of two of neighbours are branches of the tree: it does not matter who adds them."""
    parts = [np.array([10.0 ** (i % 7), 1 / 3 + i]) for i in range(count)]
    whole = in_pairs(parts, np.add)
    for together in (2, 4, 8):
        branches = [in_pairs(parts[i : i + together], np.add) for i in range(0, count, together)]
        np.testing.assert_array_equal(in_pairs(branches, np.add), whole)


def test_a_shard_says_how_much_memory_it_has():
    shard = Shard.empty(40, LEAF).append(np.ones((40, 3)))
    assert shard.__sizeof__() == 40 * 64 * 8
