"""python -m itergp"""

from itergp.cli import main

main()
