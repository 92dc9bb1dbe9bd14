"""Bad input: the right error, whose message names the argument and says what to do, before any pass over
K."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import KERNELS, make_data
from itergp import (
    RBF,
    BlockKrylov,
    Compute,
    ConjugateGradient,
    Constant,
    Eigenvector,
    InputError,
    ItergpError,
    Kernel,
    KernelError,
    Linear,
    MarginalVariance,
    Matern32,
    MaxActions,
    MaxPasses,
    Periodic,
    PolicyError,
    Posterior,
    Prior,
    Problem,
    PseudoInput,
    RandomAction,
    RationalQuadratic,
    ResidualNorm,
    Schedule,
    SparseBlock,
    TimeBudget,
    UnitVector,
    condition,
    solve,
)
from itergp.linalg.gram import Gram

DATA, PRIOR = make_data(20), Prior(KERNELS["matern32"])
X, Y, AT = DATA.X, DATA.y, DATA.X_new


def at(array, index, value):
    changed = np.array(array)
    changed[index] = value
    return changed


def fit(prior=PRIOR, X=X, y=Y, noise=0.1, policy=None, stop=MaxActions(4), compute=Compute(), **more):
    return condition(prior, X, y, noise, policy or RandomAction(), stop, compute, **more)


def act(actions):
    return lambda: fit(policy=lambda state: actions)


@dataclass(frozen=True, eq=False)
class Bad(Kernel):
    """A kernel with one fault."""

    fault: str = field(metadata={"static": True})

    def __call__(self, X0, X1):
        K = np.exp(-((X0[:, :1] - X1[:, :1].T) ** 2))
        faults = {
            "negative": -K,
            "indefinite": np.abs(X0[:, :1] - X1[:, :1].T),
            "nan": K * np.nan,
            "shape": K[:-1],
        }
        return faults.get(self.fault, K * (1 + 0.1 * X0[:, 1:]) if self.fault == "asymmetric" else K)

    def diagonal(self, X):
        size = {"negative": -1.0, "indefinite": 0.0, "diagonal": 2.0}.get(self.fault, 1.0)
        return np.full(len(X), size) * (1 + 0.1 * X[:, 1] if self.fault == "asymmetric" else 1.0)


CONSTRUCTION = {
    # arrays
    "X with NaN": (
        lambda: fit(X=at(X, (3, 1), np.nan)),
        InputError,
        r"X has 1 entries.*first at \(3, "
        r"1\).*Drop or impute",
    ),
    "X with infinity": (
        lambda: fit(X=at(X, (3, 1), np.inf)),
        InputError,
        "X has 1 entries that are not finite",
    ),
    "y with NaN": (lambda: fit(y=at(Y, 7, np.nan)), InputError, "y has 1 entries.*first at 7"),
    "noise with NaN": (lambda: fit(noise=np.nan), InputError, "noise has 1 entries"),
    "noise with infinity": (lambda: fit(noise=at(np.ones(20), 2, np.inf)), InputError, "noise has 1 entries"),
    "X of three axes": (lambda: fit(X=X[None]), InputError, r"X has shape \(1, 20, 2\); expected \(n, d\)"),
    "X a number": (lambda: fit(X=3.0), InputError, r"X has shape \(\)"),
    "X without rows": (lambda: fit(X=X[:0], y=Y[:0]), InputError, "X has shape.*at least one row"),
    "X without features": (lambda: fit(X=X[:, :0]), InputError, "X has shape.*one feature"),
    "X as text": (lambda: fit(X=[["a", "b"]] * 20), InputError, "X has dtype.*Encode or convert"),
    "X as objects": (lambda: fit(X=np.array([[None, 1.0]] * 20)), InputError, "X has dtype object"),
    "X complex": (lambda: fit(X=X + 1j), InputError, "X has dtype complex128"),
    "X ragged": (lambda: fit(X=[[1.0, 2.0], [3.0]] * 10), InputError, "X (cannot be read|has dtype)"),
    "X masked": (lambda: fit(X=np.ma.masked_less(X, 0)), InputError, "X is a masked array.*fill"),
    "X sparse": (lambda: fit(X=sp.csr_array(X)), InputError, r"X is a sparse matrix.*toarray"),
    "X missing": (lambda: fit(X=None), InputError, "X has dtype object"),
    "y too short": (lambda: fit(y=Y[:-1]), InputError, r"y has shape \(19,\); expected \(20,\)"),
    "y of three axes": (lambda: fit(y=Y[:, None, None]), InputError, "y has shape"),
    "y without targets": (lambda: fit(y=np.zeros((20, 0))), InputError, "y has shape"),
    "y as text": (lambda: fit(y=["a"] * 20), InputError, "y has dtype"),
    "y masked": (lambda: fit(y=np.ma.masked_less(Y, 0)), InputError, "y is a masked array"),
    "noise negative": (lambda: fit(noise=-0.1), InputError, r"noise is negative.*variance"),
    "noise negative in a row": (lambda: fit(noise=at(np.ones(20), 4, -1.0)), InputError, "noise is negative"),
    "noise too short": (
        lambda: fit(noise=np.ones(19)),
        InputError,
        r"noise has shape \(19,\).*one value per "
        r"row",
    ),
    "noise a matrix": (lambda: fit(noise=np.eye(20)), InputError, "noise has shape"),
    "noise as text": (lambda: fit(noise="small"), InputError, "noise has dtype"),
    "noise missing": (lambda: fit(noise=None), InputError, "noise has dtype"),
    # priors
    "prior a kernel": (lambda: fit(prior=RBF()), InputError, r"prior is.*expected Prior"),
    "kernel a number": (lambda: Prior(1.0), InputError, "kernel is 1.0"),
    "mean a number": (lambda: Prior(RBF(), 1.0), InputError, "mean is 1.0"),
    "mean of a wrong shape": (
        lambda: fit(prior=Prior(RBF(), lambda X: X)),
        InputError,
        "prior mean has shape",
    ),
    "mean not finite": (
        lambda: fit(prior=Prior(RBF(), lambda X: X[:, 0] * np.nan)),
        InputError,
        "prior mean is not finite",
    ),
    "lengthscale zero": (
        lambda: RBF(0.0),
        InputError,
        r"RBF.lengthscale is 0.0; expected finite values "
        r"above 0",
    ),
    "lengthscale negative": (lambda: Matern32([1.0, -1.0]), InputError, "Matern32.lengthscale"),
    "lengthscale NaN": (lambda: RBF(np.nan), InputError, "RBF.lengthscale"),
    "lengthscale a matrix": (lambda: RBF(np.ones((2, 2))), InputError, "RBF.lengthscale has shape"),
    "lengthscale empty": (lambda: RBF([]), InputError, "RBF.lengthscale has shape"),
    "lengthscale text": (lambda: RBF("long"), InputError, "RBF.lengthscale"),
    "lengthscale missing": (lambda: RBF(None), InputError, "RBF.lengthscale"),
    "lengthscale true": (lambda: RBF(True), InputError, "RBF.lengthscale"),
    "lengthscale of a wrong length": (
        lambda: fit(prior=Prior(RBF([1.0, 2.0, 3.0]))),
        InputError,
        "RBF.lengthscale has 3 values",
    ),
    "linear lengthscale of a wrong length": (
        lambda: fit(prior=Prior(Linear([1.0] * 3))),
        InputError,
        "Linear.lengthscale",
    ),
    "period of a wrong length": (
        lambda: fit(prior=Prior(Periodic(period=[1.0] * 3))),
        InputError,
        "Periodic.period",
    ),
    "alpha a vector": (lambda: RationalQuadratic(alpha=[1.0, 2.0]), InputError, "RationalQuadratic.alpha"),
    "constant negative": (lambda: Constant(-1.0), InputError, "Constant.value"),
    "scale negative": (lambda: -1.0 * RBF(), InputError, "scale of a kernel"),
    "scale a vector": (lambda: RBF() * [1.0, 2.0], InputError, "scale of a kernel has shape"),
    "columns empty": (lambda: RBF().on([]), InputError, "columns of"),
    "columns repeated": (lambda: RBF().on([0, 0]), InputError, "columns of"),
    "columns negative": (lambda: RBF().on([-1]), InputError, "columns of"),
    "columns as text": (lambda: RBF().on("ab"), InputError, "columns of"),
    "columns that are not there": (lambda: fit(prior=Prior(RBF().on([2]))), InputError, "needs column 2"),
    "kernel negative": (
        lambda: fit(prior=Prior(Bad("negative"))),
        KernelError,
        "Bad is not positive semi-definite",
    ),
    "kernel indefinite": (
        lambda: fit(prior=Prior(Bad("indefinite"))),
        KernelError,
        "Bad is not positive semi-definite",
    ),
    "kernel not symmetric": (
        lambda: fit(prior=Prior(Bad("asymmetric"))),
        KernelError,
        "Bad is not symmetric",
    ),
    "kernel with a wrong diagonal": (
        lambda: fit(prior=Prior(Bad("diagonal"))),
        KernelError,
        r"Bad.diagonal\(X\).*correct it",
    ),
    "kernel with NaN": (
        lambda: fit(prior=Prior(Bad("nan"))),
        KernelError,
        "Bad returned values that are not finite",
    ),
    "kernel of a wrong shape": (lambda: fit(prior=Prior(Bad("shape"))), KernelError, "Bad returned shape"),
    # compute
    "dtype unknown": (
        lambda: Compute(dtype="float16"),
        InputError,
        "Compute.dtype is 'float16'; expected one of",
    ),
    "dtype a type": (lambda: Compute(dtype=np.float32), InputError, "Compute.dtype"),
    "dtype an array": (lambda: Compute(dtype=np.ones(2)), InputError, "Compute.dtype"),
    "engine unknown": (lambda: Compute(engine="gpu"), InputError, "Compute.engine is 'gpu'; expected one of"),
    "engine an object": (lambda: Compute(engine=3), InputError, "Compute.engine is 3"),
    "cache as text": (lambda: Compute(cache="much"), InputError, "Compute.cache is 'much'"),
    "cache negative": (lambda: Compute(cache=-1), InputError, "Compute.cache"),
    "cache true": (lambda: Compute(cache=True), InputError, "Compute.cache"),
    "threads zero": (lambda: Compute(threads=0), InputError, "Compute.threads"),
    "compute a string": (lambda: fit(compute="gpu"), InputError, "compute is 'gpu'"),
    # policies
    "policy a string": (lambda: fit(policy="cg"), InputError, "policy is 'cg'"),
    "block of zero": (lambda: RandomAction(block_size=0), InputError, "RandomAction.block_size is 0"),
    "block of a half": (lambda: BlockKrylov(0.5), InputError, "BlockKrylov.block_size"),
    "order unknown": (lambda: UnitVector("reverse"), InputError, "UnitVector.order is 'reverse'"),
    "order negative": (lambda: UnitVector([-1]), InputError, "UnitVector.order"),
    "order of floats": (lambda: UnitVector([0.5]), InputError, "UnitVector.order"),
    "order empty": (lambda: UnitVector([]), InputError, "UnitVector.order"),
    "order beyond the rows": (
        lambda: fit(policy=UnitVector([20])),
        InputError,
        "UnitVector.order names row 20",
    ),
    "inducing points with NaN": (
        lambda: PseudoInput([[np.nan, 1.0]]),
        InputError,
        "PseudoInput.inducing_points",
    ),
    "inducing points zero": (lambda: PseudoInput(0), InputError, "PseudoInput.inducing_points"),
    "inducing points of a wrong width": (
        lambda: fit(policy=PseudoInput(np.ones((4, 3)))),
        InputError,
        "inducing_points has 3",
    ),
    "form unknown": (lambda: ConjugateGradient(form="x"), InputError, "ConjugateGradient.form"),
    "preconditioner without solve": (lambda: ConjugateGradient(3), InputError, r"preconditioner is 3.*solve"),
    "eigenvectors of no rank": (lambda: Eigenvector(rank=0), InputError, "Eigenvector.rank"),
    "groups empty": (lambda: SparseBlock([]), InputError, "SparseBlock.groups"),
    "groups zero": (lambda: SparseBlock(0), InputError, "SparseBlock.groups"),
    "groups beyond the rows": (lambda: fit(policy=SparseBlock([[0, 20]])), InputError, "SparseBlock.groups"),
    "values unknown": (lambda: SparseBlock(3, values="x"), InputError, "SparseBlock.values"),
    "values of a wrong length": (
        lambda: fit(policy=SparseBlock(3, values=np.ones(5))),
        InputError,
        "SparseBlock.values",
    ),
    "schedule empty": (lambda: Schedule(), InputError, r"Schedule\(\) is empty"),
    "schedule without numbers": (lambda: Schedule(UnitVector()), InputError, "Schedule entry"),
    "schedule of a string": (lambda: Schedule(("cg", 3)), InputError, "Schedule entry"),
    "schedule with a negative number": (
        lambda: Schedule((UnitVector(), -3)),
        InputError,
        "number of actions is -3",
    ),
    "schedule in a schedule": (
        lambda: Schedule((Schedule((UnitVector(), 3)), 3)),
        InputError,
        "Schedule entry",
    ),
    "schedule of triples": (lambda: Schedule((UnitVector(), 3, 4)), InputError, "Schedule entry"),
    "action of zeros": (act(np.zeros(20)), PolicyError, "action of zeros.*Return None"),
    "block with a column of zeros": (
        act(np.eye(20)[:, :3] * [1, 0, 1]),
        PolicyError,
        "column 1 of the block",
    ),
    "sparse action of zeros": (act(sp.csc_array((20, 2))), PolicyError, "action of zeros"),
    "action with NaN": (act(np.full(20, np.nan)), PolicyError, "returned actions that are not finite"),
    "action too long": (
        act(np.ones(21)),
        PolicyError,
        r"returned actions of shape \(21, 1\); expected "
        r"\(20,\)",
    ),
    "action of three axes": (act(np.ones((20, 1, 1))), PolicyError, "returned actions of shape"),
    "action block of no width": (act(np.ones((20, 0))), PolicyError, "returned actions of shape"),
    "action as text": (act("north"), PolicyError, "returned str of dtype"),
    "action complex": (act(np.ones(20) * (1 + 1j)), PolicyError, "complex128; expected real numbers"),
    "sparse action complex": (act(sp.csc_array(np.eye(20) * 1j)), PolicyError, "complex128"),
    "action ragged": (act([[1.0], [1.0, 2.0]] * 10), PolicyError, "did not return an array"),
    "actions as objects": (act([None] * 20), PolicyError, "dtype object"),
    # stopping, seeds
    "stop a number": (lambda: fit(stop=5), InputError, "stop is 5; expected a criterion"),
    "actions negative": (lambda: MaxActions(-1), InputError, "MaxActions.number is -1"),
    "actions a fraction": (lambda: MaxActions(1.5), InputError, "MaxActions.number"),
    "actions true": (lambda: MaxActions(True), InputError, "MaxActions.number"),
    "passes negative": (lambda: MaxPasses(-1), InputError, "MaxPasses.number"),
    "seconds zero": (lambda: TimeBudget(0), InputError, "TimeBudget.seconds"),
    "seconds as text": (lambda: TimeBudget("30s"), InputError, "TimeBudget.seconds"),
    "tolerance negative": (lambda: ResidualNorm(-1e-3), InputError, "ResidualNorm.rtol"),
    "tolerance NaN": (lambda: ResidualNorm(atol=np.nan), InputError, "ResidualNorm.atol"),
    "ratio zero": (lambda: MarginalVariance(0.0), InputError, "MarginalVariance.ratio"),
    "criterion or number": (lambda: MaxActions(3) | 5, InputError, "5 is not a stopping criterion"),
    "seed negative": (lambda: fit(seed=-1), InputError, "seed is -1"),
    "seed a fraction": (lambda: fit(seed=0.5), InputError, "seed is 0.5"),
    "state of another problem": (
        lambda: solve(Problem(PRIOR, X, Y, 0.1), UnitVector(), MaxActions(1), fit(policy=UnitVector()).state),
        InputError,
        "another problem",
    ),
}

USE = {
    "points of a wrong width": (lambda p: p.mean(AT[:, :1]), "X has 1 features; expected 2"),
    "points with NaN": (lambda p: p.var(at(AT, 0, np.nan)), "X has 2 entries"),
    "no points": (lambda p: p.var(AT[:0]), "X has shape"),
    "points as text": (lambda p: p.mean("here"), "X has"),
    "second points of a wrong width": (lambda p: p.cov(AT, AT[:, :1]), "X1 has 1 features"),
    "ranks beyond": (lambda p: p.path(AT, [99]), "ranks is"),
    "noise of a wrong length": (lambda p: p.predictive_var(AT, np.ones(3)), "noise has shape"),
    "noise negative": (lambda p: p.predictive_var(AT, -1.0), "noise is negative"),
    "method unknown": (lambda p: p.decompose(AT, "guess"), "method is 'guess'"),
    "no neighbours": (lambda p: p.local(0), "neighbours is 0"),
    "no draws": (lambda p: p.sample(AT, 0), "size is 0"),
    "no features": (lambda p: p.sample_function(1, features=0), "features is 0"),
    "one probe": (lambda p: p.computational_share(AT, probes=1), "probes is 1"),
    "refine without a criterion": (lambda p: p.refine(stop=10), "stop is 10"),
    "refine with a string": (lambda p: p.refine("cg", MaxActions(2)), "policy is 'cg'"),
    "refine with a bad action": (
        lambda p: p.refine(lambda state: np.zeros(20), MaxActions(2)),
        "action of zeros",
    ),
    "extend by other features": (lambda p: p.extend(AT[:, :1], np.zeros(12)), "X has 1 features"),
    "extend by too few targets": (lambda p: p.extend(AT, np.zeros(11)), "y has shape"),
    "extend by several targets": (lambda p: p.extend(AT, np.zeros((12, 2))), "y has shape"),
    "extend by NaN": (lambda p: p.extend(AT, np.full(12, np.nan)), "y has 12 entries"),
    "extend by negative noise": (lambda p: p.extend(AT, np.zeros(12), noise=-1.0), "noise is negative"),
    "extend with a string": (lambda p: p.extend(AT, np.zeros(12), policy="cg"), "policy is 'cg'"),
}


@pytest.fixture
def no_pass(monkeypatch):
    def multiply(self, V, tick=None):
        raise AssertionError("a pass over K was made")

    monkeypatch.setattr(Gram, "multiply", multiply)


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize("name", CONSTRUCTION)
def test_is_refused_before_any_work(name):
    call, error, words = CONSTRUCTION[name]
    with pytest.raises(error, match=f"(?s){words}") as caught:
        call()
    assert isinstance(caught.value, ItergpError)
    assert len(str(caught.value)) > 25


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return fit()


@pytest.fixture(scope="module")
def before(posterior) -> tuple[Any, ...]:
    return posterior.mean(AT), posterior.var(AT), posterior.refine(stop=MaxActions(3)).var(AT)


@pytest.mark.parametrize("name", USE)
def test_is_refused_and_the_posterior_stays_usable(name, posterior, before, monkeypatch):
    call, words = USE[name]
    with monkeypatch.context() as patch:
        patch.setattr(Gram, "multiply", lambda *_: pytest.fail("a pass over K was made"))
        with pytest.raises(ItergpError, match=f"(?s){words}"):
            call(posterior)
    after = posterior.mean(AT), posterior.var(AT), posterior.refine(stop=MaxActions(3)).var(AT)
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old, new)
