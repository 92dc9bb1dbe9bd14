"""The page of the API reference, made of the library's public names: `python docs/reference.py` shows it."""

import importlib
import inspect
import typing

import itergp

INTRODUCTION = """# API reference

What is listed here is public. Everything takes and returns NumPy arrays in float64; noise is always a
*variance*; randomness is a `seed`. Errors name the argument, what came, what was expected, and what to do.
"""

# The names of `itergp` by the modules that define them.
TOPICS = {
    "The estimator": ("itergp.estimator",),
    "Conditioning": ("itergp.posterior", "itergp.prior.gp", "itergp.linalg"),
    "Kernels and means": ("itergp.prior",),
    "Policies": ("itergp.solver.policies", "itergp.solver.schedule"),
    "Stopping": ("itergp.solver.stopping",),
    "The solver": ("itergp.solver",),
    "Errors and warnings": ("itergp.errors",),
}
SENTENCES = {
    "Kernels and means": "Kernels combine: `2.0 * k`, `k1 + k2`, `k1 * k2`, and `k.on([0, 2])` for some "
    "columns of the input.",
    "Stopping": "Criteria combine with `|` and `&`, and count from where a call began.",
    "Answers": "What the methods above return.",
}
# What public methods return, by where it is.
ANSWERS = [
    "posterior.uncertainty.Decomposition",
    "posterior.uncertainty.Certificate",
    "posterior.uncertainty.Share",
    "posterior.combined.Path",
    "posterior.local.LocalPosterior",
    "posterior.around.JointPosterior",
    "posterior.sampling.SampleFunction",
    "posterior.joint.LocalSamples",
    "fitted.units.Parts",
    "fitted.fit.Fit",
    "fitted.fit.Trace",
    "solver.state.Step",
]
MODULES = {
    "Learning": "itergp.learning",
    "Plots": "itergp.plots",
    "Metrics": "itergp.metrics",
    "Data sets": "itergp.datasets",
    "Baselines": "itergp.baselines",
    "Interface tests": "itergp.testing",
    "Files": "itergp.storage",
}


def page() -> str:
    sections = [section(topic, "itergp", names) for topic, names in by_topic().items()]
    sections.append(section("Answers", "itergp", ANSWERS))
    sections += [section(topic, module, public(module)) for topic, module in MODULES.items()]
    return "\n".join([INTRODUCTION, *sections])


def by_topic() -> dict[str, list[str]]:
    """Every public name once, under the first topic whose modules define it."""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for name in itergp.__all__:
        home = getattr(itergp, name).__module__
        topic = next(topic for topic, modules in TOPICS.items() if home.startswith(modules))
        found[topic].append(name)
    return found


def public(module: str) -> list[str]:
    """What the module says is public, or else what it defines without an underscore."""
    room = importlib.import_module(module)
    named = getattr(room, "__all__", None)
    if named is None:
        own = [name for name in vars(room) if not name.startswith("_") and defined_in(room, name)]
        named = [name for name in own if inspect.isclass(vars(room)[name]) or callable(vars(room)[name])]
    return sorted(named)


def defined_in(room: typing.Any, name: str) -> bool:
    return str(getattr(vars(room)[name], "__module__", "")).startswith(room.__name__)


def section(title: str, module: str, names: list[str]) -> str:
    about = f"{SENTENCES[title]}\n\n" if title in SENTENCES else ""
    listed = "\n".join(f"   {name}" for name in names)
    return (
        f"## {title}\n\n{about}```{{eval-rst}}\n.. currentmodule:: {module}\n\n"
        f".. autosummary::\n   :toctree: generated\n\n{listed}\n```\n"
    )


if __name__ == "__main__":
    print(page())
