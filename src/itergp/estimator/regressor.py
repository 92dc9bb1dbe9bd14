"""IterGPRegressor: scikit-learn manners, scaling, budgets; no mathematics inside."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from itergp import storage
from itergp.data.rows import Merged, merge_rows, unmerged
from itergp.errors import InputError, InterruptedWarning
from itergp.estimator.budgets import Budget
from itergp.estimator.files import (
    about,
    constructor_parameters,
    fitted_attributes,
    note_learned,
    open_checkpoint,
    restoring,
)
from itergp.estimator.fitting import (
    Clock,
    Hyperparameters,
    Plan,
    believed,
    hyperparameters,
    infer,
    reporter,
    solved,
    stopping,
    update,
)
from itergp.estimator.inputs import (
    FirstRows,
    assign,
    check_flags,
    new_inputs,
    telling,
    training_data,
    unchanged_on_error,
)
from itergp.estimator.names import translate_kernel, translate_mean
from itergp.estimator.progress import (
    CallbackSupportMixin,
    Interrupts,
    Watch,
    watching_interrupts,
    with_callbacks,
)
from itergp.estimator.schedules import policy_for
from itergp.fitted.units import Parts, Scaling, Unscaled
from itergp.linalg.compute import Compute, peak_bytes
from itergp.posterior.combined import Posterior
from itergp.posterior.local import NEIGHBOURS
from itergp.posterior.uncertainty import Certificate
from itergp.prior.gp import Prior
from itergp.solver.problem import centred
from itergp.solver.state import Status, Step
from itergp.validate import Array, count

BATCH_BYTES = 2**29  # of weights at test points, at once


@dataclass(frozen=True)
class Trace:
    """What a fit did: the records of the learning, the steps of the solver, from which action it resumed,
    and the most memory that the process had held by the end of the last call; None for a model from a
    file."""

    learning: tuple[Any, ...] = ()
    steps: tuple[Step, ...] = ()
    resumed_from: int = 0
    peak_bytes: int | None = None


class IterGPRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression under a compute budget, with an uncertainty that says what was not
    computed.

    With `normalize=True`, inputs and targets are standardised, and **kernel, mean and noise are in units
    of the scaled data**: lengthscales in standard deviations of each feature, scale and noise in variances
    of y. Predictions and their uncertainties are in the units of y, always.

    Parameters
    ----------
    kernel : "rbf", "matern12", "matern32", "matern52", "rational-quadratic" or "linear" (with one
        lengthscale per feature: ARD), an itergp kernel, or a scikit-learn kernel (the bounds of its
        hyper-parameters are not taken over).
    mean : "constant", "zero", "linear", or a mean function.
    noise : the variance, one for each of several targets, or "learn": then each target has its own.
    learn : "auto", the name of a method ("neighbours", "exact", "iterative", "sgpr", "elbo", "subset"), or
    False.
    policy : "auto", "cg", "cholesky", "pseudo-input", "eigenvector", "random", "block-krylov", or a policy
        object. "auto" is the exact GP where the budget allows it, else a schedule.
    neighbours : how many training rows each test point acts on in `predict`, on top of the global actions;
        0 for none. "auto": 60, and none where the fit is exact.
    budget : "30s", "5m", "1h" (wall clock of the whole fit, learning included), "200 actions" or a
        stopping criterion (for the inference; learning is then counted too), or None: a default that is
        counted, so that fits repeat exactly.
    dtype, cache, threads : how to compute, as in `itergp.Compute`.
    normalize : standardise inputs and targets.
    merge_duplicates : rows with identical inputs become one with their mean and noise / count; an exact
    reduction.
    checkpoint : a path where long fits write what they have, and from which a killed one resumes.
    random_state : a seed, a RandomState, or None.
    verbose : 1 draws a line that says what is running.

    Attributes
    ----------
    kernel_, noise_ : as learned or given, in units of the scaled data if `normalize`. Several targets
        share the kernel; `noise_` is then an array with one value for each, unless a single number was
        given.
    posterior_ : the `itergp.Posterior` in scaled units; everything below the manners. With one noise for
        each target, a `TargetPosterior`: the same actions, and a posterior for each target in
        `posterior_.each`.
    trace_ : what was done: `learning`, `steps` and `resumed_from`.
    status_ : how the inference ended; `status_.advice` is a sentence.
    learning_ : how learning ended, and after how many iterations; `learning_.advice` is a sentence.
    timings_ : seconds of each part, and in total; with those of `refine` and `partial_fit`.
    scaling_, row_counts_, scatter_ : how the data were scaled; how many rows each merged row stands for;
    their spread.
    first_rows_ : what `partial_fit` needs while the rows are too few to learn from for good, with up to
        1,000 of them as they came; else None.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    posterior_: Any
    first_rows_: FirstRows | None
    timings_: dict[str, float]

    def __init__(
        self,
        kernel: Any = "matern32",
        mean: Any = "constant",
        noise: Any = "learn",
        learn: Any = "auto",
        policy: Any = "auto",
        neighbours: int | str = "auto",
        budget: Any = None,
        dtype: str = "auto",
        cache: int | str = "auto",
        threads: int | None = None,
        normalize: bool = True,
        merge_duplicates: bool = True,
        checkpoint: Any = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.learn = learn
        self.policy = policy
        self.neighbours = neighbours
        self.budget = budget
        self.dtype = dtype
        self.cache = cache
        self.threads = threads
        self.normalize = normalize
        self.merge_duplicates = merge_duplicates
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    # Fitting.

    @with_callbacks
    def fit(self, X: Any, y: Any) -> "IterGPRegressor":
        """Learn hyper-parameters and condition on the data, within the budget. Ctrl-C leaves a valid
        model."""
        with unchanged_on_error(self), watching_interrupts() as interrupts:
            clock = Clock(Budget.parse(self.budget))
            self._fit_rows(
                *training_data(self, X, y, reset=True),
                clock,
                interrupts,
                self.checkpoint,
                self._callback_root(),
            )
        return self._told_if_interrupted()

    def partial_fit(self, X: Any, y: Any) -> "IterGPRegressor":
        """The first call is `fit`. Later ones keep scaling and hyper-parameters, append the rows and act
        on them.

        While fewer than 100 values of some target differ from their median, these are provisional: each
        time that such rows have doubled, all rows are fitted anew; and so they are when a feature that was
        constant begins to vary. A row with known inputs merges into the old one, where `merge_duplicates`.
        The budget is that of each call.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        with unchanged_on_error(self), watching_interrupts() as interrupts:
            clock = Clock(Budget.parse(self.budget))
            X, y = training_data(self, X, y, reset=False)
            if y.shape[1:] != self.posterior_.problem.y.shape[1:]:
                raise InputError(
                    f"y has shape {y.shape}; expected {len(y)} rows of {self.scaling_.y_mean.size} targets, "
                    "as in fit."
                )
            first = None if self.first_rows_ is None else self.first_rows_.joined(X, y, self._observations)
            if first is not None and first.due:
                earlier = self.timings_
                self._fit_rows(first.X, first.y, clock, interrupts, before=first)
                self.timings_ = clock.total(earlier)
                return self._told_if_interrupted()
            X, y, old = self.scaling_.inputs(X), self.scaling_.targets(y), self._data()
            more = old.absorb(X, y) if self.merge_duplicates else old.append(X, y)
            with Watch(self, interrupts, self.verbose, clock.deadline) as watch:
                posterior = update(
                    self.posterior_, old, more, self.noise_, clock, reporter(watch), interrupts
                )
            self.row_counts_, self.scatter_, self.first_rows_ = (
                more.counts,
                more.scatter,
                first and first.bounded(),
            )
            self._set_posterior(posterior, clock)
        return self._told_if_interrupted()

    def refine(self, budget: Any = None) -> "IterGPRegressor":
        """The same model after more computation: further seconds, or further actions. Twice is one longer
        run."""
        check_is_fitted(self)
        with unchanged_on_error(self), watching_interrupts() as interrupts:
            clock, before = Clock(Budget.parse(budget)), self.posterior_
            with Watch(self, interrupts, self.verbose, clock.deadline) as watch:
                n = before.problem.n
                policy = policy_for("auto", n, clock.budget) if before.policy is None else before.policy
                state = solved(before.state, policy, stopping(clock, n), reporter(watch), interrupts)
            self._set_posterior(Posterior(before.problem, state, policy), clock)
        return self._told_if_interrupted()

    # Predictions, in the units of y.

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True
    ) -> Any:
        """The mean (m,) or (m, t); with the standard deviations, or with the covariance matrix of all
        points, if asked.

        Uncertainties are those of a new observation, or of the latent function with `include_noise=False`.
        Means and standard deviations come from `neighbours` local actions for each point. A covariance
        needs actions that all points share, so with `return_cov=True` mean and covariance are those of the
        global posterior, without the local actions.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True; ask for one of them.")
        X = self.scaling_.inputs(new_inputs(self, X))
        if return_cov:
            covariance = self.posterior_.cov(X)
            covariance[np.diag_indices(len(X))] += self._noise_of_prediction(include_noise)
            return self.scaling_.mean(self.posterior_.mean(X)), self._in_units(covariance)
        mean, variance = self._marginals(X, return_std)
        if variance is None:
            return self.scaling_.mean(mean)
        return self.scaling_.mean(mean), self._in_size(
            np.sqrt(variance + self._noise_of_prediction(include_noise))
        )

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> Array:
        """Joint draws (m, n_samples) or (m, t, n_samples), from the global posterior: see `predict` on
        covariances."""
        check_is_fitted(self)
        X, rng = self.scaling_.inputs(new_inputs(self, X)), _randomness(random_state)
        draws = self.posterior_.sample(X, count("n_samples", n_samples), seed=int(rng.randint(2**31 - 1)))
        draws = draws + np.sqrt(self._noise_of_prediction(include_noise)) * rng.standard_normal(draws.shape)
        return np.moveaxis(self.scaling_.mean(draws), 0, -1)

    def interval(self, X: Any, level: float = 0.95, include_noise: bool = True) -> tuple[Array, Array]:
        """The central interval that holds a new observation (or the latent function) with this
        probability."""
        if isinstance(level, bool) or not isinstance(level, int | float | np.floating) or not 0 < level < 1:
            raise InputError(f"level is {level!r}; expected a probability between 0 and 1, such as 0.95.")
        reach = ndtri(0.5 + level / 2)
        if not np.isfinite(reach):
            raise InputError(
                f"level is {level!r}, which float64 cannot tell from 1; expected at most 1 - 3e-16."
            )
        mean, std = self.predict(X, return_std=True, include_noise=include_noise)
        return mean - reach * std, mean + reach * std

    def decompose(self, X: Any, passes: int | None = None) -> Parts:
        """The variance of `predict`, taken apart: mathematical + computational + noise = std^2.

        Exact up to 4,096 rows. Beyond, between bounds from `passes` over K for each 256 points (4 unless
        given): more passes, closer bounds. With 0, they are from more neighbours for each point, and
        wider.
        """
        check_is_fitted(self)
        X, back = self.scaling_.inputs(new_inputs(self, X)), self._in_units
        parts = self._process().decompose(X, passes=passes)
        return Parts(
            mathematical=back(parts.mathematical),
            computational=back(parts.computational),
            noise=back(np.full((len(X), *np.shape(self.noise_)), self.noise_)),
            computational_lower=back(parts.computational_lower),
            computational_upper=back(parts.computational_upper),
            exact=parts.exact,
            method=parts.method,
            neighbours=parts.neighbours,
        )

    def certify(self, X: Any) -> Certificate:
        """Guaranteed bounds on the exact GP's latent variance and mean, in units of y squared and of y."""
        check_is_fitted(self)
        certificate = self._process().certify(self.scaling_.inputs(new_inputs(self, X)))
        return Certificate(
            self._in_units(certificate.variance_lower),
            self._in_units(certificate.variance_upper),
            self.scaling_.size(certificate.mean_error, np.ndim(self.noise_) > 0),
        )

    def plot(
        self, X: Any = None, y: Any = None, feature: Any = None, target: int = 0, axis: Any = None
    ) -> Any:
        """The mean and its bands along a feature (a number or a name; unless given, the one along which
        the mean changes most).

        In the units of the data, which are X and y or else those of the fit. Returns matplotlib's Axes;
        see `itergp.plots`.
        """
        from itergp.plots import plot_posterior

        check_is_fitted(self)
        X, names = None if X is None else new_inputs(self, X), getattr(self, "feature_names_in_", None)
        process, noise = (
            Unscaled(self._process(), self.scaling_, np.ndim(self.noise_) > 0),
            self._in_units(np.array(self.noise_)),
        )
        return plot_posterior(
            process, X, y, feature=feature, target=target, noise=noise, names=names, axis=axis
        )

    # Files.

    def report(self, path: str | PathLike[str], X_test: Any = None, y_test: Any = None) -> dict[str, Any]:
        """Write one HTML page about the fit, and return its numbers: at test data, else by held-out folds
        without a refit."""
        check_is_fitted(self)
        _check_path(path)
        from itergp.report import numbers, write_page

        values = numbers(self, X_test, y_test)
        write_page(path, values)
        return values

    def save(self, path: str | PathLike[str], refinable: bool = True) -> None:
        """Write the model into one file. With `refinable=False` it predicts, but `refine` and
        `partial_fit` are over."""
        check_is_fitted(self)
        _check_path(path)
        storage.save(path, self.posterior_, about(self, refinable), refinable)

    @classmethod
    def load(cls, path: str | PathLike[str], classes: Iterable[type] = ()) -> "IterGPRegressor":
        """The model in a file, with the same predictions. `classes` are your own kernels, means and
        policies, if any."""
        _check_path(path)
        posterior, said = storage.load(path, classes)
        with restoring(path):
            estimator, attributes = (
                cls(**constructor_parameters(posterior, said)),
                fitted_attributes(posterior, said),
            )
            assign(estimator, attributes | {"trace_": Trace((), posterior.trace, int(said["resumed_from"]))})
        return estimator

    # Inside.

    def _fit_rows(
        self,
        X: Any,
        y: Any,
        clock: Clock,
        interrupts: Interrupts,
        checkpoint: Any = None,
        root: Any = None,
        before: Any = None,
    ) -> None:
        """Scale, learn and act, whatever was there before."""
        scaling = Scaling.of(X, y) if self.normalize else Scaling.none(X, y)
        plan = self._plan(scaling.inputs(X), scaling.targets(y), clock)
        residual = scaling.y_scale * centred(
            Prior(plan.start.kernel, plan.mean), scaling.inputs(X), scaling.targets(y)
        )
        first = FirstRows.of(X, y, residual, plan.learns, before)
        plan = replace(plan, learnable=telling(residual, y) > 0)
        checkpoint, found = open_checkpoint(checkpoint, plan)
        clock.lap("prepare")
        with Watch(self, interrupts, self.verbose, clock.deadline, root, checkpoint) as watch:
            if found is None:
                found = hyperparameters(plan, clock, watch)
                note_learned(None if interrupts.asked else checkpoint, found)
            clock.lap("learn")
            attributes = _attributes(found, scaling, plan.data, first)
            watch.begin("acting")
            report = reporter(watch, attributes, checkpoint)
            posterior, resumed = infer(plan, found, clock, report, checkpoint, interrupts)
            watch.end()
            clock.lap("act")
            assign(self, attributes(posterior))
            learned = () if found.learned is None else tuple(found.learned.trace)
            self.trace_ = Trace(learned, posterior.trace, resumed, peak_bytes())
            self.timings_ = clock.total()

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        units = " [kernel, mean and noise in units of the scaled data]" if self.normalize is True else ""
        return super().__repr__(N_CHAR_MAX=N_CHAR_MAX) + units

    def _html_repr(self) -> str:
        """What notebooks show: scikit-learn's diagram, below a card where there is a fit."""
        from itergp.report.page.card import card

        return (card(self) if hasattr(self, "posterior_") else "") + super()._html_repr()

    def _marginals(self, X: Array, with_variance: bool) -> tuple[Array, Array | None]:
        """Means, and latent variances if asked, in scaled units and in batches that fit in memory."""
        process, size = self._process(), max(256, BATCH_BYTES // (24 * max(1, self.posterior_.rank)))
        batches = (process.at(X[i : i + size]) for i in range(0, len(X), size))
        if not with_variance:
            return np.concatenate([batch.mean for batch in batches]), None
        means, variances = zip(*(batch.marginals for batch in batches), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def _process(self) -> Any:
        """The posterior, with local actions where they are asked for."""
        exact = self.posterior_.status is Status.EXACT
        neighbours = (
            (0 if exact else NEIGHBOURS)
            if self.neighbours == "auto"
            else count("neighbours", self.neighbours, least=0)
        )
        return self.posterior_.local(neighbours) if neighbours else self.posterior_

    def _noise_of_prediction(self, include_noise: bool) -> Any:
        return self.noise_ if include_noise else 0.0

    def _in_units(self, variance: Array) -> Array:
        """Variances in units of y squared; where each target has its own noise, each has its own variances
        too."""
        return self.scaling_.variance(variance, np.ndim(self.noise_) > 0)

    def _in_size(self, size: Array) -> Array:
        """Standard deviations in units of y: not by their squares, which vanish below 1e-160."""
        return self.scaling_.size(size, np.ndim(self.noise_) > 0)

    def _data(self) -> Merged:
        problem = self.posterior_.problem
        return Merged(problem.X, problem.y, self.row_counts_, self.scatter_, np.arange(problem.n))

    def _observations(self) -> tuple[Array, Array]:
        """The rows so far in their own units, as well as the model knows them."""
        X, y = self._data().observations()
        return self.scaling_.original(X), self.scaling_.mean(y)

    def _set_posterior(self, posterior: Posterior, clock: Clock) -> None:
        self.posterior_, self.status_ = believed(posterior, self.noise_, self.row_counts_), posterior.status
        peak = self.trace_.peak_bytes and max(self.trace_.peak_bytes, peak_bytes() or 0)
        self.trace_ = replace(self.trace_, steps=posterior.trace, peak_bytes=peak)
        self.timings_ = clock.after(self.timings_)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool):
            return count("random_state", self.random_state, least=0)
        return int(_randomness(self.random_state).randint(2**31 - 1))

    def _callback_root(self) -> Any:
        """scikit-learn's context of this fit, where it knows callbacks."""
        return (
            self._init_callback_context(max_subtasks=2) if hasattr(self, "_init_callback_context") else None
        )

    def _plan(self, X: Array, y: Array, clock: Clock) -> Plan:
        """Everything that could be wrong is found before the learning begins."""
        check_flags(self)
        data = merge_rows(X, y) if self.merge_duplicates else unmerged(X, y)
        by_the_clock = (
            isinstance(self.policy, str) and self.policy == "auto" and clock.budget.seconds is not None
        )
        return Plan(
            data=data,
            start=translate_kernel(self.kernel, X.shape[1]),
            mean=translate_mean(self.mean, X, y),
            noise=self.noise,
            learn=self.learn,
            policy="auto" if by_the_clock else policy_for(self.policy, len(data.X), clock.budget),
            compute=Compute(self.dtype, self.cache, "auto", self.threads),
            seed=self._seed(),
        )

    def _told_if_interrupted(self) -> "IterGPRegressor":
        if self.status_ is Status.INTERRUPTED:
            warnings.warn(
                f"Interrupted after {self.posterior_.rank} actions. The model is valid and can be used; "
                "`refine` goes on.",
                InterruptedWarning,
                stacklevel=3,
            )
        return self


def _attributes(
    found: Hyperparameters, scaling: Scaling, data: Merged, first: FirstRows | None
) -> Callable[[Posterior], dict[str, Any]]:
    """The attributes of a model that was fitted so far."""
    return lambda posterior: {
        "posterior_": believed(posterior, found.noise, data.counts),
        "kernel_": found.kernel,
        "noise_": found.noise,
        "status_": posterior.status,
        "learning_": found.learning,
        "scaling_": scaling,
        "row_counts_": data.counts,
        "scatter_": data.scatter,
        "first_rows_": first,
    }


def _randomness(random_state: Any) -> np.random.RandomState:
    try:
        return check_random_state(random_state)
    except ValueError:
        raise InputError(
            f"random_state is {random_state!r}; expected an integer >= 0, a RandomState, or None."
        ) from None


def _check_path(path: Any) -> None:
    if not isinstance(path, str | PathLike):
        raise InputError(f"path is {path!r}; expected a path to a file, such as 'model.itergp'.")
