"""A model that was saved and loaded is the same model: the same predictions, and the same after any
refinement, to the bit."""

import copy
import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import itergp
from helpers import KERNELS, POLICIES, make_data, row_noise
from itergp import (
    RBF,
    BlockKrylov,
    Compute,
    ConjugateGradient,
    ConstantMean,
    Eigenvector,
    InputError,
    Kernel,
    LinearMean,
    Matern32,
    MaxActions,
    Mean,
    Policy,
    Posterior,
    Prior,
    PseudoInput,
    RandomAction,
    ResidualNorm,
    Schedule,
    SparseBlock,
    State,
    Status,
    StoppingCriterion,
    StorageError,
    UnitVector,
    condition,
)
from itergp.linalg import engines
from itergp.storage import load, save
from itergp.storage.specs import LIBRARY

DATA = make_data(30)
AT = DATA.X_new
STORED = [name for name in POLICIES if name != "callable"]
ARRAYS = ("z", "tau", "representer_weights", "residual", "training_variance", "L")


def built(name):
    try:
        return bool(engines.get(name))
    except ImportError:
        return False


def fitted(policy, actions=7, kernel="matern52", noise=0.03, targets=None, mean=None, **how):
    data = make_data(30, targets=targets)
    prior = Prior(KERNELS[kernel], LinearMean([0.3, -0.2], 0.1) if mean is None else mean)
    return condition(prior, data.X, data.y, noise, policy, MaxActions(actions), Compute(**how), seed=3)


def through_a_file(posterior, folder, **options):
    save(folder / "model.itergp", posterior, **options)
    return load(folder / "model.itergp")[0]


def assert_same(a, b):
    """The same state and the same answers, to the bit."""
    assert (a.rank, a.status, a.state.blocks, a.state.counter) == (
        b.rank,
        b.status,
        b.state.blocks,
        b.state.counter,
    )
    for name in ARRAYS:
        assert np.array_equal(getattr(a.state, name), getattr(b.state, name)), name
    for answer in (Posterior.mean, Posterior.var, Posterior.cov):
        assert np.array_equal(answer(a, AT), answer(b, AT)), answer


def without_seconds(trace):
    return [{**vars(step), "seconds": 0.0} for step in trace]


@pytest.mark.parametrize("policy", STORED)
@pytest.mark.parametrize("actions", [1, 7])
@pytest.mark.parametrize("case", ["one target", "noise per row", "several targets", "more data"])
def test_a_loaded_model_predicts_and_refines_to_the_same_bits(policy, actions, case, tmp_path):
    if policy == "adversarial" and case == "several targets":
        pytest.skip("Adversarial is defined for one target")
    noise, targets = (
        row_noise(30) if case == "noise per row" else 0.03,
        3 if case == "several targets" else None,
    )
    saved = fitted(POLICIES[policy](), actions, noise=noise, targets=targets)
    if case == "more data":
        more = make_data(11, seed=1)
        saved = saved.extend(more.X, more.y, noise=0.2)
    loaded = through_a_file(saved, tmp_path)
    assert_same(loaded, saved)
    assert without_seconds(loaded.trace) == without_seconds(saved.trace)
    assert loaded.state.progress == saved.state.progress
    refined = loaded.refine(stop=MaxActions(6))
    assert_same(refined, saved.refine(stop=MaxActions(6)))
    assert_same(through_a_file(refined, tmp_path), refined)


@pytest.mark.parametrize("policy", ["cg", "pseudo-input", "unit-pivoted", "schedule"])
@pytest.mark.parametrize(
    "how",
    [{"dtype": "float32"}, {"engine": "jax"}, {"engine": "native"}, {"cache": 0, "threads": 1}],
    ids=str,
)
def test_a_loaded_model_refines_to_the_same_bits_however_it_is_computed(policy, how, tmp_path):
    if not built(how.get("engine", "numpy")):
        pytest.skip("not built")
    saved = fitted(POLICIES[policy](), **how)
    loaded = through_a_file(saved, tmp_path)
    assert loaded.problem.gram.engine.name == saved.problem.gram.engine.name
    assert loaded.problem.gram.dtype == saved.problem.gram.dtype
    assert_same(loaded.refine(stop=MaxActions(6)), saved.refine(stop=MaxActions(6)))


@pytest.mark.parametrize(
    "policy",
    [
        ConjugateGradient(preconditioner=fitted(RandomAction(6)).preconditioner()),
        PseudoInput(make_data(9, seed=5).X, block_size=4),
        PseudoInput(np.int64(5), block_size=2),
        SparseBlock([[1, 5, 2], [0, 7], [9]], values=np.linspace(1.0, 2.0, 30)),
        SparseBlock(groups=([3], [4, 6]), values="random"),
        Schedule(
            (UnitVector("random"), 3),
            (ConjugateGradient(), ResidualNorm(1e-1) | MaxActions(9)),
            (Eigenvector(3), None),
        ),
        Schedule((RandomAction(), 2)),  # has nothing more to offer
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_what_a_policy_holds_is_stored(policy, tmp_path):
    saved = fitted(policy, 4)
    assert_same(through_a_file(saved, tmp_path).refine(stop=MaxActions(8)), saved.refine(stop=MaxActions(8)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_stored(kernel, tmp_path):
    saved = fitted(BlockKrylov(4), kernel=kernel)
    loaded = through_a_file(saved, tmp_path)
    assert type(loaded.problem.prior.kernel) is type(saved.problem.prior.kernel)
    assert_same(loaded, saved)


def test_every_public_kernel_mean_policy_and_criterion_can_be_stored():
    kinds = (Kernel, Mean, Policy, StoppingCriterion)
    public = {
        name
        for name in itergp.__all__
        if isinstance(cls := getattr(itergp, name), type) and issubclass(cls, kinds)
    }
    assert {"Matern32", "LinearMean", "BlockKrylov", "MaxPasses"} <= public
    assert public <= set(LIBRARY)


@pytest.mark.parametrize(
    "mean", [ConstantMean(0.4), ConstantMean([0.1, 0.2]), LinearMean([[0.1, 0.2], [0.3, 0.4]], [1.0, 2.0])]
)
def test_every_mean_is_stored(mean, tmp_path):
    saved = fitted(RandomAction(), targets=2, mean=mean)
    assert_same(through_a_file(saved, tmp_path), saved)


@pytest.mark.parametrize("size", [1, 20, 32, 40])
def test_inputs_are_counted_from_the_same_point_after_more_data(size, tmp_path):
    first, more = make_data(size), make_data(30, seed=2)
    saved = condition(Prior(Matern32(0.5)), first.X + 1e3, first.y, 0.1, ConjugateGradient(), MaxActions(3))
    saved = saved.extend(more.X + 1e3, more.y, policy=False)
    loaded = through_a_file(saved, tmp_path)
    assert np.array_equal(
        loaded.refine(stop=MaxActions(4)).mean(AT + 1e3), saved.refine(stop=MaxActions(4)).mean(AT + 1e3)
    )


def test_across_chunks_of_memory_too(tmp_path):
    data = make_data(180)
    for policy in (RandomAction(9), UnitVector(block_size=7), BlockKrylov(100)):
        saved = condition(Prior(KERNELS["sum"]), data.X, data.y, 0.05, policy, MaxActions(131))
        assert_same(
            through_a_file(saved, tmp_path).refine(stop=MaxActions(20)), saved.refine(stop=MaxActions(20))
        )


def test_all_other_answers_are_the_same(tmp_path):
    saved = fitted(PseudoInput(block_size=5), 8)
    loaded = through_a_file(saved, tmp_path)
    assert loaded.state.elbo == saved.state.elbo
    assert loaded.state.projected_log_likelihood == saved.state.projected_log_likelihood
    for answer in (
        lambda p: p.predictive_var(AT),
        lambda p: p.path(AT).mean,
        lambda p: p.path(AT).var,
        lambda p: p.local(5).mean(AT),
        lambda p: p.local(5).var(AT),
        lambda p: p.sample(AT, 3),
        lambda p: p.sample_function(2)(AT),
        lambda p: p.decompose(AT).computational,
        lambda p: p.decompose(AT, "estimate").computational,
        lambda p: p.certify(AT).mean_error,
        lambda p: p.computational_share(AT).estimate,
        lambda p: p.extend(AT, np.zeros(12)).mean(AT),
    ):
        assert np.array_equal(answer(loaded), answer(saved))


def test_an_exact_model_of_the_default_policy(tmp_path):
    saved = condition(Prior(KERNELS["rbf"]), DATA.X, DATA.y, 0.05)
    loaded = through_a_file(saved, tmp_path)
    assert loaded.status is Status.EXACT
    assert_same(loaded, saved)


# What the file does not hold.

PREDICTIONS = {
    "mean": lambda p: p.mean(AT),
    "var": lambda p: p.var(AT),
    "predictive_var": lambda p: p.predictive_var(AT),
    "cov": lambda p: p.cov(AT),
    "path": lambda p: p.path(AT).mean,
    "sample": lambda p: p.sample(AT, 3),
    "decompose": lambda p: p.decompose(AT).computational,
    "worst_case_error": lambda p: p.worst_case_error(AT),
}
UNLESS_EXACT = {
    "local": lambda p: p.local(5).var(AT),
    "local mean": lambda p: p.local(5).mean(AT),
    "local cov": lambda p: p.local(5).cov(AT),
    "local sample": lambda p: p.local(5).sample(AT, 3),
    "around": lambda p: p.around(AT, 5).cov(AT),
    "around mean": lambda p: p.around(AT, 5).mean(AT),
    "certify": lambda p: p.certify(AT).mean_error,
    "decompose by certificate": lambda p: p.decompose(AT, "certificate").computational_upper,
    "decompose by estimate": lambda p: p.decompose(AT, "estimate").computational_upper,
    "preconditioner": lambda p: p.preconditioner().solve(np.ones(30)),
}
MORE_WORK = {
    "refine": lambda p: p.refine(stop=MaxActions(1)),
    "refine with a policy": lambda p: p.refine(Eigenvector(), stop=MaxActions(1)),
    "refine by residual": lambda p: p.refine(stop=ResidualNorm(1e-3)),
    "extend": lambda p: p.extend(AT, np.zeros((12, *p.problem.y.shape[1:])), noise=0.1),
    "append": lambda p: p.extend(AT, np.zeros((12, *p.problem.y.shape[1:])), noise=0.1, policy=False),
    "sample_function": lambda p: p.sample_function(2),
    "local sample_function": lambda p: p.local(5).sample_function(2),
    "local sample at many points": lambda p: p.local(5).sample(np.zeros((2001, 2))),
    "sample at many points": lambda p: p.sample(np.zeros((2001, 2))),
    "computational_share": lambda p: p.computational_share(AT),
    "elbo": lambda p: p.state.elbo,
}


@pytest.mark.parametrize("policy", POLICIES)
def test_without_what_only_refinement_needs_predictions_are_the_same_bits_and_the_rest_is_refused(
    policy, tmp_path
):
    saved = fitted(POLICIES[policy](), 7)
    loaded = through_a_file(saved, tmp_path, refinable=False)
    for name, answer in {**PREDICTIONS, **UNLESS_EXACT}.items():
        assert np.array_equal(answer(loaded), answer(saved)), name
    passes = loaded.problem.gram.passes
    for work in MORE_WORK.values():
        with pytest.raises(InputError, match="refinable=False, without"):
            work(loaded)
    assert loaded.problem.gram.passes == passes  # refused before any work
    again = through_a_file(loaded, tmp_path, refinable=False)
    assert np.array_equal(again.local(5).var(AT), saved.local(5).var(AT))
    with pytest.raises(InputError, match="refinable=False"):
        save(tmp_path / "again", loaded)


@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["scalar", "per row"])
def test_an_exact_model_without_what_only_refinement_needs(noise, tmp_path):
    data = make_data(30, targets=2)
    saved = condition(Prior(KERNELS["rbf"]), data.X, data.y, noise)
    loaded = through_a_file(saved, tmp_path, refinable=False)
    for name, answer in PREDICTIONS.items():
        if np.ndim(noise) == 0 or name not in ("predictive_var", "worst_case_error"):
            assert np.array_equal(answer(loaded), answer(saved)), name
    for answer in (
        *UNLESS_EXACT.values(),
        *(work for name, work in MORE_WORK.items() if name in ("extend", "append")),
    ):
        with pytest.raises(InputError, match="refinable=False, without"):
            answer(loaded)
    assert np.array_equal(through_a_file(loaded, tmp_path, refinable=False).var(AT), saved.var(AT))


def test_a_file_that_cannot_be_refined_says_so_and_has_no_targets(tmp_path):
    saved = condition(Prior(KERNELS["rbf"]), DATA.X, DATA.y, 0.05)
    sizes, keys = {}, {}
    for refinable in (True, False):
        save(tmp_path / "m", saved, refinable=refinable)
        sizes[refinable] = (tmp_path / "m").stat().st_size
        with safe_open(tmp_path / "m", framework="np") as file:
            keys[refinable] = set(file.keys())
            assert json.loads(file.metadata()["itergp"])["value"]["refinable"] is refinable
    assert sizes[False] < sizes[True]
    assert keys[True] - keys[False] == {"y", "b", "KQ", "training_variance", "memory"}


def test_a_model_without_something_can_be_copied_to_another_process(tmp_path):
    loaded = through_a_file(fitted(RandomAction(), 5), tmp_path, refinable=False)
    for copied in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert np.array_equal(copied.mean(AT), loaded.mean(AT))
        with pytest.raises(InputError, match="refinable=False"):
            copied.refine(stop=MaxActions(1))


def test_after_a_function_as_policy_refine_needs_one(tmp_path):
    policy = POLICIES["callable"]()
    saved = fitted(policy, 5)
    loaded = through_a_file(saved, tmp_path)
    assert_same(loaded, saved)
    with pytest.raises(InputError, match=r"policy is .*no code.*refine\(policy=\.\.\.\)"):
        loaded.refine(stop=MaxActions(1))
    assert_same(loaded.refine(RandomAction(), MaxActions(4)), saved.refine(RandomAction(), MaxActions(4)))
    again = through_a_file(loaded, tmp_path)
    assert np.array_equal(again.mean(AT), saved.mean(AT))


# One's own classes.


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """exp(-|x - x'|) cos(frequency (x_1 - x'_1)) / factor"""

    frequency: Any = 1.0
    inner: Any = field(default_factory=lambda: Matern32(0.5))
    factor = 1.0

    def __call__(self, X0, X1):
        xp = X0.__array_namespace__()
        return self.inner(X0, X1) * xp.cos(self.frequency * (X0[:, :1] - X1[:, :1].T)) / self.factor


@dataclass(frozen=True, eq=False)
class Ramp(Mean):
    slope: float = 2.0

    def __call__(self, X):
        return self.slope * X[:, 0]


@dataclass(frozen=True, eq=False)
class EverySecondRow(Policy):
    shift: int = 1

    def start(self, state):
        return {"rows": np.arange(self.shift, state.problem.n, 2)}

    def __call__(self, state):
        row = state.memory["rows"][state.proposed]
        return np.eye(state.problem.n)[:, row]


OWN = (Cosine, Ramp, EverySecondRow)


def test_own_kernels_means_and_policies_are_given_to_load(tmp_path):
    path, prior = tmp_path / "model", Prior(0.7 * Cosine(1.5) + RBF(2.0), Ramp())
    saved = condition(prior, DATA.X, DATA.y, 0.1, EverySecondRow(), MaxActions(4))
    save(path, saved)
    for missing in OWN:
        with pytest.raises(
            StorageError,
            match=r"model: the file needs the class "
            rf"{missing.__name__}.*classes=\[{missing.__name__}",
        ):
            load(path, classes=[cls for cls in OWN if cls is not missing])
    loaded, _ = load(path, classes=OWN)
    assert_same(loaded.refine(stop=MaxActions(5)), saved.refine(stop=MaxActions(5)))


def test_a_class_that_means_something_else_by_now_is_refused(tmp_path, monkeypatch):
    save(tmp_path / "m", condition(Prior(Cosine()), DATA.X, DATA.y, 0.1, RandomAction(), MaxActions(4)))
    monkeypatch.setattr(Cosine, "factor", 2.0)
    with pytest.raises(StorageError, match="class Cosine gives other numbers"):
        load(tmp_path / "m", classes=[Cosine])


def test_what_cannot_be_stored_is_refused_by_name_and_nothing_is_written(tmp_path):
    class Plain(Kernel):
        def __call__(self, X0, X1):
            return Matern32(0.5)(X0, X1)

    Impostor = dataclass(frozen=True, eq=False)(type("RBF", (Matern32,), {}))

    def refuse(kernel, mean, message):
        saved = condition(Prior(kernel, mean), DATA.X, DATA.y, 0.1, RandomAction(), MaxActions(4))
        with pytest.raises(InputError, match=message):
            save(tmp_path / "m", saved)

    refuse(0.5 * Plain(), None, r"kernel\.kernel is .*Plain.*classes=\[")
    refuse(Impostor(0.5), None, "kernel is of a class named RBF")
    refuse(RBF(1.0), lambda X: X[:, 0], r"mean is .*lambda.*frozen dataclass")
    with pytest.raises(InputError, match="rename"):
        load(tmp_path / "m", classes=[Impostor])
    with pytest.raises(InputError, match="expected dataclasses"):
        load(tmp_path / "m", classes=[Plain])
    assert not list(tmp_path.iterdir())


def test_a_policy_with_something_that_cannot_be_stored_is_left_out(tmp_path):
    class Twice:
        def solve(self, V):
            return 2.0 * V

    loaded = through_a_file(fitted(ConjugateGradient(preconditioner=Twice()), 4), tmp_path)
    with pytest.raises(InputError, match=r"policy\.preconditioner is .*Twice"):
        loaded.refine(stop=MaxActions(1))


# The file itself.


def test_the_caller_gets_back_what_it_wrote_about_the_model(tmp_path):
    about = {
        "names": ["a", "b", "\udc80é"],
        "scale": 0.1,
        "big": 10**30,
        "none": None,
        "nested": {"yes": True},
        "digest": "0" * 64,
    }
    save(tmp_path / "m", fitted(RandomAction()), about)
    assert load(tmp_path / "m")[1] == about
    save(tmp_path / "m", fitted(RandomAction()))
    assert load(tmp_path / "m")[1] == {}


@pytest.mark.parametrize(
    "about", [{1: "a"}, {"a": (1, 2)}, {"a": np.ones(2)}, {"a": float("nan")}, ["a"], {"a": {1}}], ids=str
)
def test_what_would_not_come_back_is_refused(about, tmp_path):
    with pytest.raises(InputError, match="about"):
        save(tmp_path / "m", fitted(RandomAction()), about)
    assert not list(tmp_path.iterdir())


def test_the_file_is_safetensors_with_one_metadata_key_of_sorted_json_and_the_same_bytes_each_time(tmp_path):
    saved = fitted(PseudoInput(block_size=5))
    for name in ("one", "two"):
        save(tmp_path / name, saved, {"z": 1, "a": 2})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with safe_open(tmp_path / "one", framework="np") as file:
        (text,) = file.metadata().values()
        assert np.array_equal(file.get_tensor("X"), saved.problem.X)
        assert np.array_equal(file.get_tensor("KQ").T, saved.state.basis.KQ.between(0, 10))
    header = json.loads(text)
    assert text == json.dumps(header, sort_keys=True, separators=(",", ":"))
    assert (header["format"], header["kind"]) == (1, "model")
    assert header["value"]["problem"]["kernel"] == {
        "type": "Matern52",
        "fields": {"lengthscale": {"array": "kernel.lengthscale"}},
    }


def test_arrays_in_any_order_of_memory_are_stored_rightly(tmp_path):
    wide = np.asfortranarray(np.random.default_rng(0).uniform(0.5, 1.0, (4, 6)))
    prior = Prior(Matern32(wide[::2, 1]), LinearMean(wide[1:3, ::3]))
    data = make_data(30, targets=2)
    Z = np.asfortranarray(make_data(40).X)[::-2]
    saved = condition(
        prior, data.X[::-1], np.asfortranarray(data.y), row_noise(60)[::2], PseudoInput(Z, 3), MaxActions(4)
    )
    loaded = through_a_file(saved, tmp_path)
    assert_same(loaded.refine(stop=MaxActions(4)), saved.refine(stop=MaxActions(4)))


def test_a_posterior_without_computation_is_the_prior(tmp_path):
    saved = fitted(RandomAction(), 0)
    saved = Posterior(saved.problem, State.start(saved.problem, 5))
    loaded = through_a_file(saved, tmp_path)
    assert_same(loaded, saved)
    assert_same(loaded.refine(stop=MaxActions(3)), saved.refine(stop=MaxActions(3)))
    predicting = through_a_file(saved, tmp_path, refinable=False)
    assert np.array_equal(predicting.var(AT), saved.var(AT))
    assert np.array_equal(predicting.local(4).var(AT), saved.local(4).var(AT))


def test_where_the_engine_is_missing_another_serves(tmp_path, monkeypatch):
    saved = fitted(RandomAction(), engine="jax")
    save(tmp_path / "m", saved)
    found = engines.get

    def get(name):
        if name == "jax":
            raise ImportError("no jax here")
        return found(name)

    monkeypatch.setattr(engines, "get", get)
    loaded, _ = load(tmp_path / "m")
    assert loaded.problem.gram.engine.name != "jax"
    np.testing.assert_allclose(loaded.var(AT), saved.var(AT), rtol=1e-10)


def test_an_engine_of_a_function_is_not_stored_and_another_serves(tmp_path):
    engine = engines.from_function(lambda kernel, X0, X1, V: kernel(X0, X1) @ V)
    saved = fitted(RandomAction(), engine=engine)
    np.testing.assert_allclose(through_a_file(saved, tmp_path).mean(AT), saved.mean(AT), rtol=1e-10)


def test_a_float32_model_of_rank_n_still_says_what_rounding_added(tmp_path):
    """Rank n is not exact where rounding counts: such a file keeps what `decompose` and `certify` read."""
    from itergp import Compute, Matern32, MaxActions, Prior, RandomAction, condition
    from itergp.posterior.uncertainty import is_exact
    from itergp.storage import load, save

    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (60, 2))
    posterior = condition(
        Prior(Matern32(0.5)),
        X,
        X[:, 0],
        1e-5,
        RandomAction(block_size=20),
        MaxActions(60),
        Compute(dtype="float32"),
    )
    assert posterior.rank == 60
    assert not is_exact(posterior)
    save(tmp_path / "model", posterior, refinable=False)
    loaded, _ = load(tmp_path / "model")
    for method in ("exact", "estimate"):
        before, after = posterior.decompose(X[:5], method), loaded.decompose(X[:5], method)
        np.testing.assert_array_equal(after.computational, before.computational)
    np.testing.assert_array_equal(
        loaded.certify(X[:5]).variance_lower, posterior.certify(X[:5]).variance_lower
    )


def test_sizes_are_those_of_the_arrays_in_the_file(tmp_path):
    """Largest first; together with the text they make up the file."""
    data = make_data(60)
    posterior = condition(Prior(Matern32(0.5)), data.X, data.y, 0.1, stop=MaxActions(20))
    save(tmp_path / "model", posterior)
    found = itergp.storage.sizes(tmp_path / "model")
    with safe_open(tmp_path / "model", framework="np") as contents:
        expected = {name: contents.get_tensor(name).nbytes for name in contents.keys()}  # noqa: SIM118
    assert found == expected
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found["X"] == data.X.nbytes


def test_sizes_of_what_is_no_model_are_refused(tmp_path):
    (tmp_path / "text").write_text("no model")
    for name in ("text", "missing"):
        with pytest.raises(StorageError, match=name):
            itergp.storage.sizes(tmp_path / name)
