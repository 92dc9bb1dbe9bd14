# The public names of the library, and where each is defined: read at run time too, when a name is first used.

from typing import Final

from itergp import baselines as baselines, datasets as datasets, metrics as metrics, plots as plots
from itergp.errors import (
    ClusterError as ClusterError,
    ForkError as ForkError,
    InputError as InputError,
    InterruptedWarning as InterruptedWarning,
    ItergpError as ItergpError,
    KernelError as KernelError,
    LearningWarning as LearningWarning,
    MemoryLimitError as MemoryLimitError,
    PolicyError as PolicyError,
    PrecisionWarning as PrecisionWarning,
    StorageError as StorageError,
    StorageWarning as StorageWarning,
)
from itergp.estimator import IterGPRegressor as IterGPRegressor
from itergp.linalg.compute import Compute as Compute
from itergp.linalg.engines.dask import DaskEngine as DaskEngine
from itergp.posterior.combined import (
    Posterior as Posterior,
    condition as condition,
)
from itergp.prior.gp import (
    GaussianProcess as GaussianProcess,
    Marginals as Marginals,
    Prior as Prior,
)
from itergp.prior.kernel import Kernel as Kernel
from itergp.prior.linear import Linear as Linear
from itergp.prior.means import (
    ConstantMean as ConstantMean,
    LinearMean as LinearMean,
    Mean as Mean,
    Zero as Zero,
)
from itergp.prior.stationary import (
    RBF as RBF,
    Constant as Constant,
    Matern12 as Matern12,
    Matern32 as Matern32,
    Matern52 as Matern52,
    Periodic as Periodic,
    RationalQuadratic as RationalQuadratic,
    Stationary as Stationary,
)
from itergp.solver.policies import (
    Adversarial as Adversarial,
    BlockKrylov as BlockKrylov,
    ConjugateGradient as ConjugateGradient,
    Eigenvector as Eigenvector,
    Policy as Policy,
    PseudoInput as PseudoInput,
    RandomAction as RandomAction,
    SparseBlock as SparseBlock,
    UnitVector as UnitVector,
)
from itergp.solver.problem import Problem as Problem
from itergp.solver.run import (
    iterate as iterate,
    solve as solve,
)
from itergp.solver.schedule import Schedule as Schedule
from itergp.solver.state import (
    State as State,
    Status as Status,
)
from itergp.solver.stopping import (
    MarginalVariance as MarginalVariance,
    MaxActions as MaxActions,
    MaxPasses as MaxPasses,
    ResidualNorm as ResidualNorm,
    StoppingCriterion as StoppingCriterion,
    TimeBudget as TimeBudget,
)

__version__: Final[str]
