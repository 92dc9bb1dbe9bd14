"""Hyper-parameters: objectives with gradients, and the stages that minimise them."""

from itergp.learning.endings import Ending as Ending
from itergp.learning.endings import Learning as Learning
from itergp.learning.training import Learned as Learned
from itergp.learning.training import Record as Record
from itergp.learning.training import learn as learn
