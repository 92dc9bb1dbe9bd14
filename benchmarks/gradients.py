"""Claim: a gradient in C++ costs a few kernel products, and agrees with autodiff to rounding.

Gradients of sum_ij (A B^T)_ij k(x_i, x'_j) in all parameters and in X, in float64, d = 10, all cores;
Matern 3/2 with one lengthscale, and with one per feature. Seconds of the native engine (best of three)
beside those of compiled JAX tiles (one call, compiled before), in one run; their largest difference
relative to the largest entry; and a product K V in float64, for scale. With --jax-rows, JAX is timed on so
many rows of X against all of X', and its seconds are scaled up to n.

    python benchmarks/gradients.py [--n 5000 20000] [--rank 1 16] [--jax-rows 5120]
"""

import argparse
import time

import numpy as np

from common import best_time, print_table
from itergp import Matern32
from itergp.linalg import engines
from itergp.linalg.engines import TileCache, no_tick
from itergp.prior.parameters import parameters

D = 10
KERNELS = {
    "one lengthscale": 1.3 * Matern32(1.0),
    "one per feature": 1.3 * Matern32(np.linspace(0.8, 1.2, D)),
}


def difference(found, expected):
    """The largest over parameters and inputs, relative to the largest entry of each."""
    pairs = [(value, parameters(found[0])[path]) for path, value in parameters(expected[0]).items()]
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in [*pairs, (expected[1], found[1])])


def measure(kernel, n, rank, jax_rows):
    """Seconds of a product, of native and of JAX gradients, and the difference of the two."""
    native, jax, rng = engines.get("native"), engines.get("jax"), np.random.default_rng(0)
    X, A, B = (
        rng.standard_normal((n, D)) / np.sqrt(D),
        rng.standard_normal((n, rank)),
        rng.standard_normal((n, rank)),
    )
    product = best_time(
        lambda: native.symmetric(kernel, X, B, np.dtype("float64"), TileCache(0), 0, no_tick), repeats=3
    )
    gradient = best_time(lambda: native.gradient(kernel, X, X, A, B), repeats=3)
    jax.gradient(kernel, X[:1], X[:1], A[:1], B[:1])  # compiles
    part = kernel, X[:jax_rows], X, A[:jax_rows], B
    begun = time.perf_counter()
    expected = jax.gradient(*part)
    scaled = (time.perf_counter() - begun) * n / len(X[:jax_rows])
    return product, gradient, scaled, difference(native.gradient(*part), expected)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--n", type=int, nargs="+", default=[5000, 20000])
    arguments.add_argument("--rank", type=int, nargs="+", default=[1, 16])
    arguments.add_argument("--jax-rows", type=int, default=None)
    asked, rows = arguments.parse_args(), []
    for n in asked.n:
        for rank in asked.rank:
            for label, kernel in KERNELS.items():
                product, gradient, jax, error = measure(kernel, n, rank, asked.jax_rows)
                row = [
                    f"{product:.3f}",
                    f"{gradient:.3f}",
                    f"{jax:.2f}",
                    f"{jax / gradient:.0f}",
                    f"{error:.1e}",
                ]
                rows.append([n, rank, label, *row])
                print(*rows[-1], flush=True)
    print_table(
        ["n", "r", "kernel", "product", "native gradient", "JAX gradient", "ratio", "relative difference"],
        rows,
    )


if __name__ == "__main__":
    main()
