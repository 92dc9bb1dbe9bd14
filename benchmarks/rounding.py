"""Claim: tau bounds the rounding of float32 products at real sizes.

For real and synthetic data at n = 2,000, 10,000 and 50,000, the error of K q with float32 tiles is
measured for the directions q where it is largest (block power iteration with the engine's own products),
beside tau = Gram.rounding and beside u n k0, the textbook bound, which would exceed the noise. Prints a
table; the last column must stay below 1.

    python benchmarks/rounding.py [--sizes 2000 10000 50000] [--engine native]
    python benchmarks/rounding.py --half [--sizes 2000 4000 8000]

With --half: the spectral norm of what rounding the entries of K to 16 bits would change, beside that of K.
"""

import argparse

import numpy as np

from common import load_table, print_table
from itergp import RBF, Compute, Matern12, Matern32, RationalQuadratic
from itergp.linalg.gram import UNIT, Gram


def worst_ratio(kernel, X, engine, iterations=3, columns=8):
    """The largest |K32 q - K q| found, tau for that q, and the largest ratio of the two over all q tried.

    Tried are random q, the constant one, and those that block power iteration on the error itself turns
    up, first the leading ones (coherent errors), then orthogonal to them (incoherent errors).
    """
    single = Gram(kernel, X, Compute("float32", cache=0, engine=engine))
    double = Gram(kernel, X, Compute("float64", cache=0, engine=engine))
    n, rng = len(X), np.random.default_rng(0)
    found = np.zeros((n, 0))
    V = np.concatenate([np.ones((n, 1)), rng.standard_normal((n, columns - 1))], axis=1)
    best, largest = 0.0, (0.0, 0.0)
    for i in range(iterations):
        V = np.linalg.qr(V - found @ (found.T @ V))[0].astype(np.float32).astype(np.float64)
        KV = double @ V
        E = (single @ V) - KV
        errors = np.linalg.norm(E, axis=0)
        tau = np.array([single.rounding(n, norm) for norm in np.linalg.norm(KV, axis=0)])
        best = max(best, float((errors / tau).max()))
        worst = int(errors.argmax())
        largest = max(largest, (float(errors[worst]), float(tau[worst])))
        V = E
        if i == iterations - 2:  # leave the coherent directions, look at the rest
            found, V = np.linalg.qr(E)[0], rng.standard_normal((n, columns))
    return largest[0], largest[1], best


def half_precision(sizes, iterations=60):
    """|K16 - K| by power iteration, for entries rounded to float16."""
    rows = []
    for name in ("synthetic", "protein", "keggundirected"):
        for n in sizes:
            X = load_table(name)[0][:n]
            for label, kernel in (("matern32, sqrt(d)", Matern32(X.shape[1] ** 0.5)), ("rbf, 1", RBF(1.0))):
                K = kernel(X, X)
                E, v = K.astype(np.float16).astype(np.float64) - K, np.ones(n)
                for _ in range(iterations):
                    v = E @ v
                    norm = np.linalg.norm(v)
                    v /= norm
                rows.append([n, name, label, f"{norm:.2e}", f"{np.linalg.norm(K) / n:.2f}"])
                print(*rows[-1], flush=True)
    print_table(["n", "data", "kernel", "|K16 - K|", "root mean square of K"], rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[2000, 10000, 50000])
    arguments.add_argument("--engine", default="native")
    arguments.add_argument("--half", action="store_true")
    options = arguments.parse_args()
    if options.half:
        return half_precision(options.sizes)
    rows = []
    for n in options.sizes:
        for name in ("synthetic", "protein", "keggundirected"):
            X = load_table(name)[0][:n]
            if len(X) < n:
                continue
            d = X.shape[1]
            short = np.geomspace(0.05, 20.0, d)
            kernels = {
                "matern32, sqrt(d)": Matern32(np.sqrt(d)),
                "matern12, ARD 0.05-20": Matern12(short),
                "rbf, 1": RBF(1.0),
                "rq, 3 sqrt(d)": RationalQuadratic(3 * np.sqrt(d)),
            }
            for label, kernel in kernels.items():
                if n > 20000 and label.startswith("rq"):
                    continue
                error, tau, ratio = worst_ratio(kernel, X, options.engine, iterations=3 if n > 20000 else 4)
                rows.append(
                    [
                        n,
                        name,
                        label,
                        f"{error:.2e}",
                        f"{tau:.2e}",
                        f"{UNIT['float32'] * n:.2e}",
                        f"{ratio:.3f}",
                    ]
                )
                print(*rows[-1], flush=True)
    print_table(["n", "data", "kernel", "largest error", "tau there", "u n k0", "worst error / tau"], rows)


if __name__ == "__main__":
    main()
