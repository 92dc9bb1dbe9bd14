"""IterGPRegressor: follows the scikit-learn API; the mathematics is elsewhere."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
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
from itergp.estimator.files import about, load_fit, restoring
from itergp.estimator.filling import RESERVED, checked, filled_rows, more_rows, with_donors
from itergp.estimator.inputs import (
    check_calibrated,
    check_method,
    check_path,
    interval_reach,
    labels,
    new_inputs,
    probabilities,
    randomness,
    require_groups,
    sample_weights,
    training_data,
    unchanged_on_error,
    weighted_rows,
)
from itergp.estimator.names import in_units_of_inputs
from itergp.estimator.progress import (
    CallbackSupportMixin,
    Watch,
    callback_root,
    watching_interrupts,
    with_callbacks,
)
from itergp.estimator.views import FittedAttributes
from itergp.fitted import predictions
from itergp.fitted.filling import filled_in
from itergp.fitted.scores import calibrated as calibrated_fit
from itergp.fitted.units import Parts
from itergp.posterior.uncertainty import Certificate
from itergp.solver.state import Status
from itergp.tables.layout import Layout
from itergp.validate import Array, count


class IterGPRegressor(
    FittedAttributes, CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator
):
    """Gaussian process regression within a compute budget. The uncertainty includes what was not computed.

    Follows the scikit-learn API. With `normalize=True`, targets are standardised: **scale and noise are in
    variances of y**. For a kernel by name, inputs are standardised too: its lengthscales are in standard
    deviations of each feature. **A kernel that is given as an object has its lengthscales and periods in the
    units of X.** Predictions and their uncertainties are always in the units of y.

    Parameters
    ----------
    kernel : "auto" chooses by held-out rows how smooth the function is, and whether features share a
        lengthscale; "rbf", "matern12", "matern32", "matern52", "rational-quadratic" or "linear" (with one
        lengthscale per feature: ARD), an itergp kernel, or a scikit-learn kernel (the bounds of its
        hyper-parameters are ignored, except "fixed").
    mean : "constant", "zero", "linear", or a mean function.
    noise : the noise variance, one variance per target, or "learn", which learns one per target.
        "heteroscedastic" learns how it varies with the inputs, too, if held-out rows show that it does.
        "robust" gives outliers a noise of their own, for tables in which a few targets are gross errors.
    learn : "auto", the name of a method ("neighbours", "exact", "iterative", "sgpr", "elbo", "subset"), or
        False.
    policy : "auto", "cg", "cholesky", "pseudo-input", "eigenvector", "random", "block-krylov", or a policy
        object. "auto" computes the exact GP if the budget allows it, and otherwise follows a schedule.
    neighbours : number of training rows that each test point acts on in `predict`, in addition to the
        global actions; 0 for none. "auto" uses 60, or none if the fit is exact.
    budget : "30s", "5m" or "1h" (wall-clock time of the whole fit, including learning); "200 actions" or a
        stopping criterion (for inference; learning is then limited by counts too); or None, a default that
        is limited by counts, so that fits are reproducible.
    dtype, cache, threads : how to compute; see `itergp.Compute`.
    engine : "auto", the name of an engine, or one such as `itergp.DaskEngine(client)`, which spreads passes
        over the kernel matrix over a cluster. The address of a Dask scheduler ("tcp://host:8786") is short
        for `DaskEngine` with it.
    normalize : whether to standardise targets, and inputs unless `kernel` is an object: then these are only
        centred.
    merge_duplicates : whether to merge rows with identical inputs into one row with their mean target and
        noise / count. The reduction is exact.
    checkpoint : path to which long fits write their state, and from which an interrupted fit resumes.
    random_state : a seed, a RandomState, or None.
    verbose : 1 shows a status line while fitting.

    Attributes
    ----------
    kernel_, noise_ : learned or given values, in the units described above. Multiple targets
        share the kernel; `noise_` is then an array with one value per target, unless a single number was
        given. Where noise varies it is the mean over the training rows.
    noise_function_ : with "heteroscedastic", the noise variance at inputs in scaled units over that mean;
        None if it does not vary. `decompose(X).noise` is the noise variance at X in units of y squared.
    posterior_ : the `itergp.Posterior` in scaled units, on which all predictions are based. With one noise
        per target, a `TargetPosterior`: shared actions, and one posterior per target in
        `posterior_.each`.
    trace_ : record of the computation: `learning`, `steps`, `resumed_from`, and the `candidates` for the
        kernel with their scores.
    status_ : how inference ended; `status_.advice` is a sentence.
    regime_ : which computation was chosen for this many rows and this budget, and why: a sentence.
    learning_ : how learning ended, and after how many iterations; `learning_.advice` is a sentence.
    timings_ : seconds of each part and in total, including `refine` and `partial_fit`.
    scaling_, row_counts_, scatter_ : the scaling of the data; the number of rows merged into each row; the
        scatter of their targets.
    row_weights_ : the weight of each row, summed over merged ones: its noise variance is noise_ / weight.
        With "robust", that of outliers is below 1.
    first_rows_ : state that `partial_fit` needs while there are too few rows for final hyper-parameters,
        including up to 1,000 of the original rows; otherwise None.
    calibration_ : what held-out rows say about the standard deviations, learned when it is first asked for:
        the `factor` by which they are off, `coverage(level)`, and the sorted `scores` that make conformal
        intervals.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    table_ : only in models that the command line fitted: the columns of the table and what becomes of them.
        `predict`, `partial_fit` and the like then take a data frame with these columns.
    fit_ : all of the above as one immutable value, with the current parameters.
    """

    _overwrites = False  # whether `fit` may scale X in place, for who needs it no more
    table_: Layout

    def __init__(
        self,
        kernel: Any = "auto",
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
        engine: Any = "auto",
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
        self.engine = engine

    # Fitting.

    @with_callbacks
    def fit(
        self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, *, table: Layout | None = None
    ) -> "IterGPRegressor":
        """Learn hyper-parameters and condition on the data, within the budget. Ctrl-C stops early with
        a valid model.

        `groups` has one label per row (a station, a flight line, a patient), or is "blocks" for blocks in
        the space of the inputs. With `kernel="auto"`, the kernel is then chosen by how well it predicts
        groups that it has not seen. Give it if new rows will come from other groups than the known ones.

        `sample_weight` has one weight >= 0 per row: the noise variance of a row is noise / weight, so that a
        mean of k measurements has the weight k. Rows of weight 0 are left out. `noise_` and predictions are
        those of an observation of weight 1.

        `table` is for the command line: the columns that X was made from. Values that its `--missing impute`
        allows to be missing are NaN in X.
        """
        with self._changing(self.budget) as (clock, watch):
            holes = None if table is None else table.holes
            X, y = training_data(self, X, y, reset=True, holes=holes is not None)
            if self._table() is not None:
                del self.table_  # these data are not that table
            watch.root = callback_root(self)
            asked, names = self.get_params(deep=False), self._names()
            weights = sample_weights(sample_weight, len(X))
            X, y, weights, groups = weighted_rows(X, y, weights, labels(groups, len(X)))
            require_groups(groups)
            donors, holed = None, X
            if holes is not None:
                X, weights, donors = filled_rows(asked, X, y, weights, holes, clock, watch)
            owned = self._overwrites and holes is None  # what was filled in is compared with X afterwards
            how: dict[str, Any] = {"groups": groups, "weights": weights, "owned": owned}
            with clock.reserving(
                0.0 if donors is None or not donors.holes.missing(holed).any() else RESERVED
            ):
                found = fitting.fit_rows(asked, names, X, y, clock, watch, self.checkpoint, **how)
            if donors is not None and found.status is not Status.INTERRUPTED:
                donors = checked(found, X, holed, donors, clock)
                clock.lap("check")
                found = replace(found, timings=clock.total())
            self._fit = replace(found, donors=donors)
            if table is not None:
                self.table_ = table
        return self._told_if_interrupted()

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "IterGPRegressor":
        """Add rows to the model. The first call is `fit`; later calls keep scaling and hyper-parameters.

        While fewer than 100 values of some target differ from their median, scaling and hyper-parameters
        are provisional: each time the number of such rows has doubled, the model is refitted to all rows.
        It is also refitted when a constant feature starts to vary. With `merge_duplicates`, a row with
        known inputs is merged into the existing one. The budget applies to each call. `sample_weight` is as
        in `fit`.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight=sample_weight)
        with self._changing(self.budget) as (clock, watch):
            X, y = training_data(self, X, y, reset=False, holes=self.fit_.donors is not None)
            weights = sample_weights(sample_weight, len(X))
            X, y, weights = weighted_rows(X, y, weights)
            X, weights, donors = more_rows(self.fit_, X, y, weights)
            found = fitting.with_rows(self.fit_, X, y, clock, watch, weights)
            self._fit = with_donors(found, donors)
        return self._told_if_interrupted()

    def refine(self, budget: Any = None) -> "IterGPRegressor":
        """Continue the computation for more seconds or more actions. Two calls are equivalent to one longer
        run."""
        check_is_fitted(self)
        with self._changing(budget) as (clock, watch):
            self._fit = fitting.refine(self.fit_, clock, watch)
        return self._told_if_interrupted()

    # Predictions, in the units of y.

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        calibrated: bool = False,
    ) -> Any:
        """The mean (m,) or (m, t), optionally with the standard deviations or the covariance matrix of all
        points.

        Uncertainties are those of a new observation, or of the latent function with `include_noise=False`;
        what a missing value of a table could be is in both.
        All of them use `neighbours` local actions for each point: means do not depend on what else is
        returned, and the diagonal of the covariance is the squared standard deviation. With
        `calibrated=True`, standard deviations are multiplied by `calibration_.factor`, which is learned from
        held-out rows.
        """
        check_is_fitted(self)
        check_calibrated(calibrated, return_std, include_noise)
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True; expected at most one of them.")
        X = new_inputs(self, X)
        if return_cov:
            return predictions.mean_and_cov(self.fit_, X, include_noise)
        if return_std:
            mean, std = predictions.mean_and_std(self.fit_, X, include_noise)
            return mean, std * self.calibration_.factor if calibrated else std
        return predictions.mean(self.fit_, X)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> Array:
        """Joint samples (m, n_samples) or (m, t, n_samples), with the means and the covariance of
        `predict`."""
        check_is_fitted(self)
        X, rng = new_inputs(self, X), randomness(random_state)
        return predictions.sample(self.fit_, X, count("n_samples", n_samples), rng, include_noise)

    def interval(
        self, X: Any, level: float = 0.95, include_noise: bool = True, method: str = "gaussian"
    ) -> tuple[Array, Array]:
        """The central interval that contains a new observation (or the latent function) with probability
        `level`.

        "gaussian" takes the model at its word. "conformal" ends where held-out rows say: it contains that
        share of new observations whatever the distribution of the errors, if these are exchangeable with the
        training rows (with `groups`: if new groups are with the known ones).
        """
        check_is_fitted(self)
        reach, X = interval_reach(level), new_inputs(self, X)
        check_method(method, include_noise)
        low, high = np.array(-reach), np.array(reach)
        if method == "conformal":
            self._fit, (low, high) = predictions.conformal_ends(self.fit_, level)
        mean, std = predictions.mean_and_std(self.fit_, X, include_noise)
        return mean + low * std, mean + high * std

    def quantiles(self, X: Any, levels: Any = (0.05, 0.5, 0.95), method: str = "gaussian") -> Array:
        """The values that a new observation is below with these probabilities.

        The shape is (m, levels), or (m, t, levels); without the last axis if `levels` is a number.

        As in `interval`, "gaussian" takes the model at its word, and "conformal" asks held-out rows: where
        their errors are skewed or have heavy tails, so have the quantiles, if new rows come as these did.
        """
        check_is_fitted(self)
        asked, X = probabilities(levels), new_inputs(self, X)
        check_method(method, include_noise=True)
        self._fit, scores = predictions.score_quantiles(self.fit_, asked, method)
        found = predictions.at_quantiles(*predictions.mean_and_std(self.fit_, X), scores)
        return found if np.ndim(levels) else found[..., 0]

    def decompose(self, X: Any, passes: int | None = None) -> Parts:
        """Decompose the variance of `predict`: mathematical + computational + noise = std^2.

        Exact up to 4,096 rows. Beyond that, bounds are computed with `passes` over K for each 256 points
        (default 4); more passes give tighter bounds. With 0, they come from more neighbours for each point
        and are wider. mathematical + computational is the variance of `include_noise=False`; what a missing
        value of a table could be is mathematical, as the data do not say it.
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
        """Plot the mean and its bands along a feature (a number or a name; by default, the one along which
        the mean changes most).

        Uses the units of the data. The data are X and y if given, otherwise the training data. Returns the
        matplotlib Axes; see `itergp.plots`.
        """
        from itergp.plots import plot_posterior

        check_is_fitted(self)
        fit, X = self.fit_, None if X is None else filled_in(self.fit_, new_inputs(self, X))[0]
        process, noise = predictions.as_process(fit), predictions.noise(fit)
        return plot_posterior(
            process, X, y, feature=feature, target=target, noise=noise, names=self._input_names(), axis=axis
        )

    # Files.

    def report(self, path: str | PathLike[str], X_test: Any = None, y_test: Any = None) -> dict[str, Any]:
        """Write an HTML report about the fit and return its numbers, computed on test data if given,
        otherwise on held-out folds without refitting."""
        check_is_fitted(self)
        check_path(path)
        from itergp.report import numbers, write_page

        with contextlib.suppress(InputError):  # the report says where there is none
            self._fit = calibrated_fit(self.fit_)
        X_test = None if X_test is None else new_inputs(self, X_test)
        values = numbers(self.fit_, X_test, y_test, feature_names=self._input_names())
        write_page(path, values)
        return values

    def save(self, path: str | PathLike[str], refinable: bool = True) -> None:
        """Save the model to one file. With `refinable=False`, the loaded model can predict but not `refine`
        or `partial_fit`."""
        check_is_fitted(self)
        check_path(path)
        table = {} if self._table() is None else {"table": self.table_.as_json()}
        storage.save(path, self.posterior_, about(self.fit_, refinable) | table, refinable)

    @classmethod
    def load(
        cls, path: str | PathLike[str], classes: Iterable[type] = (), engine: Any = None
    ) -> "IterGPRegressor":
        """Load a model from a file, with the same predictions. List your own kernel, mean and policy classes
        in `classes`. With an `engine`, such as `itergp.DaskEngine(client)` or the address of a scheduler, the
        model goes on there: predictions, `refine` and `partial_fit`."""
        check_path(path)
        fit, layout = load_fit(path, classes, engine)
        with restoring(path):
            estimator = cls(**fit.asked)
        if layout is not None:
            estimator.table_ = layout
        estimator._fit, estimator.n_features_in_ = fit, fit.features
        if fit.names is not None:
            estimator.feature_names_in_ = np.asarray(fit.names, dtype=object)
        return estimator

    # Private.

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return super().__repr__(N_CHAR_MAX=N_CHAR_MAX) + self._units()

    def _units(self) -> str:
        if self.normalize is not True:
            return ""
        if in_units_of_inputs(self.kernel):
            return " [lengthscales and periods in units of X, scale and noise in variances of y]"
        return " [kernel, mean and noise in units of the scaled data]"

    def _html_repr(self) -> str:
        """HTML for notebooks: scikit-learn's diagram, below a card if the model is fitted."""
        from itergp.report.page.card import card

        return (card(self.fit_) if hasattr(self, "posterior_") else "") + super()._html_repr()

    @contextlib.contextmanager
    def _changing(self, budget: Any) -> Iterator[tuple[Clock, Watch]]:
        """Run a call within a budget; the clock starts here. A failure leaves the model unchanged."""
        with unchanged_on_error(self), watching_interrupts() as interrupts:
            clock = Clock(Budget.parse(budget))
            yield clock, Watch(self, interrupts, self.verbose, clock.deadline)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _table(self) -> Layout | None:
        return getattr(self, "table_", None)

    def _input_names(self) -> tuple[str, ...] | None:
        """Of all inputs, also of those that the command line made."""
        table = self._table()
        return self.fit_.names if table is None or self.fit_.names is not None else tuple(table.inputs)

    def _told_if_interrupted(self) -> "IterGPRegressor":
        if self.status_ is Status.INTERRUPTED:
            warnings.warn(
                f"Interrupted after {self.posterior_.rank} actions. The model is valid and can be used; "
                "call `refine` to continue.",
                InterruptedWarning,
                stacklevel=3,
            )
        return self
