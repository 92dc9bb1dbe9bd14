"""The seam: whatever evaluates kernels and multiplies with them is an Engine.

`base.py` says what an engine does, `registry.py` which ones there are. Three come with the library: `numpy`
(the reference), `jax` (compiled tiles, any kernel) and, where it was built, `native` (C++, stationary
kernels). A user's own object with these methods goes into `Compute(engine=...)`, and `from_function` makes
one of a plain product function.
"""

from itergp.linalg.engines.base import (
    Conditionals,
    Engine,
    Tick,
    TileCache,
    TiledEngine,
    no_tick,
)
from itergp.linalg.engines.registry import SMALL, choose, from_function, get

__all__ = [
    "SMALL",
    "Conditionals",
    "Engine",
    "Tick",
    "TileCache",
    "TiledEngine",
    "choose",
    "from_function",
    "get",
    "no_tick",
]
