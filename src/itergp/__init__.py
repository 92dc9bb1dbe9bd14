"""itergp: Gaussian processes that know what they have not computed.

Every approximation to a Gaussian process posterior is wrong by an amount nobody reports. Here each step of
computation is a Bayesian update: an *action* s observes the representer weights v* = (K + N)^{-1} (y - mu)
through one product with the kernel matrix. The posterior that results has a variance which is exactly the
*mathematical* uncertainty (finite data) plus the *computational* uncertainty (finite compute), whenever
the computation is stopped.

    from itergp import Prior, Matern32, condition, ConjugateGradient, MaxActions

    prior = Prior(kernel=1.0 * Matern32(lengthscale=0.3))
    posterior = condition(prior, X, y, noise=0.01, policy=ConjugateGradient(), stop=MaxActions(64))
    posterior.mean(X_new), posterior.var(X_new), posterior.decompose(X_new).computational
"""

import importlib
from typing import TYPE_CHECKING, Any

# for type checkers and editors; at run time the names load when first used, so that imports stay fast
if TYPE_CHECKING:
    from itergp import baselines as baselines
    from itergp import datasets as datasets
    from itergp import metrics as metrics
    from itergp import plots as plots
    from itergp.errors import (
        ForkError as ForkError,
    )
    from itergp.errors import (
        InputError as InputError,
    )
    from itergp.errors import (
        InterruptedWarning as InterruptedWarning,
    )
    from itergp.errors import (
        ItergpError as ItergpError,
    )
    from itergp.errors import (
        KernelError as KernelError,
    )
    from itergp.errors import (
        LearningWarning as LearningWarning,
    )
    from itergp.errors import (
        MemoryLimitError as MemoryLimitError,
    )
    from itergp.errors import (
        PolicyError as PolicyError,
    )
    from itergp.errors import (
        PrecisionWarning as PrecisionWarning,
    )
    from itergp.errors import (
        StorageError as StorageError,
    )
    from itergp.errors import (
        StorageWarning as StorageWarning,
    )
    from itergp.estimator.regressor import IterGPRegressor as IterGPRegressor
    from itergp.linalg.compute import Compute as Compute
    from itergp.posterior.combined import Posterior as Posterior
    from itergp.posterior.combined import condition as condition
    from itergp.prior.gp import GaussianProcess as GaussianProcess
    from itergp.prior.gp import Prior as Prior
    from itergp.prior.kernel import Kernel as Kernel
    from itergp.prior.linear import Linear as Linear
    from itergp.prior.means import ConstantMean as ConstantMean
    from itergp.prior.means import LinearMean as LinearMean
    from itergp.prior.means import Mean as Mean
    from itergp.prior.means import Zero as Zero
    from itergp.prior.stationary import RBF as RBF
    from itergp.prior.stationary import Constant as Constant
    from itergp.prior.stationary import Matern12 as Matern12
    from itergp.prior.stationary import Matern32 as Matern32
    from itergp.prior.stationary import Matern52 as Matern52
    from itergp.prior.stationary import Periodic as Periodic
    from itergp.prior.stationary import RationalQuadratic as RationalQuadratic
    from itergp.prior.stationary import Stationary as Stationary
    from itergp.solver.loop import iterate as iterate
    from itergp.solver.loop import solve as solve
    from itergp.solver.policies import (
        Adversarial as Adversarial,
    )
    from itergp.solver.policies import (
        BlockKrylov as BlockKrylov,
    )
    from itergp.solver.policies import (
        ConjugateGradient as ConjugateGradient,
    )
    from itergp.solver.policies import (
        Eigenvector as Eigenvector,
    )
    from itergp.solver.policies import (
        Policy as Policy,
    )
    from itergp.solver.policies import (
        PseudoInput as PseudoInput,
    )
    from itergp.solver.policies import (
        RandomAction as RandomAction,
    )
    from itergp.solver.policies import (
        Schedule as Schedule,
    )
    from itergp.solver.policies import (
        SparseBlock as SparseBlock,
    )
    from itergp.solver.policies import (
        UnitVector as UnitVector,
    )
    from itergp.solver.problem import Problem as Problem
    from itergp.solver.state import State as State
    from itergp.solver.state import Status as Status
    from itergp.solver.stopping import (
        MarginalVariance as MarginalVariance,
    )
    from itergp.solver.stopping import (
        MaxActions as MaxActions,
    )
    from itergp.solver.stopping import (
        MaxPasses as MaxPasses,
    )
    from itergp.solver.stopping import (
        ResidualNorm as ResidualNorm,
    )
    from itergp.solver.stopping import (
        StoppingCriterion as StoppingCriterion,
    )
    from itergp.solver.stopping import (
        TimeBudget as TimeBudget,
    )

__version__ = "0.1.0"

_ROOMS = {
    "itergp.errors": "ForkError InputError InterruptedWarning ItergpError KernelError LearningWarning "
    "MemoryLimitError "
    "PolicyError PrecisionWarning StorageError StorageWarning",
    "itergp.estimator.regressor": "IterGPRegressor",
    "itergp.linalg.compute": "Compute",
    "itergp.posterior.combined": "Posterior condition",
    "itergp.prior.gp": "GaussianProcess Prior",
    "itergp.prior.kernel": "Kernel",
    "itergp.prior.linear": "Linear",
    "itergp.prior.stationary": "RBF Constant Matern12 Matern32 Matern52 Periodic RationalQuadratic "
    "Stationary",
    "itergp.prior.means": "ConstantMean LinearMean Mean Zero",
    "itergp.solver.loop": "iterate solve",
    "itergp.solver.policies": "Adversarial BlockKrylov ConjugateGradient Eigenvector "
    "Policy PseudoInput RandomAction Schedule SparseBlock UnitVector",
    "itergp.solver.problem": "Problem",
    "itergp.solver.state": "State Status",
    "itergp.solver.stopping": "MarginalVariance MaxActions MaxPasses ResidualNorm StoppingCriterion "
    "TimeBudget",
}
_WHERE = {name: room for room, names in _ROOMS.items() for name in names.split()}
# rooms that are used by their own name: itergp.datasets.load("bike")
_MODULES = ("baselines", "datasets", "metrics", "plots")

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _room(f"itergp.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'itergp' has no attribute {name!r}")
    value = getattr(_room(_WHERE[name]), name)
    globals()[name] = value
    return value


def _room(name: str) -> Any:
    """Where address space is limited, the libraries below must fit: they would crash half way."""
    if name == "itergp.errors":
        return importlib.import_module(name)
    libraries = importlib.import_module("itergp.linalg.libraries")
    libraries.require_libraries()
    with libraries.loading():
        return importlib.import_module(name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
