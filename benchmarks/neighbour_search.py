"""Which search finds the nearest rows of test points in the least time: the native tree and the native
comparison with all rows, beside libraries that are made for it (those that are installed).

    pip install hnswlib pynndescent faiss-cpu
    python benchmarks/neighbour_search.py [--rows 100000] [--features 2 5 8 10 15 20 30] [--kinds random low]

240 nearest rows, as for local actions, of 2,000 points; two threads. Rows are uniform in all features
("random"), or near a surface of three dimensions in them ("low"), as real tables often are. Seconds to build
and microseconds to search; recall is the share of the true nearest rows that a search finds.
"""

import argparse
import time

import numpy as np

from common import print_table
from itergp.linalg.engines import registry

COUNT, POINTS, THREADS = 240, 2000, 2


def drawn(kind, n, d):
    rng = np.random.default_rng(d)
    if kind == "random":
        return rng.uniform(size=(n, d)), rng.uniform(size=(POINTS, d))
    hidden = rng.uniform(size=(n + POINTS, min(d, 3)))
    waves = np.sin(hidden @ rng.normal(size=(hidden.shape[1], d)) * 2 + rng.uniform(size=d))
    F = waves + 0.01 * rng.standard_normal((n + POINTS, d))
    return F[:n], F[n:]


def native_tree(F):
    return lambda tree, X: tree.nearest(X, COUNT), registry.get("native").tree(F, THREADS)


def native_scan(F):
    return lambda scan, X: scan.nearest(X, COUNT), registry.get("native").scan(F, THREADS)


def scipy_tree(F):
    from scipy.spatial import cKDTree

    return lambda tree, X: tree.query(X, COUNT, workers=THREADS)[1], cKDTree(F)


def ball_tree(F):
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(algorithm="ball_tree", n_jobs=THREADS).fit(F)
    return lambda search, X: search.kneighbors(X, COUNT, return_distance=False), found


def hnsw(F):
    import hnswlib

    index = hnswlib.Index("l2", F.shape[1])
    index.init_index(len(F), ef_construction=200, M=16)
    index.set_num_threads(THREADS)
    index.add_items(F)
    index.set_ef(2 * COUNT)
    return lambda index, X: index.knn_query(X, COUNT)[0], index


def nn_descent(F):
    import pynndescent

    index = pynndescent.NNDescent(F, n_neighbors=30, n_jobs=THREADS, random_state=0)
    index.prepare()
    return lambda index, X: index.query(X, COUNT)[0], index


def faiss_flat(F):
    import faiss

    faiss.omp_set_num_threads(THREADS)
    index = faiss.IndexFlatL2(F.shape[1])
    index.add(F.astype(np.float32))
    return lambda index, X: index.search(X.astype(np.float32), COUNT)[1], index


def faiss_cells(F):
    import faiss

    faiss.omp_set_num_threads(THREADS)
    cells = int(4 * len(F) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(F.shape[1]), F.shape[1], cells)
    index.train(F[: 40 * cells].astype(np.float32))
    index.add(F.astype(np.float32))
    index.nprobe = max(8, cells // 32)
    return lambda index, X: index.search(X.astype(np.float32), COUNT)[1], index


SEARCHES = {
    "native tree": native_tree,
    "native scan": native_scan,
    "SciPy cKDTree": scipy_tree,
    "scikit-learn ball tree": ball_tree,
    "hnswlib": hnsw,
    "pynndescent": nn_descent,
    "faiss flat": faiss_flat,
    "faiss cells": faiss_cells,
}


def measured(make, F, X, true):
    began = time.perf_counter()
    search, index = make(F)
    built = time.perf_counter() - began
    search(index, X[:10])  # compiles, and wakes threads
    began = time.perf_counter()
    found = np.asarray(search(index, X))
    seconds = time.perf_counter() - began
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)])
    return f"{built:.2f}", f"{1e6 * seconds / len(X):.0f}", f"{recall:.3f}"


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--features", type=int, nargs="+", default=[2, 5, 8, 10, 15, 20, 30])
    arguments.add_argument("--kinds", nargs="+", default=["random", "low"], choices=["random", "low"])
    arguments.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    options = arguments.parse_args()
    rows = []
    for kind in options.kinds:
        for d in options.features:
            F, X = drawn(kind, options.rows, d)
            search, index = native_scan(F)
            true = search(index, X)
            for name in options.searches:
                try:
                    found = measured(SEARCHES[name], F, X, true)
                except ImportError:
                    continue
                rows.append([kind, d, name, *found])
                print(*rows[-1], flush=True)
    print_table(["rows are", "features", "search", "build s", "search us per point", "recall"], rows)


if __name__ == "__main__":
    main()
