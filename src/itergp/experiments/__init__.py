"""The paper's experiments, by name: one file per figure or claim. See `running.py` for how they work."""

from itergp.errors import InputError
from itergp.experiments import (
    beyond,
    calibration,
    cggp,
    main_illustration,
    online,
    recovered_methods,
    svgp,
    uncertainty_decomposition,
    worst_case,
)
from itergp.experiments.running import Cell, Experiment, Options, Standing, run_experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        main_illustration.EXPERIMENT,
        uncertainty_decomposition.EXPERIMENT,
        worst_case.EXPERIMENT,
        recovered_methods.EXPERIMENT,
        cggp.EXPERIMENT,
        svgp.EXPERIMENT,
        online.EXPERIMENT,
        beyond.EXPERIMENT,
        calibration.EXPERIMENT,
    )
}


def named(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise InputError(f"experiment {name!r} is unknown; expected one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Options", "Standing", "named", "run_experiment"]
