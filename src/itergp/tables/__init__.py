"""Tables in files, and what a model needs of them: numbers, one row per observation, with errors that name
the place.

`reading.py` reads CSV with nothing but the standard library, and Parquet where pyarrow is installed;
`layout.py` says which column is the target and how the others become features, and is remembered with the
model; `writing.py` writes results whole or not at all.
"""

from itergp.tables.layout import Feature as Feature
from itergp.tables.layout import Layout as Layout
from itergp.tables.reading import Table as Table
from itergp.tables.reading import read_table as read_table
from itergp.tables.writing import csv_text as csv_text
from itergp.tables.writing import table_format as table_format
from itergp.tables.writing import write_table as write_table
