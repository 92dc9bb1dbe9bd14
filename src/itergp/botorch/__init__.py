"""A BoTorch model on posteriors of this library (`pip install itergp[botorch]`). No other room imports it."""

from itergp.botorch.model import IterGPModel
from itergp.botorch.optimise import optimise
from itergp.botorch.paths import SampledFunctions

__all__ = ["IterGPModel", "SampledFunctions", "optimise"]
