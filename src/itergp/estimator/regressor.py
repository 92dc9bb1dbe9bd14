"""IterGPRegressor: follows the scikit-learn API; no mathematics inside."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from itergp import storage
from itergp.errors import InputError, InterruptedWarning
from itergp.estimator import fitting
from itergp.estimator.budgets import Budget
from itergp.estimator.clock import Clock
from itergp.estimator.files import about, parameters_of, restored, restoring
from itergp.estimator.inputs import (
    check_path,
    interval_reach,
    new_inputs,
    randomness,
    training_data,
    unchanged_on_error,
)
from itergp.estimator.progress import (
    CallbackSupportMixin,
    Watch,
    callback_root,
    watching_interrupts,
    with_callbacks,
)
from itergp.estimator.views import FittedAttributes
from itergp.fitted import predictions
from itergp.fitted.units import Parts
from itergp.posterior.uncertainty import Certificate
from itergp.solver.state import Status
from itergp.validate import Array, count


class IterGPRegressor(
    FittedAttributes, CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator
):
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
    fit_ : all of these as one frozen value, with the parameters as they are now.
    """

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
        with self._changing(self.budget) as (clock, watch):
            X, y = training_data(self, X, y, reset=True)
            watch.root = callback_root(self)
            asked, names = self.get_params(deep=False), self._names()
            self._fit = fitting.fit_rows(asked, names, X, y, clock, watch, self.checkpoint)
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
        with self._changing(self.budget) as (clock, watch):
            X, y = training_data(self, X, y, reset=False)
            self._fit = fitting.with_rows(self.fit_, X, y, clock, watch)
        return self._told_if_interrupted()

    def refine(self, budget: Any = None) -> "IterGPRegressor":
        """The same model after more computation: further seconds, or further actions. Twice is one longer
        run."""
        check_is_fitted(self)
        with self._changing(budget) as (clock, watch):
            self._fit = fitting.refine(self.fit_, clock, watch)
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
        X = new_inputs(self, X)
        if return_cov:
            return predictions.mean_and_cov(self.fit_, X, include_noise)
        if return_std:
            return predictions.mean_and_std(self.fit_, X, include_noise)
        return predictions.mean(self.fit_, X)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> Array:
        """Joint draws (m, n_samples) or (m, t, n_samples), from the global posterior: see `predict` on
        covariances."""
        check_is_fitted(self)
        X, rng = new_inputs(self, X), randomness(random_state)
        return predictions.sample(self.fit_, X, count("n_samples", n_samples), rng, include_noise)

    def interval(self, X: Any, level: float = 0.95, include_noise: bool = True) -> tuple[Array, Array]:
        """The central interval that holds a new observation (or the latent function) with this
        probability."""
        reach = interval_reach(level)
        mean, std = self.predict(X, return_std=True, include_noise=include_noise)
        return mean - reach * std, mean + reach * std

    def decompose(self, X: Any, passes: int | None = None) -> Parts:
        """The variance of `predict`, taken apart: mathematical + computational + noise = std^2.

        Exact up to 4,096 rows. Beyond, between bounds from `passes` over K for each 256 points (4 unless
        given): more passes, closer bounds. With 0, they are from more neighbours for each point, and
        wider.
        """
        check_is_fitted(self)
        return predictions.decompose(self.fit_, new_inputs(self, X), passes)

    def certify(self, X: Any) -> Certificate:
        """Guaranteed bounds on the exact GP's latent variance and mean, in units of y squared and of y."""
        check_is_fitted(self)
        return predictions.certify(self.fit_, new_inputs(self, X))

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
        fit, X = self.fit_, None if X is None else new_inputs(self, X)
        process, noise = predictions.as_process(fit), fit.variance(np.array(fit.noise))
        return plot_posterior(
            process, X, y, feature=feature, target=target, noise=noise, names=fit.names, axis=axis
        )

    # Files.

    def report(self, path: str | PathLike[str], X_test: Any = None, y_test: Any = None) -> dict[str, Any]:
        """Write one HTML page about the fit, and return its numbers: at test data, else by held-out folds
        without a refit."""
        check_is_fitted(self)
        check_path(path)
        from itergp.report import numbers, write_page

        values = numbers(self.fit_, None if X_test is None else new_inputs(self, X_test), y_test)
        write_page(path, values)
        return values

    def save(self, path: str | PathLike[str], refinable: bool = True) -> None:
        """Write the model into one file. With `refinable=False` it predicts, but `refine` and
        `partial_fit` are over."""
        check_is_fitted(self)
        check_path(path)
        storage.save(path, self.posterior_, about(self.fit_, refinable), refinable)

    @classmethod
    def load(cls, path: str | PathLike[str], classes: Iterable[type] = ()) -> "IterGPRegressor":
        """The model in a file, with the same predictions. `classes` are your own kernels, means and
        policies, if any."""
        check_path(path)
        posterior, said = storage.load(path, classes)
        with restoring(path):
            estimator = cls(**parameters_of(posterior, said))
            fit = restored(posterior, said, estimator.get_params(deep=False))
        estimator._fit, estimator.n_features_in_ = fit, fit.features
        if fit.names is not None:
            estimator.feature_names_in_ = np.asarray(fit.names, dtype=object)
        return estimator

    # Inside.

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        units = " [kernel, mean and noise in units of the scaled data]" if self.normalize is True else ""
        return super().__repr__(N_CHAR_MAX=N_CHAR_MAX) + units

    def _html_repr(self) -> str:
        """What notebooks show: scikit-learn's diagram, below a card where there is a fit."""
        from itergp.report.page.card import card

        return (card(self.fit_) if hasattr(self, "posterior_") else "") + super()._html_repr()

    @contextlib.contextmanager
    def _changing(self, budget: Any) -> Iterator[tuple[Clock, Watch]]:
        """A call that computes within a budget, by the clock from here on; what fails changes nothing."""
        with unchanged_on_error(self), watching_interrupts() as interrupts:
            clock = Clock(Budget.parse(budget))
            yield clock, Watch(self, interrupts, self.verbose, clock.deadline)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _told_if_interrupted(self) -> "IterGPRegressor":
        if self.status_ is Status.INTERRUPTED:
            warnings.warn(
                f"Interrupted after {self.posterior_.rank} actions. The model is valid and can be used; "
                "`refine` goes on.",
                InterruptedWarning,
                stacklevel=3,
            )
        return self
