"""The scikit-learn estimator: `IterGPRegressor`, and what a fit is made of."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from itergp.estimator.regressor import IterGPRegressor as IterGPRegressor


def __getattr__(name: str) -> Any:
    """Loaded when first used: budgets and names need no scikit-learn."""
    if name != "IterGPRegressor":
        raise AttributeError(f"module 'itergp.estimator' has no attribute {name!r}")
    from itergp.estimator.regressor import IterGPRegressor

    return IterGPRegressor
