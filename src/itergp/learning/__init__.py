"""Hyper-parameters: objectives with gradients, and the stages that minimise them."""

from itergp.learning.endings import Ending as Ending, Learning as Learning
from itergp.learning.training import Learned as Learned, Record as Record, learn as learn
