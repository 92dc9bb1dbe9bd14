"""Where a fit will lie: on a cluster, said before it begins."""

from itergp.estimator.budgets import Budget
from itergp.estimator.hyperparameters import Plan
from itergp.estimator.progress import Watch
from itergp.estimator.schedules import without_passes
from itergp.linalg.engines import Engine


def place(plan: Plan, budget: Budget, watch: Watch) -> None:
    """Refuse before any work what does not fit on the workers of a cluster, and say what each will hold."""
    engine, (n, d), targets = plan.compute.engine, plan.data.X.shape, plan.data.Y.shape[1]
    if not isinstance(engine, Engine):
        return
    policy = plan.policy
    none = without_passes(n, budget) if isinstance(policy, str) else getattr(policy, "few_rows", False)
    columns, kernel = 0 if none else targets, plan.start.kernel
    watch.placed(engine, engine.placement(n, d, targets, columns, kernel))
