"""Claim: memory grows linearly with n; time quadratically where there are passes over K, and linearly
where there are none.

d = 10, Matern 3/2, float32 tiles, never stored: one product K v; a fit with 10 CG actions; a fit with 200
pivoted unit-vector actions (no pass). Each in a process of its own, warm; memory is the peak above what
imports and data take. Exponents are fitted by least squares to the logarithms over the four largest sizes.
The figure is drawn to docs/figures/scaling.png, in quick runs to benchmarks/out.

    python benchmarks/scaling.py [--quick]
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from common import peak_memory, print_table, synthetic
from itergp import Compute, ConjugateGradient, Matern32, MaxActions, Prior, UnitVector, condition
from itergp.linalg.gram import Gram

SIZES = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000]
KERNEL, COMPUTE = 1.0 * Matern32(np.sqrt(10)), Compute("float32", cache=0)
FITTED = 4  # of the largest sizes
WARM_UP = 1000  # rows


def product(X, y):
    return Gram(KERNEL, X, COMPUTE) @ y


def cg(X, y):
    return condition(Prior(KERNEL), X, y, 0.05, ConjugateGradient(), MaxActions(10), COMPUTE)


def pivoted(X, y):
    return condition(Prior(KERNEL), X, y, 0.05, UnitVector("pivoted"), MaxActions(200), COMPUTE)


# label, colour (Okabe and Ito: told apart by everybody) and marker of each
CASES = {
    "product": (product, "one product K v", "#0072B2", "o"),
    "cg": (cg, "10 CG actions", "#D55E00", "s"),
    "pivoted": (pivoted, "200 pivoted unit vectors", "#009E73", "^"),
}


def worker(case, n):
    """Seconds and bytes of one case, in this process."""
    function, (X, y) = CASES[case][0], synthetic(n)
    function(X[:WARM_UP], y[:WARM_UP])
    base, begun = peak_memory(), time.perf_counter()
    kept = function(X, y)  # alive until memory is read
    seconds = time.perf_counter() - begun
    print(f"RESULT {seconds} {peak_memory() - base}")
    del kept


def exponent(sizes, values):
    """p with values ~ sizes^p, over the largest sizes."""
    return np.polyfit(np.log(sizes[-FITTED:]), np.log(values[-FITTED:]), 1)[0]


def draw(sizes, results, path):
    """Time and memory over n, both axes logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2)
    axes[1].loglog(
        sizes,
        4e-9 * np.square(sizes, dtype=float),
        color="0.5",
        ls="--",
        label="a stored float32 matrix: $n^2$",
    )
    for k, (axis, title) in enumerate(zip(axes, ("seconds", "peak memory above the data, GB"), strict=True)):
        for case, (_, label, colour, marker) in CASES.items():
            p = exponent(sizes, results[case][:, k])
            axis.loglog(
                sizes, results[case][:, k], color=colour, marker=marker, label=f"{label}: $n^{{{p:.2f}}}$"
            )
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("n")
        axis.set_xticks(sizes, [f"{n // 1000}k" for n in sizes])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="2,000 to 16,000 rows")
    arguments.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        return worker(options.worker[0], int(options.worker[1]))
    sizes = [2_000, 4_000, 8_000, 16_000] if options.quick else SIZES
    results = {case: [] for case in CASES}
    for n in sizes:
        for case in CASES:
            command = [sys.executable, __file__, "--worker", case, str(n)]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds, size = map(float, out.split("RESULT ")[1].split())
            results[case].append([seconds, size / 1e9])
            print(f"n = {n}, {CASES[case][1]}: {seconds:.3f} s, {size / 1e9:.2g} GB", flush=True)
    results = {case: np.array(values) for case, values in results.items()}
    rows = [
        [
            n,
            *(
                text
                for case in CASES
                for text in (f"{results[case][i, 0]:.3f}", f"{results[case][i, 1]:.2g}")
            ),
        ]
        for i, n in enumerate(sizes)
    ]
    fitted = [f"{exponent(sizes, results[case][:, k]):.2f}" for case in CASES for k in (0, 1)]
    header = [text for _, label, _, _ in CASES.values() for text in (f"{label}: s", "GB")]
    print()
    print_table(["n", *header], [*rows, ["exponent", *fitted]])
    here = Path(__file__).resolve().parent
    path = here / "out" / "scaling.png" if options.quick else here.parent / "docs" / "figures" / "scaling.png"
    draw(sizes, results, path)
    print(f"\n{path}")


if __name__ == "__main__":
    main()
