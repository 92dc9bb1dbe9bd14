"""Claim: kernel products run at a stated fraction of what this machine can do at best.

Two ceilings are measured: arithmetic, as the rate of NumPy's float32 matrix multiplication (which is fused
multiply-adds and little else), and memory, as the rate at which `K @ v` reads a stored float32 matrix.
Then the products: what they take, and how many operations or bytes that needs at least.

Operations for one entry of Matern 3/2, by counting the instructions of the inner loops: for each of the d
features a subtraction and a fused multiply-add; one square root; 13 for the exponential (one minimum, two
for the power of two, two to reduce the argument, seven of the polynomial, one for the exponent); 2 for the
profile and its scale; for each column 2 fused multiply-adds (the entry serves both sides). An entry off
the diagonal is evaluated once and stands for two.

    python benchmarks/roofline.py [--n 20000]
"""

import argparse

import numpy as np

from common import best_time, print_table
from itergp import Compute, Matern32
from itergp.linalg.gram import Gram

D = 10


def operations(d, columns):
    """Vector instructions for a vector of entries, each counted as one."""
    return 2 * d + 1 + 13 + 2 + 2 * columns


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--n", type=int, default=20000)
    n = arguments.parse_args().n
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4096, 4096)).astype(np.float32)
    multiply_adds = 4096**3 / best_time(lambda: A @ A, repeats=5)  # per second
    K, v = np.ones((n, n), dtype=np.float32), np.ones(n, dtype=np.float32)
    bandwidth = K.nbytes / best_time(lambda: K @ v, repeats=5)
    print(
        f"arithmetic: {multiply_adds / 1e9:.1f} G fused multiply-adds per second in float32 (NumPy's matrix "
        "multiplication)"
    )
    print(f"memory: {bandwidth / 1e9:.1f} GB per second (K @ v on a stored float32 matrix)")
    X, rows = rng.standard_normal((n, D)) / np.sqrt(D), []
    for columns in (1, 8, 64, 256):
        V = rng.standard_normal((n, columns))
        gram = Gram(Matern32(1.0), X, Compute("float32", cache=0))
        seconds = best_time(lambda gram=gram, V=V: gram @ V, repeats=4)
        needed = n * n / 2 * operations(D, columns) / multiply_adds
        rows.append(
            [
                "matrix-free",
                columns,
                f"{seconds:.3f}",
                f"{needed:.3f}",
                "arithmetic",
                f"{needed / seconds:.0%}",
            ]
        )
    for columns in (1, 8):
        V = rng.standard_normal((n, columns))
        gram = Gram(Matern32(1.0), X, Compute("float32", cache="4GB"))
        seconds = best_time(lambda gram=gram, V=V: gram @ V, repeats=6)
        needed = n * n / 2 * 4 / bandwidth
        rows.append(
            ["stored tiles", columns, f"{seconds:.3f}", f"{needed:.3f}", "memory", f"{needed / seconds:.0%}"]
        )
    print_table(["product", "columns", "seconds", "at best", "limit", "reached"], rows)
    print(
        "At best: as many instructions as a matrix multiplication issues in that time, all of them counted "
        "as multiply-adds."
    )


if __name__ == "__main__":
    main()
