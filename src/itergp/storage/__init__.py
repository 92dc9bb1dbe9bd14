"""Files: a model in one file, and checkpoints of a fit in progress. Arrays as safetensors, the rest as JSON;
never pickle.

`files.py` writes a file completely or not at all, with a digest over every byte; `specs.py` turns kernels,
means and policies into trees of names and numbers, and back through a table of known classes; `states.py`
converts a problem and its state to arrays and JSON and back, bit for bit; `models.py` has `save` and `load`;
`checkpoints.py` has `Checkpoint`.
"""

from itergp.storage.checkpoints import Checkpoint as Checkpoint, fingerprint as fingerprint
from itergp.storage.models import load as load, save as save, sizes as sizes
