"""The index of rows: the nearest are those of all distances."""

import numpy as np
import pytest

from itergp import Matern32
from itergp.linalg import gram
from itergp.linalg.engines import get, registry
from itergp.linalg.index import Index
from itergp.linalg.neighbours import distinct

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")


@pytest.fixture(params=native._tiles.instruction_sets())
def instruction_set(request):
    before = native._tiles.instruction_set()
    native._tiles.choose(request.param)
    yield request.param
    native._tiles.choose(before)


def clusters(rng, n, d):
    return rng.standard_normal((7, d))[rng.integers(7, size=n)] + 1e-3 * rng.standard_normal((n, d))


PLACES = {
    "uniform": lambda rng, n, d: rng.uniform(-1, 1, (n, d)),
    "clusters": clusters,
    "far away": lambda rng, n, d: 1e6 + rng.standard_normal((n, d)),
    "one outlier": lambda rng, n, d: np.concatenate(
        [rng.standard_normal((n - 1, d)) * 1e-4, np.full((1, d), 1e4)]
    ),
    "a line": lambda rng, n, d: np.outer(rng.uniform(size=n), np.ones(d)),
    "too large for float32": lambda rng, n, d: 1e60 * rng.standard_normal((n, d)),
}


def by_all_distances(F, queries, count):
    """Nearest first; rows in order where distances are equal."""
    squares = ((F[None] - queries[:, None]) ** 2).sum(axis=2)
    return np.argsort(squares, axis=1, kind="stable")[:, :count], squares


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("n", "d"), [(5, 1), (64, 2), (700, 3), (3000, 8)])
def test_the_nearest_rows_are_those_of_all_distances(instruction_set, place, n, d):
    rng = np.random.default_rng([n, d])
    F = place(rng, n, d)
    queries = np.concatenate([F[:3], place(rng, 9, d), 3.0 * place(rng, 2, d)])
    for count in {1, min(n, 40), n}:
        found = native.ENGINE.tree(F).nearest(queries, count)
        expected, squares = by_all_distances(F, queries, count)
        same = np.take_along_axis(squares, found, axis=1), np.take_along_axis(squares, expected, axis=1)
        np.testing.assert_allclose(*same, rtol=1e-12)  # rows may differ where distances do by rounding only
        assert all(np.unique(row).size == count for row in found)


@pytest.mark.parametrize("place", [*PLACES.values(), lambda rng, n, d: 1e-60 * rng.standard_normal((n, d))])
@pytest.mark.parametrize(("n", "d"), [(5, 9), (3000, 12)])
def test_with_many_features_rows_are_about_the_nearest_of_all(instruction_set, place, n, d):
    """All rows are compared with in float32: distances are the smallest ones, but for its rounding."""
    rng = np.random.default_rng([n, d, 1])
    F = place(rng, n, d)
    queries = np.concatenate([F[:3], F[-3:], place(rng, 9, d)])
    size = np.abs(F).max()
    index, squares = Index(F.copy(), native.ENGINE, 2), by_all_distances(F / size, queries / size, 1)[1]
    for count in {1, min(n, 40), n}:
        found = index.nearest(queries, count)
        assert all(np.unique(row).size == count for row in found)
        assert found.min() >= 0
        reached = np.sqrt(np.take_along_axis(squares, found, axis=1)).max(axis=1)
        least = np.sqrt(np.sort(squares, axis=1)[:, count - 1])
        assert (reached <= least + 1e-5 * np.sqrt(np.median(squares, axis=1))).all()


@pytest.mark.parametrize("d", [10, 50])
def test_queries_far_from_all_rows_have_neighbours(d):
    F = np.random.default_rng(2).standard_normal((300, d))
    found = Index(F, native.ENGINE, 1).nearest(np.full((1, d), 1e250), 7)
    assert np.unique(found).size == 7
    assert found.min() >= 0


def test_rows_of_many_features_are_prepared_once(monkeypatch):
    F, made = np.random.default_rng(3).standard_normal((500, 50)), []
    blocks = native.neighbours.blocks
    monkeypatch.setattr(native.neighbours, "blocks", lambda F, dtype: made.append(len(F)) or blocks(F, dtype))
    index = Index(F, native.ENGINE, 1)
    for _ in range(3):
        index.nearest(F[:5], 4)
    assert made == [500, 5, 5, 5]


@pytest.mark.parametrize("size", [6, 13])
def test_of_rows_at_equal_distances_the_first_ones_are_taken(instruction_set, size):
    """On a grid of whole numbers, where distances are exact and often equal; and where all rows are one."""
    F = np.stack(np.meshgrid(*[np.arange(float(size))] * 3), axis=-1).reshape(-1, 3)
    queries = F[:: size + 1]
    for count in (1, 27, 100):
        found = native.ENGINE.tree(F).nearest(queries, count)
        np.testing.assert_array_equal(found, by_all_distances(F, queries, count)[0])
    same = native.ENGINE.tree(np.ones((2000, 2))).nearest(np.zeros((2, 2)), 50)
    np.testing.assert_array_equal(same, np.tile(np.arange(50), (2, 1)))


def test_more_neighbours_than_rows_are_padded():
    found = native.ENGINE.tree(np.arange(3.0)[:, None]).nearest(np.array([[2.2]]), 5)
    np.testing.assert_array_equal(found, [[2, 1, 0, -1, -1]])


def test_no_row_depends_on_threads_or_on_the_other_queries(instruction_set):
    rng = np.random.default_rng(4)
    F, queries = rng.standard_normal((2500, 5)), rng.standard_normal((300, 5))
    tree = native.ENGINE.tree(F).tree
    found, again = np.empty((300, 33), dtype=np.int32), np.empty((300, 33), dtype=np.int32)
    tree.nearest(queries, found, 1)
    tree.nearest(queries, again, 4)
    np.testing.assert_array_equal(again, found)
    for q in range(0, 300, 50):
        tree.nearest(queries[q : q + 1], again[:1], 1)
        np.testing.assert_array_equal(again[0], found[q])


@pytest.mark.parametrize("grown", [1, 700, 10**9])
def test_a_tree_is_the_same_in_how_many_steps_it_is_grown(monkeypatch, grown):
    """And asks the clock between them: once for each step, which has no more than what one node needs."""
    monkeypatch.setattr(native.local, "GROWN", grown)
    rng, ticks = np.random.default_rng(6), []
    F, queries = np.round(rng.standard_normal((5000, 3)), 1), rng.standard_normal((40, 3))
    found = native.ENGINE.tree(F, tick=lambda: ticks.append(1)).nearest(queries, 60)
    np.testing.assert_array_equal(found, by_all_distances(F, queries, 60)[0])
    levels = 7  # 5,000 rows in leaves of at most 64
    assert len(ticks) <= (levels + 2) * len(F) / grown + 1
    # a step may end after a node, of which there are as many rows as are asked for and one node more
    assert len(ticks) >= (levels + 2) * len(F) / (grown + len(F)) - 2


def test_a_tree_that_is_not_grown_yet_answers_nothing():
    tree = native._tiles.SearchTree(np.random.default_rng(7).standard_normal((5000, 3)))
    assert not tree.grow(1)
    with pytest.raises(ValueError, match="grown"):
        tree.nearest(np.zeros((1, 3)), np.empty((1, 4), dtype=np.int32), 1)


def test_the_clock_ends_the_growth_of_a_tree(monkeypatch):
    class OverError(Exception):
        pass

    def over():
        raise OverError

    monkeypatch.setattr(native.local, "GROWN", 1000)
    with pytest.raises(OverError):
        native.ENGINE.tree(np.random.default_rng(8).standard_normal((5000, 3)), tick=over)


@pytest.mark.parametrize("owned", [False, True])
def test_rows_are_left_as_they_are_unless_the_tree_owns_them(owned):
    F = np.random.default_rng(9).standard_normal((3000, 2))
    before, queries = F.copy(), np.zeros((1, 2))
    found = native.ENGINE.tree(F, owned=owned).nearest(queries, 20)
    np.testing.assert_array_equal(found, by_all_distances(before, queries, 20)[0])
    assert np.array_equal(F, before) is not owned
    np.testing.assert_array_equal(np.sort(F, axis=0), np.sort(before, axis=0))  # rows, in another order


def test_rows_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="finite"):
        native.ENGINE.tree(np.array([[0.0], [np.nan]]))


def test_without_the_native_code_the_index_finds_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    F, queries = rng.standard_normal((500, 4)), rng.standard_normal((20, 4))
    found = Index(F.copy(), get("numpy"), 1).nearest(queries, 30)
    monkeypatch.setattr(registry, "native", lambda: None)
    np.testing.assert_array_equal(Index(F.copy(), get("numpy"), 1).nearest(queries, 30), found)


@pytest.mark.parametrize("n", [50, 10**6])
def test_distinct_rows_by_sorting_and_by_marking(n):
    """Of a million rows a few are sorted, of fifty they are marked; -1 stays. Of four rows, all are taken."""
    J = np.array([[7, 3, -1], [40, 7, 7], [-1, 0, 49]])
    rows, near = distinct(J, n)
    np.testing.assert_array_equal(rows, [0, 3, 7, 40, 49])
    np.testing.assert_array_equal(near, [[2, 1, -1], [3, 2, 2], [-1, 0, 4]])
    assert near.dtype == np.int32
    rows, near = distinct(J % 4, 4)
    np.testing.assert_array_equal(rows[near], J % 4)


@pytest.mark.parametrize("d", [4, 12])
def test_a_few_points_find_the_same_rows_without_a_tree(d, monkeypatch):
    """Where a search is the only one, all rows are compared with: no index is made."""
    rng = np.random.default_rng(d)
    X, A = rng.uniform(size=(900, d)), rng.uniform(size=(20, d))
    k = gram.Gram(Matern32(lengthscale=rng.uniform(0.5, 2.0, d)), X)
    monkeypatch.setattr(gram, "ONCE_ROWS", 899)
    found = k.nearest_once(A, 30)
    assert k._index.made is None
    np.testing.assert_array_equal(found, k.nearest(A, 30))
    monkeypatch.setattr(gram, "ONCE_ROWS", 900)
    np.testing.assert_array_equal(k.nearest_once(A, 30), found)
