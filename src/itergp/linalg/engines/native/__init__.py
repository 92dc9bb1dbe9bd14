"""C++ for sums of stationary kernels, on CPUs: tiles, gradients, nearest rows. ImportError if not built."""

import importlib
from typing import Any

try:
    _tiles: Any = importlib.import_module("itergp.linalg.engines.native._tiles")
except ModuleNotFoundError:
    raise ImportError("it was not built: reinstall with a C++ compiler available") from None
