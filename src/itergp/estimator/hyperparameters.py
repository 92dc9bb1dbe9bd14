"""Hyper-parameters of a fit: learned or given."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.errors import InputError, LearningWarning
from itergp.estimator.clock import Clock
from itergp.estimator.names import HETEROSCEDASTIC, ROBUST, Translated, free, is_learned
from itergp.estimator.progress import Watch
from itergp.estimator.schedules import learning_seconds
from itergp.fitted.fit import Free, Noise
from itergp.learning.candidates import Considered
from itergp.learning.choosing import choose_rows
from itergp.learning.endings import Ending, Learning
from itergp.learning.run import Learned
from itergp.learning.stages import METHODS
from itergp.learning.training import learn_rows
from itergp.learning.varying import NoiseFunction
from itergp.linalg.compute import Compute
from itergp.prior.gp import Prior
from itergp.prior.kernel import Kernel
from itergp.prior.means import LinearMean, Mean
from itergp.solver.problem import centred, check_kernel_values
from itergp.validate import as_float64, choice

START_NOISE = 0.1  # of the targets' variance, where learning begins
GIVEN = Learning(Ending.NOT_ASKED)
NO_FEATURES = (
    "Nothing can be learned from X: every feature has the same value in all rows (to 12 digits), so all have "
    "the same prediction, about the mean of y. Check that X has the right columns, or add rows by `fit` or "
    "`partial_fit`."
)
NO_GROUPS = (
    "groups were given, but have no effect on learning: there is no choice between kernels to hold them out "
    "for (conformal intervals do). Set kernel='auto' and learn='auto' for one, or leave them out."
)


@dataclass(frozen=True, eq=False)
class Plan:
    """What to fit and how, in the units of the fit."""

    data: Rows
    start: Translated
    mean: Mean
    noise: Any  # a variance, one per target, or one of LEARNED_NOISE
    learn: Any
    policy: Any  # "auto" where it is chosen after learning, by the time that is left
    compute: Compute
    seed: int
    learnable: np.ndarray | bool = (
        True  # whether a target tells something: values that differ; one flag for each
    )
    varied: bool = True  # whether any feature varies
    groups: np.ndarray | None = None  # of each row: which are held out together when a model is chosen

    @property
    def learns(self) -> bool:
        """Whether anything is to be learned."""
        return self.free.kernel

    @property
    def varies(self) -> bool:
        """Whether noise may vary with the inputs."""
        return isinstance(self.noise, str) and self.noise == HETEROSCEDASTIC

    @property
    def robust(self) -> bool:
        """Whether some rows may be outliers."""
        return isinstance(self.noise, str) and self.noise == ROBUST

    @property
    def free(self) -> Free:
        return free(self.start, self.method != "none", self.noise)

    @property
    def told(self) -> np.ndarray:
        """The targets used for learning. The others would only pull the shared kernel towards zero."""
        return np.flatnonzero(np.broadcast_to(self.learnable, self.data.t))

    @property
    def method(self) -> str:
        """The learning method; "none" if nothing is learned."""
        if isinstance(self.learn, bool | np.bool_):
            return "auto" if self.learn else "none"
        return choice("learn", self.learn, METHODS)


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Learned or given values."""

    kernel: Kernel
    noise: Noise
    learned: Learned | None = None
    learning: Learning = GIVEN
    candidates: tuple[Considered, ...] = ()  # where the kernel was chosen
    function: NoiseFunction | None = None  # where noise varies
    outliers: np.ndarray | None = None  # the factor on the noise of each observation, where some are outliers


def hyperparameters(plan: Plan, clock: Clock, watch: Watch) -> Hyperparameters:
    """Learn what is to be learned, within its share of the time; keep the rest as given."""
    check_kernel_values(plan.start.kernel, plan.data.X)
    told = centred_rows(plan, plan.data)
    unit = told.unit  # learning has weights of mean 1, and so a noise of the size of y
    told = told.per(unit)
    noise, learn_noise = _first_noise(plan, told, unit)
    as_given = Hyperparameters(plan.start.kernel, noise)
    if not plan.learns:
        if learn_noise:
            raise InputError(
                "kernel: its hyper-parameters are fixed, but the noise is not; set noise=<number> "
                "or learn=False."
            )
        return as_given
    if not np.any(plan.learnable):
        warnings.warn(_nothing_to_learn(plan), LearningWarning, stacklevel=5)
        return replace(as_given, learning=Learning(Ending.NOTHING_TO_LEARN))
    if not plan.varied:
        warnings.warn(NO_FEATURES, LearningWarning, stacklevel=5)
    if plan.groups is not None and not (plan.start.chosen and plan.method == "auto"):
        warnings.warn(NO_GROUPS, LearningWarning, stacklevel=5)
    learned = _learned(plan, told, noise / unit, learn_noise, clock, watch)
    if learned is None:
        never = Learning(Ending.INTERRUPTED)
        warnings.warn(never.advice, LearningWarning, stacklevel=5)
        return replace(as_given, learning=never)
    if learned.learning.falls_short:
        warnings.warn(learned.learning.advice, LearningWarning, stacklevel=5)
    if np.ndim(noise):
        noise = np.array(noise)  # that of a target which tells nothing stays as it began
        noise[plan.told] = unit * learned.noise
    else:
        noise = unit * learned.noise
    return Hyperparameters(learned.kernel, noise, learned, learned.learning, learned.candidates)


def _nothing_to_learn(plan: Plan) -> str:
    """Said of data that hold no information."""
    what = (
        "y is a plane in X"
        if isinstance(plan.mean, LinearMean)
        else "y has the same value in every row (to 12 digits)"
    )
    what = "there is one row" if plan.data.total == 1 else what
    return (
        f"Nothing can be learned: {what}. Kernel and noise are starting values, and so are all standard "
        "deviations. Check that y is the right column, or add rows by `fit` or `partial_fit`."
    )


def centred_rows(plan: Plan, data: Rows) -> Rows:
    """The rows that learning is from: y less its prior mean, of the targets that tell something."""
    b = centred(Prior(plan.start.kernel, plan.mean), data.X, data.y)
    return replace(data, y=b).of_targets(plan.told).to_learn_from()


def of_told(plan: Plan, noise: Any) -> Any:
    """The noise of the targets that tell something."""
    return np.asarray(noise)[plan.told] if np.ndim(noise) else noise


def _learned(
    plan: Plan, told: Rows, noise: Noise, learn_noise: bool, clock: Clock, watch: Watch
) -> Learned | None:
    """Learn from the informative targets, within a share of the time; None after Ctrl-C."""

    if watch.interrupts.asked:
        return None
    seconds = clock.left().seconds
    try:
        with watch.interrupts.raised():
            first = _one_or_each(np.asarray(noise)[plan.told]) if np.ndim(noise) else noise
            how: dict[str, Any] = {
                "seconds": None
                if seconds is None
                else learning_seconds(plan.policy, plan.data.n, seconds) / (1 + plan.varies + plan.robust),
                "seed": plan.seed,
                "callback": watch.learned,
                "compute": plan.compute,
            }
            if plan.start.chosen:
                return choose_rows(told, first, learn_noise, plan.method, groups=plan.groups, **how)
            return learn_rows(
                told, plan.start.kernel, first, learn_noise, plan.method, fixed=plan.start.held, **how
            )
    except KeyboardInterrupt:
        return None


def _first_noise(plan: Plan, told: Rows, unit: float) -> tuple[Noise, bool]:
    """The given noise or the initial value for learning, and whether it is to be learned."""
    given = _given_noise(plan.noise, plan.start.noise, plan.data.t)
    if given is not None:
        return given, False
    if plan.method != "none" and not plan.start.keeps_noise():
        return _start_noise(plan, told, unit), True
    if plan.start.noise is None:
        raise InputError(
            f"noise is {plan.noise!r} but learn is False; set the noise variance to a number, such as "
            "noise=0.01."
        )
    return plan.start.noise, False


def _start_noise(plan: Plan, told: Rows, unit: float) -> Noise:
    """Initial noise for learning: one per target, or a number for a single target."""
    if plan.start.noise is not None:
        return _one_or_each(np.full(plan.data.t, plan.start.noise))
    sizes = np.ones(plan.data.t)
    if plan.told.size:
        sizes[plan.told] = told.variances
    return _one_or_each(unit * START_NOISE * sizes)


def _one_or_each(values: np.ndarray) -> Noise:
    """A number if there is a single target."""
    return float(values[0]) if values.size == 1 else values


def _given_noise(noise: Any, white: float | None, targets: int) -> Noise | None:
    """The given noise variance, if any: a number, or one per target."""
    if is_learned(noise):
        return None
    listed = targets > 1 and isinstance(noise, list | tuple | np.ndarray)
    several = listed and as_float64("noise", noise).shape == (targets,)
    if not several and (
        isinstance(noise, bool) or not isinstance(noise, int | float | np.integer | np.floating)
    ):
        each = f", or one per target (there are {targets})" if targets > 1 else ""
        raise InputError(
            f"noise is {noise!r}; expected 'learn', 'heteroscedastic', 'robust' or a variance >= 0{each}. "
            "For one value per row, use sample_weight in fit, or itergp.condition."
        )
    values = as_float64("noise", noise)
    if not ((values >= 0) & (values < np.inf)).all():
        raise InputError(f"noise is {noise!r}; expected 'learn' or a variance: a finite number >= 0.")
    if white is not None:
        raise InputError(
            "noise is given twice: as a number and as a WhiteKernel in the kernel. Remove one of them."
        )
    return values if several else float(noise)
