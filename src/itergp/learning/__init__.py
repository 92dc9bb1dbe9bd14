"""Hyper-parameters: objectives with gradients, and the stages that minimise them."""

from itergp.learning.endings import Ending as Ending, Learning as Learning
from itergp.learning.run import Learned as Learned, Record as Record
from itergp.learning.training import learn as learn
