"""Claim: kernel products are near the machine's limit, with their errors stated.

n = 20,000, d = 10, Matern 3/2, float32 tiles, all cores. ns per entry of K (n^2 of them, whether or not
symmetry is used), best of a few calls, all in one run; beside it the error relative to the float64
product. Peers: PyTorch in chunks of rows, the faster of two formulas at its best chunk size, and KeOps
(both in the bench extra, left out where missing); reading a stored float32 matrix (`K @ v`); NumPy's
float32 matrix multiplication of the same sizes. At the end, rows in order beside the same rows shuffled: in
a time series whole tiles are far below the smallest number that processors compute with quickly.

    python benchmarks/products.py [--n 20000]
"""

import argparse

import numpy as np

from common import best_time, print_table
from itergp import Compute, Matern32
from itergp.linalg.gram import Gram

D = 10


def torch_products(X, V):
    """K V by chunks of rows in PyTorch: {label: function}."""
    import torch

    X, V = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(V.astype(np.float32))
    squares = (X * X).sum(dim=1)

    def by_expansion(i, chunk):
        s = squares[i : i + chunk, None] + squares[None, :] - 2 * X[i : i + chunk] @ X.T
        return s.clamp_min_(0).mul_(3).sqrt_()

    def by_cdist(i, chunk):
        return torch.cdist(X[i : i + chunk], X).mul_(3**0.5)

    def run(distances, chunk):
        out = torch.empty_like(V)
        with torch.no_grad():
            for i in range(0, len(X), chunk):
                r = distances(i, chunk)
                out[i : i + chunk] = ((1 + r) * torch.exp(-r)) @ V
        return out.numpy()

    choices = [
        (name, f, chunk)
        for name, f in (("expansion", by_expansion), ("cdist", by_cdist))
        for chunk in (32, 64, 128, 256)
    ]
    return {
        f"PyTorch, {name}, chunks of {chunk}": (lambda f=f, chunk=chunk: run(f, chunk))
        for name, f, chunk in choices
    }


def keops_product(X, V):
    from pykeops.numpy import LazyTensor

    X, V = X.astype(np.float32), V.astype(np.float32)
    r = (3 * ((LazyTensor(X[:, None, :]) - LazyTensor(X[None, :, :])) ** 2).sum(-1)).sqrt()
    K = (1 + r) * (-r).exp()
    return lambda: K @ V


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--n", type=int, default=20000)
    n = arguments.parse_args().n
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)) / np.sqrt(D)
    kernel = Matern32(1.0)
    rows, times = [], {}

    def report(label, columns, function, reference, repeats=4):
        error = (
            ""
            if reference is None
            else f"{np.linalg.norm(function() - reference) / np.linalg.norm(reference):.1e}"
        )
        times[label, columns] = seconds = best_time(function, repeats=repeats)
        rows.append([label, columns, f"{seconds:.3f}", f"{seconds / n**2 * 1e9:.3f}", error])
        print(*rows[-1], flush=True)

    matrix = np.ones((n, n), dtype=np.float32)
    for columns in (1, 8, 64, 256):
        V = rng.standard_normal((n, columns))
        V32 = V.astype(np.float32)
        reference = Gram(kernel, X, Compute("float64", cache=0)) @ V
        report("stored matrix, K @ V in float32", columns, lambda V32=V32: matrix @ V32, None)
        for engine in ("native", "jax"):
            if engine == "jax" and columns > 64:
                continue
            free = Gram(kernel, X, Compute("float32", cache=0, engine=engine))
            report(f"itergp {engine}, matrix-free", columns, lambda free=free, V=V: free @ V, reference)
            stored = Gram(kernel, X, Compute("float32", cache="4GB", engine=engine))
            report(f"itergp {engine}, cached", columns, lambda stored=stored, V=V: stored @ V, reference)
        if columns in (1, 64):
            peers(X, V, columns, reference, report)
    print_table(["product", "columns", "seconds", "ns per entry", "relative error"], rows)
    summary(times)
    in_order(n, rng)


def in_order(n, rng):
    x, V = np.sort(rng.uniform(0, 1, n)), rng.standard_normal((n, 128)) / n**0.5
    seconds = {}
    for name, rows in (("in order", np.arange(n)), ("shuffled", rng.permutation(n))):
        gram = Gram(Matern32(0.01), x[rows, None], Compute("float32", cache=0))
        seconds[name] = best_time(lambda gram=gram: gram @ V, repeats=3)
    ratio = seconds["in order"] / seconds["shuffled"]
    print(
        f"128 columns, one feature with a lengthscale of 0.01: rows in order take {ratio:.2f} times as "
        f"long as shuffled ({seconds['in order']:.2f} s)"
    )


def peers(X, V, columns, reference, report):
    try:
        products = torch_products(X, V)
        best = min(products, key=lambda label: best_time(products[label], repeats=1))
        report("PyTorch", columns, products[best], reference, repeats=3)
        print(f"  ({best})")
    except ImportError:
        print("PyTorch is missing: install itergp[bench].")
    try:
        report("KeOps", columns, keops_product(X, V), reference, repeats=1)
    except Exception as error:  # no compiler, no package
        print(f"KeOps is left out: {type(error).__name__}")


def summary(times):
    def ratio(a, b):
        return f"{times[a] / times[b]:.2f}" if a in times and b in times else "?"

    free, cached, stored = (
        "itergp native, matrix-free",
        "itergp native, cached",
        "stored matrix, K @ V in float32",
    )
    print()
    print(
        f"native, one column: PyTorch takes {ratio(('PyTorch', 1), (free, 1))} times as long, KeOps "
        f"{ratio(('KeOps', 1), (free, 1))}; reading a stored matrix is the 1 of "
        f"{ratio((free, 1), (stored, 1))}"
    )
    print(f"cached: {ratio((cached, 1), (stored, 1))} of the time of the stored matrix")
    print(f"columns: 8 cost {ratio((free, 8), (free, 1))} times one, 64 cost {ratio((free, 64), (free, 1))}")
    print(
        f"share of NumPy's float32 matrix multiplication: 64 columns {ratio((stored, 64), (free, 64))}, 256 "
        f"columns {ratio((stored, 256), (free, 256))}"
    )
    jax = "itergp jax, matrix-free"
    print(f"jax tiles: PyTorch takes {ratio(('PyTorch', 1), (jax, 1))} times as long")
    print(f"jax tiles: 64 columns cost {ratio((jax, 64), (jax, 1))} times one")


if __name__ == "__main__":
    main()
