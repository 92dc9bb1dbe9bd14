"""Claim to be measured: passes over K, and steps of the solver, on JAX devices.

One pass, and one block of random actions, for the native engine on this CPU and for the JAX engine on all
devices that JAX has. On a CPU this says nothing about accelerators: run it where there are some.

    python benchmarks/devices.py [--rows 100000] [--features 10] [--block 64] [--devices all]
"""

import argparse
import time

import jax
import numpy as np

from common import print_table, synthetic
from itergp import Compute, Matern32, MaxActions, Prior, RandomAction, condition
from itergp.linalg.gram import Gram


def seconds(work):
    """Of the second call: the first one compiles."""
    work()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--devices", default="all")
    given = parser.parse_args()
    devices = given.devices if given.devices == "all" else int(given.devices)
    X, y = synthetic(given.rows, given.features)
    kernel = 1.0 * Matern32(np.sqrt(given.features))
    V = np.random.default_rng(0).standard_normal((given.rows, given.block)).astype(np.float32).astype(float)
    rows = []
    for name, compute in (
        ("native, this CPU", Compute("float32", 0, "native")),
        (
            f"jax, {devices} of {len(jax.devices())} {jax.devices()[0].platform}",
            Compute("float32", 0, "jax", devices=devices),
        ),
    ):
        gram = Gram(kernel, X, compute)

        def acted(compute=compute):
            stop = MaxActions(4 * given.block)
            return condition(Prior(kernel), X, y, 0.1, RandomAction(block_size=given.block), stop, compute)

        rows.append([name, f"{seconds(lambda gram=gram: gram.multiply(V)):.2f}", f"{seconds(acted) / 4:.2f}"])
    print(f"n = {given.rows:,}, d = {given.features}, blocks of {given.block}, float32 tiles, none stored")
    print_table(["engine", "a pass: s", "a block: s"], rows)


if __name__ == "__main__":
    main()
