"""C++ for sums of stationary kernels, on CPUs: tiles, gradients, and nearest rows. ImportError where it was
not built."""

import importlib
from typing import Any

try:
    _tiles: Any = importlib.import_module("itergp.linalg.engines.native._tiles")
except ModuleNotFoundError:
    raise ImportError("it was not built: install again where there is a C++ compiler") from None
