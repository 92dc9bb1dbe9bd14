"""itergp: Gaussian processes that know what they have not computed.

Every approximation to a Gaussian process posterior is wrong by an amount nobody reports. Here each step of computation
is a Bayesian update: an *action* s observes the representer weights v* = (K + N)^{-1} (y - mu) through one product with
the kernel matrix. The posterior that results has a variance which is exactly the *mathematical* uncertainty (finite
data) plus the *computational* uncertainty (finite compute), whenever the computation is stopped.

    from itergp import Prior, Matern32, condition, ConjugateGradient, MaxActions

    prior = Prior(kernel=1.0 * Matern32(lengthscale=0.3))
    posterior = condition(prior, X, y, noise=0.01, policy=ConjugateGradient(), stop=MaxActions(64))
    posterior.mean(X_new), posterior.var(X_new), posterior.decompose(X_new).computational
"""

from itergp.errors import (
    InputError,
    InterruptedWarning,
    ItergpError,
    KernelError,
    MemoryLimitError,
    PolicyError,
    PrecisionWarning,
)
from itergp.linalg.compute import Compute
from itergp.posterior.combined import Posterior, condition
from itergp.prior.gp import GaussianProcess, Prior
from itergp.prior.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)
from itergp.prior.means import ConstantMean, LinearMean, Mean, Zero
from itergp.solver.loop import iterate, solve
from itergp.solver.policies import (
    Adversarial,
    BlockKrylov,
    ConjugateGradient,
    Eigenvector,
    Policy,
    PseudoInput,
    RandomAction,
    Schedule,
    SparseBlock,
    UnitVector,
)
from itergp.solver.problem import Problem
from itergp.solver.state import State, Status
from itergp.solver.stopping import (
    MarginalVariance,
    MaxActions,
    MaxPasses,
    ResidualNorm,
    StoppingCriterion,
    TimeBudget,
)

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "Adversarial",
    "BlockKrylov",
    "Compute",
    "ConjugateGradient",
    "Constant",
    "ConstantMean",
    "Eigenvector",
    "GaussianProcess",
    "InputError",
    "InterruptedWarning",
    "ItergpError",
    "Kernel",
    "KernelError",
    "Linear",
    "LinearMean",
    "MarginalVariance",
    "Matern12",
    "Matern32",
    "Matern52",
    "MaxActions",
    "MaxPasses",
    "Mean",
    "MemoryLimitError",
    "Periodic",
    "Policy",
    "PolicyError",
    "Posterior",
    "PrecisionWarning",
    "Prior",
    "Problem",
    "PseudoInput",
    "RandomAction",
    "RationalQuadratic",
    "ResidualNorm",
    "Schedule",
    "SparseBlock",
    "State",
    "Stationary",
    "Status",
    "StoppingCriterion",
    "TimeBudget",
    "UnitVector",
    "Zero",
    "condition",
    "iterate",
    "solve",
]
