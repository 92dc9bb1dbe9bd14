"""Q, K Q, weights, residual and passes on JAX devices: four of them, forced on this CPU in their process."""

import json
import os
import subprocess
import sys

import pytest

from itergp import Compute, InputError

pytest.importorskip("jax")

PROGRAM = """
import json, pickle, sys
import jax, numpy as np
from itergp import (Compute, ConjugateGradient, Linear, Matern32, MaxActions, Prior, RandomAction, Schedule,
                    UnitVector, condition)
from itergp.linalg.engines.jax_devices import OnDevices, VectorsOnDevices, on_devices
from itergp.linalg.columns import InMemory
from itergp.linalg.gram import Gram

rng = np.random.default_rng(0)
n = 1300
X, y = rng.uniform(-1, 1, (n, 3)), rng.standard_normal((n, 2))
new = rng.uniform(-1, 1, (20, 3))
kernel = 1.3 * Matern32([0.5, 0.8, 1.1]) + 0.2 * Linear(1.0)
POLICIES = {
    "cg": ConjugateGradient(),
    "random": RandomAction(block_size=40),
    "mixed": Schedule(
        (UnitVector(block_size=3), 6), (RandomAction(block_size=5), 10), (UnitVector(block_size=4), None)
    ),
}
out = {"devices": len(jax.devices())}

def error(ours, theirs):
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())

# a pass, against NumPy; V that float32 cannot hold too
for dtype in ("float64", "float32"):
    there = Gram(kernel, X, Compute(dtype, engine="jax", devices=4))
    V = rng.standard_normal((n, 5))
    V /= np.linalg.norm(V, axis=0)
    exact = Gram(kernel, X, Compute("float64", engine="numpy")).multiply(V)
    with jax.transfer_guard("disallow"):
        found = there.multiply(V)
    tau = there.rounding(n, np.linalg.norm(exact, axis=0))
    out[f"pass {dtype}"] = float((np.linalg.norm(found - exact, axis=0) / tau).max())

# the whole loop, and what reads a posterior, with no copy that was not asked for
def run(name, dtype, engine, devices):
    stop, compute = MaxActions(90 if name == "random" else 20), Compute(dtype, engine=engine, devices=devices)
    p = condition(Prior(kernel), X[:1200], y[:1200], 0.1, POLICIES[name], stop, compute)
    q = p.extend(X[1200:], y[1200:]).refine(RandomAction(block_size=3), MaxActions(6))
    return p, q

def numbers(p):
    steps = [[step.residual_norm, step.elbo, step.mean_training_variance] for step in p.state.trace]
    return [p.mean(new), p.var(new), p.state.residual, p.state.representer_weights, p.state.training_variance,
            *p.at(new).local(5).marginals, *np.array(steps).T]

for name in POLICIES:
    expected = run(name, "float64", "numpy", None)
    for dtype in ("float64", "float32"):
        with jax.transfer_guard("disallow"):
            found = run(name, dtype, "jax", 4)
            ours = [number for p in found for number in numbers(p)]
        reference, exact = ([number for p in which for number in numbers(p)]
                            for which in (run(name, dtype, "numpy", None), expected))
        out[f"{name} {dtype}"] = [max(map(error, which, exact)) for which in (ours, reference)]
        basis = found[0].state.basis
        dense = [m for m in (basis.KQ, *basis.parts) if not hasattr(m, "indptr")]
        out["there"] = all(isinstance(m, OnDevices) for m in dense)
        out["shards"] = sorted(len(c.sharding.device_set) for c in basis.KQ.chunks)
        out["rows"] = basis.KQ.chunks[0].addressable_shards[0].data.shape[0]
        there = found[0].state.belief.elsewhere
        vectors = there.v, there.r, there.variances
        out["vectors"] = [isinstance(there, VectorsOnDevices), *(len(v.sharding.device_set) for v in vectors)]

# a run that is cut within a block, and goes on; and the earlier of two states, which stays as it was
how = Prior(kernel), X, y, 0.1, RandomAction(block_size=8)
compute = Compute("float64", engine="jax", devices=4)
early = condition(*how, MaxActions(11), compute)
before = early.state.residual
cut, whole = early.refine(stop=MaxActions(5)).state, condition(*how, MaxActions(16), compute).state
out["cut"] = [bool(np.array_equal(getattr(cut, name), getattr(whole, name)))
              for name in ("representer_weights", "residual", "training_variance", "elbo")]
out["cut"].append(bool(np.array_equal(early.state.belief.elsewhere.residual(), before)))
sent = pickle.loads(pickle.dumps(cut))
out["sent"] = [sent.belief.elsewhere is None, error(sent.residual, cut.residual)]

# one device and four: the same to rounding
one, four = (run("random", "float64", "jax", devices)[1] for devices in (1, 4))
out["one device"] = error(one.var(new), four.var(new))

# a matrix alone
A, B = rng.standard_normal((n, 150)), InMemory(n)
M = on_devices(4).columns(n)
for start, stop in ((0, 1), (1, 60), (60, 70), (70, 150)):
    M, B = M.append(A[:, start:stop]), B.append(A[:, start:stop])
V, C, rows = rng.standard_normal((n, 4)), rng.standard_normal((77, 3)), rng.permutation(n)[:9]
out["matrix"] = max(error(a, b) for a, b in (
    (M.inner(V), A.T @ V), (M.combine(C), A[:, :77] @ C), (M.rows(rows), A[rows]),
    (M.between(50, 140), A[:, 50:140]), (M.squared_rows(), (A**2).sum(axis=1)),
    (pickle.loads(pickle.dumps(M)).between(0, 150), A),
    (M.with_rows(A[:7]).between(0, 150), np.concatenate([A, A[:7]]))))
left, right = (M.append(np.full((n, 1), value)) for value in (1.0, 2.0))
out["branches"] = [float(left.between(150, 151)[0, 0]), float(right.between(150, 151)[0, 0]), M.size]

# what crosses: in a pass, the first and the second, and in a step of the loop, at two sizes
traffic = on_devices(4).rows.traffic

def crossed(work):
    before = traffic.sent, traffic.received
    work()
    return [traffic.sent - before[0], traffic.received - before[1]]

def steps(rows, block):
    points, counts = rng.uniform(-1, 1, (rows, 3)), []
    policy = RandomAction(block_size=block) if block > 1 else ConjugateGradient()
    condition(Prior(kernel), points, points[:, 0], 0.1, policy, MaxActions(4 * block),
              Compute("float32", engine="jax", devices=4),
              callback=lambda state: counts.append([traffic.sent, traffic.received]) and None)
    return np.diff(counts, axis=0)[-1]

there = Gram(kernel, X, Compute("float32", engine="jax", devices=4))
Q = np.float32(V)[:, :4]
out["passes"] = [crossed(lambda: there.multiply(Q)) for _ in range(2)]
out["steps"] = {
    block: ((steps(4096, block) - steps(2048, block)) / (2048 * block)).tolist() for block in (1, 16)
}
out["said"] = there.engine.activity()

# a forgotten copy is noticed on this backend
try:
    with jax.transfer_guard("disallow"):
        jax.numpy.sin(np.ones(3))
    out["guard"] = False
except Exception as wrong:
    out["guard"] = "Disallowed" in str(wrong)
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def found():
    flags = "--xla_force_host_platform_device_count=4"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_there_are_four_devices_with_equal_rows_and_a_guard_that_works(found):
    assert found["devices"] == 4
    assert found["guard"]
    assert found["there"]
    assert set(found["shards"]) == {4}
    assert found["rows"] == 512  # 1,200 rows in whole tiles on four devices
    assert found["vectors"] == [True, 4, 4, 4]


def test_a_pass_on_devices_is_as_accurate_as_others_must_be(found):
    """Below tau, which bounds the rounding of a product; here of numbers that float32 cannot hold."""
    assert found["pass float64"] < 1
    assert found["pass float32"] < 1


@pytest.mark.parametrize("policy", ["cg", "random", "mixed"])
def test_posteriors_on_devices_are_those_of_the_reference_to_what_the_dtype_allows(found, policy):
    """Two targets, more rows, more actions and local predictions, with every hidden copy an error."""
    assert found[f"{policy} float64"][0] < 1e-11
    ours, reference = found[f"{policy} float32"]
    assert ours < 4 * reference < 0.02


def test_one_device_and_four_agree_to_rounding(found):
    assert found["one device"] < 1e-12


def test_a_matrix_on_devices_answers_as_one_array(found):
    assert found["matrix"] < 1e-13
    assert found["branches"] == [1.0, 2.0, 150]


def test_inputs_cross_once_and_a_pass_sends_v_and_brings_k_v(found):
    """n rows are padded to whole tiles on four devices: 2,048 of them; and where a tile begins, on each."""
    (first, received), (second, again) = found["passes"]
    rows, tiles = 2048, 3
    assert second == 4 * rows * 4 + tiles * 4 * 4
    assert first - second >= 4 * rows * 3  # X, and a few numbers of the kernel
    assert first - second < 4 * rows * 3 + 1000
    assert received == again == 8 * rows * 4


def test_a_run_that_is_cut_within_a_block_has_the_same_bits_and_changes_no_earlier_state(found):
    assert found["cut"] == [True] * 5


def test_a_pickled_state_has_its_numbers_with_it(found):
    assert found["sent"] == [True, 0.0]


@pytest.mark.parametrize(("block", "read"), [("1", 8), ("16", 0)])
def test_a_step_moves_so_many_bytes_for_each_row_and_action_whatever_its_rank(found, block, read):
    """Sent: the actions for two projections on the earlier ones, V in float32, K_hat Q for G, and Q and K Q
    to be kept. Brought: both projections, K V, and, for conjugate gradients alone, the residual. Weights and
    residual are updated there."""
    sent, received = found["steps"][block]
    assert sent == pytest.approx(2 * 8 + 4 + 8 + 2 * 8, abs=0.1)
    assert received == 2 * 8 + 8 + read
    assert found["said"].startswith("4 devices · ")


def test_devices_are_for_jax_and_are_counted():
    with pytest.raises(
        InputError, match=r"Compute\.devices is 2 with engine='native'; expected engine='jax'"
    ):
        Compute(engine="native", devices=2)
    for wrong in (0, 1.5, "some"):
        with pytest.raises(InputError, match=r"Compute\.devices"):
            Compute(engine="jax", devices=wrong)
