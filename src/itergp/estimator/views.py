"""The attributes of a fitted estimator: views of its one `Fit`."""

from collections.abc import Callable
from typing import Generic, TypeVar, overload

from itergp.fitted.calibration import Calibration
from itergp.fitted.fit import Fit
from itergp.fitted.regime import regime
from itergp.fitted.scores import calibrated

T = TypeVar("T")


class View(Generic[T]):
    """A read-only attribute that is read from the fit, and missing before there is one."""

    def __init__(self, read: Callable[[Fit], T]) -> None:
        self.read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> "View[T]": ...

    @overload
    def __get__(self, estimator: object, owner: type) -> T: ...

    def __get__(self, estimator: object | None, owner: type) -> "View[T] | T":
        if estimator is None:
            return self
        fit = vars(estimator).get("_fit")
        if fit is None:
            raise AttributeError(f"{owner.__name__} has no attribute {self.name!r} before `fit`.")
        return self.read(fit)

    def __set__(self, estimator: object, value: T) -> None:
        raise AttributeError(f"{self.name} is a result of `fit` and cannot be set.")


class FittedAttributes:
    """Fitted attributes with a trailing underscore, as in scikit-learn."""

    _fit: Fit

    posterior_ = View(lambda fit: fit.posterior)
    kernel_ = View(lambda fit: fit.kernel)
    noise_ = View(lambda fit: fit.noise)
    noise_function_ = View(lambda fit: fit.noise_function)
    status_ = View(lambda fit: fit.status)
    regime_ = View(regime)
    learning_ = View(lambda fit: fit.learning)
    trace_ = View(lambda fit: fit.trace)
    timings_ = View(lambda fit: fit.timings)
    scaling_ = View(lambda fit: fit.scaling)
    row_counts_ = View(lambda fit: fit.counts)
    row_weights_ = View(lambda fit: fit.data.precision)
    scatter_ = View(lambda fit: fit.scatter)
    first_rows_ = View(lambda fit: fit.first_rows)

    @property
    def fit_(self) -> Fit:
        """All of them as one immutable value, with the current parameters."""
        if "_fit" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute 'fit_' before `fit`.")
        self._fit = self._fit.asked_with(self.get_params(deep=False))  # type: ignore[attr-defined]
        return self._fit

    @property
    def calibration_(self) -> Calibration:
        """What held-out rows say about the standard deviations; learned when it is first asked for."""
        self._fit = calibrated(self.fit_)
        assert self._fit.calibration is not None
        return self._fit.calibration

    def __sklearn_is_fitted__(self) -> bool:
        return "_fit" in vars(self)
