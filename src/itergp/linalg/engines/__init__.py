"""Engines: everything that evaluates kernels and multiplies with them.

`base.py` defines the interface of an engine, `registry.py` lists the engines. Three come with the library:
`numpy` (the reference), `jax` (compiled tiles, any kernel) and, if it was built, `native` (C++, stationary
kernels). A user's own object with these methods is passed to `Compute(engine=...)`, and `from_function` makes
one from a plain product function.
"""

from itergp.linalg.engines.base import Engine, Tick, TileCache, TiledEngine, no_tick
from itergp.linalg.engines.conditionals import Conditionals, Weights
from itergp.linalg.engines.registry import choose, from_function, get

__all__ = [
    "Conditionals",
    "Engine",
    "Tick",
    "TileCache",
    "TiledEngine",
    "Weights",
    "choose",
    "from_function",
    "get",
    "no_tick",
]
