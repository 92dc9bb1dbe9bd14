"""The seam between the method and whatever multiplies with kernel matrices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import KERNELS, exact, make_data
from itergp import RBF, Compute, InputError, Kernel, KernelError, MaxActions, Prior, RandomAction, condition
from itergp.linalg import engines
from itergp.linalg.engines import differences
from itergp.linalg.engines.numpy import NumpyEngine
from itergp.linalg.gram import Gram
from itergp.prior.parameters import parameters


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_in_jax_are_those_of_the_reference(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-1, 1, (33, 2)), rng.uniform(-1, 1, (17, 2))
    A, B = rng.standard_normal((33, 2)), rng.standard_normal((17, 2))
    slopes, slope = engines.get("jax").gradient(KERNELS[kernel], X, Z, A, B)
    expected, expected_slope = differences.gradient(KERNELS[kernel], X, Z, A @ B.T)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-6, atol=1e-7)
    assert isinstance(slope, np.ndarray)
    for path, value in expected.items():
        np.testing.assert_allclose(parameters(slopes)[path], value, rtol=1e-6, atol=1e-7)


def test_growing_data_and_other_parameter_values_do_not_compile_again():
    from itergp.linalg.engines import jax as _jax

    X = np.random.default_rng(0).uniform(-1, 1, (2600, 2))
    compute = Compute("float32", engine="jax", cache=0)
    gram = Gram(1.3 * RBF(lengthscale=0.5), X[:900], compute)
    gram @ np.ones(900)
    compiled = _jax._tile._cache_size()
    gram = gram.extended(X[900:1500])
    gram @ np.ones(1500)
    gram.extended(X[1500:]) @ np.ones((2600, 7))
    Gram(0.7 * RBF(lengthscale=0.2), X[:70], compute) @ np.ones(70)
    assert _jax._tile._cache_size() == compiled


def test_jax_is_configured_nowhere():
    import jax

    before = jax.config.jax_enable_x64
    Gram(RBF(), np.ones((5, 2)), Compute("float64", engine="jax")) @ np.ones(5)
    engines.get("jax").gradient(RBF(), np.ones((5, 2)), np.ones((5, 2)), np.ones((5, 1)), np.ones((5, 1)))
    assert jax.config.jax_enable_x64 == before
    assert (np.asarray(jax.numpy.ones(3)).dtype == np.float32) == (not before)


def test_a_product_function_is_an_engine():
    calls = []

    def product(kernel, X0, X1, V):
        calls.append(V.shape[1])
        return kernel(X0, X1) @ V

    data, prior = make_data(), Prior(KERNELS["rbf"])
    compute = Compute(engine=engines.from_function(product, "mine"))
    ours = condition(prior, data.X, data.y, 0.1, RandomAction(block_size=5), MaxActions(10), compute)
    reference = condition(prior, data.X, data.y, 0.1, RandomAction(block_size=5), MaxActions(10))
    assert ours.problem.gram.engine.name == "mine"
    assert calls[:2] == [5, 5]
    np.testing.assert_allclose(ours.mean(data.X_new), reference.mean(data.X_new), rtol=1e-9)
    np.testing.assert_allclose(ours.var(data.X_new), reference.var(data.X_new), rtol=1e-9)
    grown = ours.extend(data.X_new, np.zeros(12))
    assert grown.problem.gram.engine.name == "mine"


def test_an_object_with_the_methods_is_an_engine():
    class Counting(NumpyEngine):
        name = "counting"
        tiles = 0

        def dense(self, kernel, X0, X1, dtype):
            self.tiles += 1
            return super().dense(kernel, X0, X1, dtype)

    data, prior, engine = make_data(), Prior(KERNELS["rbf"]), Counting()
    posterior = condition(prior, data.X, data.y, 0.1, compute=Compute(engine=engine))
    assert engine.tiles > 0
    np.testing.assert_allclose(
        posterior.mean(data.X_new), exact(prior, data.X, data.y, 0.1, data.X_new).mean, rtol=1e-8
    )


@dataclass(frozen=True, eq=False)
class OnlyNumPy(Kernel):
    """A formula that JAX cannot trace."""

    lengthscale: Any = 1.0

    def __call__(self, X0, X1):
        return np.asarray(RBF(self.lengthscale)(np.array(X0), np.array(X1)))


def test_a_kernel_that_jax_cannot_trace_is_served_by_numpy():
    X = np.random.default_rng(0).uniform(-1, 1, (2100, 1))
    gram = Gram(OnlyNumPy(0.3), X)
    assert gram.engine.name == "numpy"
    assert "JAX cannot trace OnlyNumPy" in gram.engine_reason
    with pytest.raises(KernelError, match="engine='auto'"):
        Gram(OnlyNumPy(0.3), X, Compute(engine="jax"))


def test_a_kernel_that_is_no_dataclass_is_served_by_numpy():
    class Plain(Kernel):
        def __call__(self, X0, X1):
            return X0.__array_namespace__().ones((X0.shape[0], X1.shape[0]))

    assert "dataclass" in engines.get("jax").supports(Plain(), 2)


def test_an_engine_that_is_not_there_is_an_error_with_advice():
    with pytest.raises(InputError, match="expected one of"):
        engines.get("fortran")


def test_a_product_under_way_can_be_stopped_between_tiles():
    class StopError(Exception):
        pass

    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            raise StopError

    gram = Gram(RBF(), np.random.default_rng(0).uniform(-1, 1, (1500, 1)), Compute(engine="numpy"))
    with pytest.raises(StopError):
        gram.multiply(np.ones((1500, 1)), tick)
    assert gram.passes == 0
