"""Gradients of sum_ij (A B^T)_ij k(x_i, x'_j) in C++, in float64, for sums of stationary
and linear kernels.

With the constants of the profile inside the features, f = rate * x, every gradient is one of a few sums over
W = A B^T: of W k for the scales, of W k'(s) (f - f')_c^2 for the lengthscales, and of W k'(s) (f_i - f_j)_c
over j for the inputs; linear parts need products with A and B alone. Each group of 64 rows has its own sums,
which are added in a fixed order: the same bits for any number of threads.

Measured against JAX tiles on 2 cores, n = 1,024 to 5,000, d = 1 to 200 (`benchmarks/gradients.py`): two to
ten times as fast up to r = 64, 1.3 times for r = 256, 0.9 times for r = 1,024, where A B^T dominates both. So
all sums of leaves are handled here. For a dense symmetric W, `symmetric_gradient` reads its lower half.
"""

import numpy as np
from scipy.linalg.blas import dsymm

from itergp.errors import InputError
from itergp.linalg.engines.base import Tick
from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.layout import blocks
from itergp.linalg.engines.native.leaves import Leaf, differentiable_leaves, slopes_of
from itergp.linalg.engines.native.linear import transposed_product
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, parameters, with_parameters
from itergp.validate import as_float64, finite

GROUP, TOTALS = _tiles.GROUP, _tiles.TOTALS
SECONDS = 0.2  # at most this much per call, so that Ctrl-C takes effect


def gradient(
    kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray, threads: int
) -> tuple[Kernel, np.ndarray] | None:
    """See `Engine.gradient`; None if the kernel is not made of leaves."""
    X0, X1, A, B = _checked(kernel, X0, X1, A, B)
    parts = differentiable_leaves(kernel)
    if parts is None:
        return None
    in_inputs, found, total = np.zeros_like(X0), [], A.sum(axis=0) @ B.sum(axis=0)
    rows, columns = A.any(axis=1), B.any(axis=1)  # weights are often zero on most rows
    X0, X1, A, B, d = X0[rows], X1[columns], A[rows], B[columns], X0.shape[1]
    profiles = [leaf for leaf in parts if not leaf.constant and not leaf.linear]
    for leaf, sums, slope in _sums(profiles, X0, X1, A, B, threads):
        found.append((leaf, sums[0], sums[1], sums[TOTALS:] if leaf.lengthscale.ndim else sums[2]))
        in_inputs[np.ix_(rows, leaf.columns(d))] += 2.0 * leaf.term.weight * leaf.rate(d) * slope
    for leaf in (leaf for leaf in parts if leaf.linear):
        products, slope = _linear(leaf, X0, X1, A, B)
        found.append((leaf, products.sum(), 0.0, products if leaf.lengthscale.ndim else products.sum()))
        in_inputs[np.ix_(rows, leaf.columns(d))] += leaf.term.weight * leaf.rate(d) * slope
    constants = [leaf for leaf in parts if leaf.constant]
    return with_parameters(kernel, slopes_of(found, constants, total), check=False), in_inputs


def input_gradient(
    kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray, threads: int
) -> np.ndarray | None:
    """See `Engine.in_inputs`; None if the kernel is not made of leaves. A group of rows at a time, whose
    weights are I W."""
    if differentiable_leaves(kernel) is None:
        return None
    out = np.zeros_like(X0)
    for start in range(0, len(X0), GROUP):
        some = slice(start, start + GROUP)
        found = gradient(kernel, X0[some], X1, np.eye(len(X0[some])), W[some].T, threads)
        assert found is not None
        out[some] = found[1]
    return out


def symmetric_gradient(
    kernel: Kernel, X: np.ndarray, W: np.ndarray, threads: int, tick: Tick
) -> Slopes | None:
    """See `Engine.weighted_symmetric`; None if the kernel is not made of leaves."""
    parts, d = differentiable_leaves(kernel), X.shape[1]
    if parts is None:
        return None
    profiles, found = [leaf for leaf in parts if not leaf.constant and not leaf.linear], []
    for leaf, sums in _symmetric_sums(profiles, X, W, threads, tick):
        found.append((leaf, sums[0], sums[1], sums[TOTALS:] if leaf.lengthscale.ndim else sums[2]))
    for leaf in (leaf for leaf in parts if leaf.linear):
        F = X[:, leaf.columns(d)] * leaf.rate(d)
        products = (F * dsymm(1.0, W, F, lower=1)).sum(axis=0)
        found.append((leaf, products.sum(), 0.0, products if leaf.lengthscale.ndim else products.sum()))
    constants = [leaf for leaf in parts if leaf.constant]
    total = 2.0 * np.tril(W, -1).sum() + np.trace(W) if constants else 0.0
    slopes = slopes_of(found, constants, float(total))
    return {path: slopes[path] for path in parameters(kernel)}


def _symmetric_sums(
    parts: list[Leaf], X: np.ndarray, W: np.ndarray, threads: int, tick: Tick
) -> list[tuple[Leaf, np.ndarray]]:
    """For each part, the totals and squares of gradients.h."""
    if not parts:
        return []
    sizes = [len(leaf.columns(X.shape[1])) for leaf in parts]
    F = _grouped(
        np.concatenate([X[:, leaf.columns(X.shape[1])] * leaf.rate(X.shape[1]) for leaf in parts], axis=1)
    )
    slopes, sums = np.zeros_like(F), np.zeros((len(F), TOTALS * len(parts) + sum(sizes)))
    per_feature = any(leaf.lengthscale.ndim for leaf in parts)
    description = sizes, [leaf.kind for leaf in parts], [leaf.alpha for leaf in parts]
    entries = SECONDS / _seconds(len(parts), sum(sizes), 0)  # per thread, in one call
    step = threads * max(1, int(entries / (GROUP**2 * len(F))))
    columns = np.asfortranarray(W).T
    for p in range(0, len(F), step):
        tick()
        ends = p, min(p + step, len(F))
        _tiles.symmetric_gradient(F, columns, *description, per_feature, slopes, sums, *ends, threads)
    total, starts = sums.sum(axis=0), np.cumsum([0, *sizes])
    return [
        (leaf, total[TOTALS * k + start : TOTALS * (k + 1) + start + size])
        for k, (leaf, start, size) in enumerate(zip(parts, starts, sizes, strict=False))
    ]


def _linear(
    leaf: Leaf, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For a linear part, the sums of W f_c f'_c, and sum_j W f_jc for each row i and feature c."""
    columns, rate = leaf.columns(X0.shape[1]), leaf.rate(X0.shape[1])
    left, right = transposed_product(A, X0[:, columns]) * rate, transposed_product(B, X1[:, columns]) * rate
    return (left * right).sum(axis=0), A @ right


def _sums(
    parts: list[Leaf], X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray, threads: int
) -> list[tuple[Leaf, np.ndarray, np.ndarray]]:
    """For each part, the totals and squares of gradients.h, and sum_j W k'(s) (f_i - f_j)_c for each row i
    and feature c."""
    if not parts:
        return []
    d = X0.shape[1]
    sizes = [len(leaf.columns(d)) for leaf in parts]
    left, right = (
        _grouped(np.concatenate([X[:, leaf.columns(d)] * leaf.rate(d) for leaf in parts], axis=1))
        for X in (X0, X1)
    )
    slopes, sums = np.zeros_like(left), np.zeros((len(left), TOTALS * len(parts) + sum(sizes)))
    per_feature = any(leaf.lengthscale.ndim for leaf in parts)
    entries = SECONDS / _seconds(len(parts), sum(sizes), A.shape[1])  # per thread, in one call
    breadth = max(1, min(len(right), int(entries / GROUP**2)))
    height = threads * max(1, int(entries / (GROUP**2 * breadth)))
    weights = _grouped(A), _grouped(B)
    description = sizes, [leaf.kind for leaf in parts], [leaf.alpha for leaf in parts]
    for p in range(0, len(left), height):
        for g in range(0, len(right), breadth):
            ends = p, min(p + height, len(left)), g, min(g + breadth, len(right))
            _tiles.gradient(left, right, *weights, *description, per_feature, slopes, sums, *ends, threads)
    total = sums.sum(axis=0)
    by_row = slopes.transpose(0, 2, 1).reshape(len(left) * GROUP, sum(sizes))[: len(X0)]
    starts = np.cumsum([0, *sizes])
    return [
        (leaf, total[TOTALS * k + start : TOTALS * (k + 1) + start + size], by_row[:, start : start + size])
        for k, (leaf, start, size) in enumerate(zip(parts, starts, sizes, strict=False))
    ]


def _seconds(parts: int, features: int, rank: int) -> float:
    """Time per entry of K, on a slow machine."""
    return 1e-9 * (12.0 * parts + features + 0.3 * rank)


def _grouped(F: np.ndarray) -> np.ndarray:
    return blocks(F, np.dtype("float64"), GROUP)


def _checked(
    kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
) -> list[np.ndarray]:
    named = {"X0": X0, "X1": X1, "A": A, "B": B}
    arrays = {name: finite(name, as_float64(name, value)) for name, value in named.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    fit = all(len(shape) == 2 for shape in shapes.values()) and (
        (shapes["X0"][1], shapes["A"][1]) == (shapes["X1"][1], shapes["B"][1])
        and (len(arrays["A"]), len(arrays["B"])) == (len(arrays["X0"]), len(arrays["X1"]))
    )
    if not fit:
        raise InputError(f"The shapes are {shapes}; expected X0 (n, d), X1 (m, d), A (n, r) and B (m, r).")
    kernel.check_features(shapes["X0"][1])
    return list(arrays.values())
