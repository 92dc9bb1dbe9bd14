"""Files: a model in one file, and checkpoints of a fit under way. Arrays as safetensors, the rest as JSON;
never pickle.

`files.py` writes one file whole or not at all, with a digest over every byte; `specs.py` turns kernels,
means and policies into trees of names and numbers, and back through a table of known classes; `states.py`
takes a problem and its state apart and puts them together again, to the bit; `models.py` is `save` and
`load`; `checkpoints.py` is `Checkpoint`.
"""

from itergp.storage.checkpoints import Checkpoint as Checkpoint, fingerprint as fingerprint
from itergp.storage.models import load as load, save as save
