"""Which computation a fit took, and why: one sentence, for everybody who prints it."""

from itergp.fitted.fit import Fit
from itergp.fitted.formats import counted
from itergp.limits import PASS_ROWS
from itergp.solver.state import Status


def regime(fit: Fit) -> str:
    """Read off what was done, so that a model from a file has it too."""
    asked, n, rank = fit.asked["policy"], fit.posterior.problem.n, fit.posterior.rank
    if not (isinstance(asked, str) and asked == "auto"):
        return "The actions are those of the policy that was given."
    if not rank:
        return "No action was taken: the budget left no room for one."
    if fit.status is Status.EXACT:
        acted = f"All {n:,} rows were" if n > 1 else "The only row was"
        return f"{acted} acted on: there was room for the exact Gaussian process."
    if fit.posterior.state.progress.passes:
        return (
            f"Blocks of actions, each by a pass over all pairs of rows: {n:,} rows are too many for the "
            "exact Gaussian process within the budget, and few enough for passes."
        )
    if n <= PASS_ROWS:
        return f"Unit vectors of {counted(rank, 'row')}: there was no time for a pass over all pairs of rows."
    return (
        f"Unit vectors of {rank:,} random rows, in time and memory linear in the number of rows: of more "
        f"than {PASS_ROWS:,} rows, a pass over all pairs takes longer than it is worth."
    )
