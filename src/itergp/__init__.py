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

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """The module of each public name, from the stub beside this file: one list for all readers."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_WHERE = _public_names()
# used by their own names, as in itergp.datasets.load("bike")
_MODULES = [name for name, module in _WHERE.items() if module == "itergp"]

__all__ = sorted(_WHERE.keys() - set(_MODULES))


def __getattr__(name: str) -> Any:
    """Names load when they are first used, so that `import itergp` is fast."""
    if name not in _WHERE:
        raise AttributeError(f"module 'itergp' has no attribute {name!r}")
    value = _module(f"itergp.{name}") if name in _MODULES else getattr(_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def _module(name: str) -> Any:
    """Where address space is limited, the libraries below must fit: they would crash half way."""
    if name == "itergp.errors":
        return importlib.import_module(name)
    libraries = importlib.import_module("itergp.linalg.libraries")
    libraries.require_libraries()
    with libraries.loading():
        return importlib.import_module(name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
