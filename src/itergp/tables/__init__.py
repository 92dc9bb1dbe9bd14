"""Tables in files, converted to what a model needs: numbers, one row per observation, with errors that name
the cell.

`lines.py` unpacks and decodes a file, `csvs.py` finds separator, names and rows, `looking.py` what the first
rows say. `reading.py` reads CSV with the standard library alone, and Parquet if pyarrow is installed;
`pieces.py` reads them some rows at a time, and `arrow.py` large CSV files with pyarrow, to the same result.
`cells.py`, `numbers.py`, `dates.py` and `faults.py` say what a number and a date is and what is wrong;
`notes.py` keeps what was done. `layout.py` says which column is the target and how the others become features
(`feature.py`), and is stored with the model; `inputs.py` reads tables of any size with it; `groups.py` reads
the group of each row; `writing.py` writes results completely or not at all.
"""

from itergp.tables.groups import group_labels as group_labels, grouping as grouping
from itergp.tables.inputs import Inputs as Inputs, training as training
from itergp.tables.layout import Feature as Feature, Layout as Layout
from itergp.tables.reading import Table as Table, read_table as read_table
from itergp.tables.writing import (
    csv_text as csv_text,
    table_format as table_format,
    write_table as write_table,
    writing_table as writing_table,
)
