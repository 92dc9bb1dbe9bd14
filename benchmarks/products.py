"""Claim: kernel products with JAX tiles are faster than PyTorch's, and several columns cost little more than one.

n = 20,000, d = 10, Matern 3/2, float32 tiles, all cores; ns per entry of K (n^2 of them, whether or not symmetry is used),
best of a few calls, all in one run; errors relative to the float64 product beside them. PyTorch: the same formula in
chunks of rows, its best chunk size; it comes with the bench extra, and is left out where it is missing.

    python benchmarks/products.py [--n 20000]
"""

import argparse

import numpy as np

from common import best_time, print_table
from itergp import Compute, Matern32
from itergp.linalg.gram import Gram


def torch_product(X, V, chunk):
    """K V by chunks of rows in PyTorch, float32, distances as PyTorch computes them."""
    import torch

    X, V = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(V.astype(np.float32))

    def run():
        out = torch.empty_like(V)
        with torch.no_grad():
            for i in range(0, len(X), chunk):
                r = torch.cdist(X[i : i + chunk], X).mul_(3**0.5)
                out[i : i + chunk] = ((1 + r) * torch.exp(-r)) @ V
        return out.numpy()

    return run


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--n", type=int, default=20000)
    n = arguments.parse_args().n
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10)) / np.sqrt(10)
    kernel = Matern32(1.0)
    truth = Gram(kernel, X, Compute("float64", cache=0, engine="jax"))
    rows, times = [], {}
    for columns in (1, 8, 64):
        V = rng.standard_normal((n, columns))
        reference = truth @ V

        def report(label, function, columns=columns, reference=reference):
            error = np.linalg.norm(function() - reference) / np.linalg.norm(reference)
            seconds = best_time(function, repeats=3)
            times[label, columns] = seconds
            rows.append([label, columns, f"{seconds:.3f}", f"{seconds / n**2 * 1e9:.3f}", f"{error:.1e}"])
            print(*rows[-1], flush=True)

        free = Gram(kernel, X, Compute("float32", cache=0, engine="jax"))
        report("itergp, jax tiles, matrix-free", lambda free=free, V=V: free @ V)
        stored = Gram(kernel, X, Compute("float32", cache="4GB", engine="jax"))
        report("itergp, jax tiles, cached", lambda stored=stored, V=V: stored @ V)
        try:
            chunks = {chunk: torch_product(X, V, chunk) for chunk in (128, 512, 2048)}
            best = min(chunks, key=lambda chunk: best_time(chunks[chunk], repeats=2))
            report(f"PyTorch, chunks of {best}", chunks[best])
            times["torch", columns] = times.pop((f"PyTorch, chunks of {best}", columns))
        except ImportError:
            print("PyTorch is missing: install itergp[bench] for the comparison.")
    print_table(["product", "columns", "seconds", "ns per entry", "relative error"], rows)
    own = "itergp, jax tiles, matrix-free"
    print(f"\n64 columns cost {times[own, 64] / times[own, 1]:.1f} times one column")
    if ("torch", 1) in times:
        print(
            f"PyTorch takes {times['torch', 1] / times[own, 1]:.2f} times as long for one column, "
            f"{times['torch', 64] / times[own, 64]:.2f} for 64"
        )


if __name__ == "__main__":
    main()
