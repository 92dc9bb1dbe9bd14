"""python -m itergp.cli"""

from itergp.cli import main

main()
