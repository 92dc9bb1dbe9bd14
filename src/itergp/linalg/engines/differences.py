"""Gradients of weighted sums of kernel values by central differences: slow, accurate to about 1e-9, and
independent of autodiff. For kernels that cannot be traced, and as an oracle for tests."""

from collections.abc import Callable

import numpy as np

from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, no_slopes, parameters, with_parameters


def gradient(kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> tuple[Slopes, np.ndarray]:
    """Of sum_ij W_ij k(x_i, x'_j), in the parameters and in X0."""
    in_inputs = np.zeros_like(X0)
    for f in range(X0.shape[1]):
        h = np.zeros(X0.shape[1])
        h[f] = 1e-6 * max(1.0, float(np.abs(X0[:, f]).max()))
        in_inputs[:, f] = (W * (kernel(X0 + h, X1) - kernel(X0 - h, X1))).sum(axis=1) / (2.0 * h[f])
    return in_parameters(kernel, lambda k: float((W * k(X0, X1)).sum())), in_inputs


def in_parameters(kernel: Kernel, total: Callable[[Kernel], float]) -> Slopes:
    """Of any function of a kernel."""
    slopes = no_slopes(kernel)
    for path, value in parameters(kernel).items():
        for index in np.ndindex(np.shape(value)):
            step, ends = 1e-6 * float(np.asarray(value)[index]), []
            for sign in (1.0, -1.0):
                moved = np.array(value, dtype=np.float64)
                moved[index] += sign * step
                ends.append(total(with_parameters(kernel, {path: moved if moved.ndim else float(moved)})))
            slopes[path][index] = (ends[0] - ends[1]) / (2.0 * step)
    return slopes
