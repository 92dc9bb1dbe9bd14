"""The order of the gallery: as one would read it."""

FIRST = ["plot_first_fit.py", "plot_budgets.py", "plot_streaming.py", "plot_extending.py"]


class ReadingOrder:
    """A sort key for sphinx-gallery: these first, then the others by name."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, file):
        return (FIRST.index(file) if file in FIRST else len(FIRST), file)
