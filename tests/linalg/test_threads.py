"""Numbers of threads, limits of BLAS that overlap, and processes that fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from itergp import RBF, Compute, IterGPRegressor, Matern32
from itergp.learning.training import learn
from itergp.linalg import blas, cholesky
from itergp.linalg.gram import Gram

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.mark.parametrize(
    "number", [np.int64(2), np.int32(2), np.uint8(2)], ids=lambda number: type(number).__name__
)
def test_integers_of_numpy_are_numbers_of_threads_and_of_bytes(number, tmp_path):
    X = np.random.default_rng(0).standard_normal((70, 2))
    given, plain = Compute(threads=number, cache=number), Compute(threads=2, cache=2)
    assert given == plain
    assert type(given.threads) is int
    assert np.array_equal(Gram(RBF(1.0), X, given) @ X, Gram(RBF(1.0), X, plain) @ X)
    model = IterGPRegressor(threads=number, noise=0.1, learn=False).fit(X, X[:, 0])
    model.save(tmp_path / "model.itergp")
    assert np.array_equal(IterGPRegressor.load(tmp_path / "model.itergp").predict(X), model.predict(X))


class FakeLibrary:
    def __init__(self, threads):
        self.threads = threads

    def get_num_threads(self):
        return self.threads

    def set_num_threads(self, threads):
        self.threads = threads


@pytest.fixture
def library(monkeypatch):
    library = FakeLibrary(16)
    monkeypatch.setattr(blas, "_libraries", lambda: [library])
    monkeypatch.setattr(blas, "_LIMITS", blas.Limits())
    monkeypatch.setattr(blas, "cores", lambda: 32)
    return library


def test_while_limits_overlap_the_smallest_holds_and_at_the_end_all_is_as_before(library):
    first, second, third = blas.blas_threads(4), blas.blas_threads(2), blas.blas_threads(8)
    for enter, leave, expected in [
        (first, None, 4),
        (second, None, 2),
        (None, first, 2),
        (third, None, 2),
        (None, second, 8),
        (None, third, 16),
    ]:
        if enter:
            enter.__enter__()
        else:
            leave.__exit__(None, None, None)
        assert library.threads == expected


def test_limits_of_one_thread_may_be_nested_and_repeated(library):
    for _ in range(2):
        with blas.blas_threads(1), blas.blas_threads(1), blas.blas_threads(None), blas.blas_threads(10**9):
            assert library.threads == 1
        assert library.threads == 16


def test_blas_never_gets_more_threads_than_there_are_cores(library):
    with blas.blas_threads(40_000):
        assert library.threads == 32


def test_a_limit_ends_with_an_error_too(library):
    with pytest.raises(ZeroDivisionError), blas.blas_threads(1):
        1 / 0  # noqa: B018
    assert library.threads == 16


@pytest.fixture
def dense_work(library, monkeypatch):
    """The numbers of threads with which dense matrices are factorised and inverted."""
    seen = []

    def noting(function):
        def noted(*args, **kwargs):
            seen.append(library.threads)
            return function(*args, **kwargs)

        return noted

    for name in ("dpotrf", "dpotri"):
        monkeypatch.setattr(cholesky, name, noting(getattr(cholesky, name)))
    return seen


ROWS = np.random.default_rng(0).standard_normal((60, 9))


@pytest.mark.parametrize("features", [3, 9], ids=["exact", "wide"])
@pytest.mark.parametrize(
    ("small", "threads", "expected"), [(60, 4, 1), (60, None, 1), (59, 4, 4), (59, None, 16)]
)
def test_small_dense_matrices_have_one_thread_and_others_no_more_than_asked_for(
    monkeypatch, library, dense_work, features, small, threads, expected
):
    monkeypatch.setattr(blas, "SMALL", small)
    X = ROWS[:, :features]
    learn(X, X[:, 0], Matern32(np.ones(features)), 0.1, method="exact", compute=Compute(threads=threads))
    assert set(dense_work) == {expected}
    assert library.threads == 16


@pytest.mark.parametrize("method", ["exact", "neighbours", "iterative", "sgpr", "elbo", "subset"])
def test_learning_is_bound_to_its_threads_from_beginning_to_end(library, method):
    seen, how = [], {"compute": Compute(threads=4), "method": method}
    learn(ROWS, ROWS[:, 0], RBF(3.0), 0.1, callback=lambda _: seen.append(library.threads), **how)
    assert seen
    assert set(seen) == {4}
    assert library.threads == 16


def test_predictions_at_once_leave_the_threads_of_blas_as_they_were():
    """Two threads: the first is inside its limit when the second enters, and leaves before it."""
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def now():
        return [
            library["num_threads"]
            for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"
        ]

    inside, ended = threading.Event(), threading.Event()

    def other():
        with blas.blas_threads(1):
            inside.set()
            ended.wait(30)

    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        before = now()
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(30)
        with blas.blas_threads(1):
            ended.set()
            thread.join(30)
        assert now() == before


@FORKS
def test_a_child_forked_under_the_limit_of_another_thread_is_free_of_it():
    program = """
import os, threading
from itergp.linalg import blas
class Library:
    threads = 16
    def get_num_threads(self): return self.threads
    def set_num_threads(self, threads): self.threads = threads
library = Library()
blas._libraries = lambda: [library]
inside, ended = threading.Event(), threading.Event()
def other():
    with blas.blas_threads(1):
        inside.set()
        ended.wait(30)
threading.Thread(target=other).start()
inside.wait(30)
with blas.blas_threads(2):
    blas._LIMITS.lock.acquire()  # as when another thread is just about to leave
    child = os.fork()
    if child == 0:
        seen = [library.threads]
        with blas.blas_threads(1):
            seen.append(library.threads)
    else:
        blas._LIMITS.lock.release()
if child == 0:
    os._exit(0 if [*seen, library.threads] == [2, 1, 16] else 1)
ended.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert output(program) == "0"


@FORKS
def test_no_process_is_forked_while_memory_is_claimed():
    """Its child would wait for ever for a lock that nobody there holds."""
    program = """
import os, threading
from itergp.linalg.columns import _CLAIMING
children = []
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if _CLAIMING.acquire(timeout=5) else 1)
    children.append(child)
with _CLAIMING:
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(0.2)
    waited = not children
thread.join(60)
print(waited, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    assert output(program) == "True 0"


FORK = """
import os, signal, sys
import numpy as np
import itergp
from itergp import RBF, Compute, IterGPRegressor, Matern32
from itergp.data.rows import Rows
from itergp.linalg.gram import Gram
X = np.random.default_rng(0).standard_normal((300, 2))
y = np.sin(X[:, 0])
def in_a_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
            print("done", flush=True)
        except itergp.ForkError as error:
            print("refused" if "spawn" in str(error) and "native" in str(error) else error, flush=True)
        finally:
            os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("hung")
"""


def output(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@FORKS
@pytest.mark.parametrize(
    "work",
    [
        "Gram(RBF(1.0), X, Compute(engine='jax', cache=0)) @ y",
        "IterGPRegressor(RBF(1.0) * Matern32(2.0), learn='exact', budget='5 actions').fit(X, y)",
        "IterGPRegressor(RBF(1.0) * Matern32(2.0), learn='neighbours', budget='5 actions').fit(X, y)",
        "itergp.learning.inducing.svgp(Rows.of(X, y), 5)(RBF(1.0), 0.1)",
    ],
    ids=["engine", "exact likelihood of a product", "neighbours of a product", "inducing points"],
)
def test_a_child_of_a_process_that_used_jax_says_so_instead_of_waiting_for_ever(work):
    program = "import itergp.learning.inducing, jax.numpy\njax.numpy.ones(3).sum()\n"
    assert output(f"{FORK}\n{program}\nin_a_child(lambda: {work})") == "refused"


@FORKS
@pytest.mark.parametrize("used", ["jax.numpy.ones(3).sum()", ""], ids=["JAX was used", "JAX was imported"])
def test_what_needs_no_jax_works_in_such_a_child(used):
    pytest.importorskip("itergp.linalg.engines.native")
    work = "IterGPRegressor(learn='neighbours', threads=2, budget='20 actions').fit(X, y).predict(X)"
    products = "Gram(RBF(1.0), X, Compute(engine='native', cache=0)) @ y"
    program = f"{FORK}\nimport jax.numpy\n{used}\nin_a_child(lambda: {work})\nin_a_child(lambda: {products})"
    assert output(program) == "done\ndone"


@FORKS
def test_a_child_may_use_jax_where_its_parent_only_imported_it():
    program = f"{FORK}\nimport jax\nin_a_child(lambda: Gram(RBF(1.0), X, Compute(engine='jax', cache=0)) @ y)"
    assert output(program) == "done"


def test_learning_by_neighbours_does_not_load_jax():
    program = (
        f"{FORK}\n"
        "IterGPRegressor(learn='neighbours', budget='20 actions').fit(X, y).predict(X, return_std=True)\n"
        "print('jax' in sys.modules)"
    )
    pytest.importorskip("itergp.linalg.engines.native")
    assert output(program) == "False"
