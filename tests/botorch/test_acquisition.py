"""BoTorch's acquisition functions and optimisers on IterGPModel, and draws from it as functions."""

import warnings
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install itergp[botorch]")
pytest.importorskip("botorch.models", reason="BoTorch is not installed: pip install itergp[botorch]")

from botorch.acquisition import (  # noqa: E402
    LogExpectedImprovement,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling  # noqa: E402
from botorch.generation import MaxPosteriorSampling  # noqa: E402
from botorch.models.transforms import Normalize, Standardize  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from botorch.sampling.pathwise import draw_matheron_paths  # noqa: E402

from itergp import IterGPRegressor, Matern52, MaxActions, UnitVector  # noqa: E402
from itergp.botorch import IterGPModel, SampledFunctions, optimise  # noqa: E402

D = torch.float64
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
KERNEL = 1.0 * Matern52([0.8, 0.8])
EXACT = IterGPRegressor(kernel=KERNEL, noise=1e-3, learn=False)
LOCAL = IterGPRegressor(
    kernel=KERNEL, noise=1e-3, learn=False, policy=UnitVector("pivoted"), budget=MaxActions(40), neighbours=25
)


def hill(X):
    """Largest at (0.3, 0.7)."""
    return -((X - torch.tensor([0.3, 0.7], dtype=D)) ** 2).sum(dim=-1, keepdim=True)


def model_of(regressor=EXACT, n=30, m=1, **how):
    torch.manual_seed(0)
    X = torch.rand(n, 2, dtype=D)
    Y = torch.cat([hill(X), X[:, :1].cos()][:m], dim=-1) + 0.01 * torch.randn(n, m, dtype=D)
    return IterGPModel(X, Y, regressor=regressor, **how)


ACQUISITIONS = {
    "log-ei": lambda model: LogExpectedImprovement(model, model.train_targets.max()),
    "ucb": lambda model: UpperConfidenceBound(model, 0.1),
    "q-log-ei": lambda model: qLogExpectedImprovement(model, model.train_targets.max()),
    "q-log-nei": lambda model: qLogNoisyExpectedImprovement(model, model.train_inputs[0]),
    "thompson": PathwiseThompsonSampling,
    "knowledge-gradient": lambda model: qKnowledgeGradient(model, num_fantasies=4),
}
JOINT = ("q-log-ei", "q-log-nei", "thompson", "knowledge-gradient")


@pytest.mark.parametrize("name", ACQUISITIONS)
@pytest.mark.parametrize("transformed", [False, True])
def test_acquisition_functions_have_the_slope_of_central_differences(name, transformed):
    """Each with its own way through the model: marginals, joint batches, baselines, draws, fantasies."""
    how = {"input_transform": Normalize(2), "outcome_transform": Standardize(1)} if transformed else {}
    function = ACQUISITIONS[name](model_of(n=15, **how))
    q = {"q-log-ei": 2, "knowledge-gradient": 5}.get(name, 1)
    X = 0.1 + 0.8 * torch.rand(2, q, 2, dtype=D)
    Z = X.clone().requires_grad_(True)
    function(Z).sum().backward()
    for place in [(0, 0, 0), (1, q - 1, 1)]:
        step = torch.zeros_like(X)
        step[place] = 1e-5
        slope = (function(X + step) - function(X - step)).sum().item() / 2e-5
        assert Z.grad[place].item() == pytest.approx(slope, rel=2e-3, abs=1e-5)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_optimize_acqf_finds_the_hill(name):
    """For points one at a time, and for two at once where the function can. What tells most about the top
    (knowledge gradient) need not be there, but is worth more than all of many random batches."""
    function = ACQUISITIONS[name](model_of())
    q = 2 if name in JOINT else 1
    torch.manual_seed(1)
    X, value = optimize_acqf(function, BOX, q=q, num_restarts=2, raw_samples=16, options={"maxiter": 30})
    assert X.shape == (q, 2)
    assert torch.isfinite(value)
    assert ((X >= 0) & (X <= 1)).all()
    if name == "knowledge-gradient":
        with torch.no_grad():
            random = function(torch.rand(64, function.get_augmented_q_batch_size(q), 2, dtype=D))
        assert value > random.max()
    else:
        assert hill(X).max() > -0.05


def test_max_posterior_sampling_takes_candidates():
    model = model_of()
    some = MaxPosteriorSampling(model)(torch.rand(50, 2, dtype=D), num_samples=3)
    assert some.shape == (3, 2)


def test_held_actions_make_a_local_model_smooth():
    """Along a line, the mean of points with rows of their own has jumps; with rows held around it has none:
    its second differences are those of a smooth function."""
    model = model_of(LOCAL, n=400)
    line = torch.linspace(0.2, 0.8, 2001, dtype=D)
    X = torch.stack([line, 0.5 + 0 * line], dim=-1)[:, None]
    sharpest = {}
    for name, one in (("own", model), ("held", model.around(X[::400, 0]))):
        slope = torch.diff(one.posterior(X).mean[:, 0, 0])
        sharpest[name] = torch.diff(slope).abs().max().item()
    exact = torch.diff(torch.diff(model_of(EXACT, n=400).posterior(X).mean[:, 0, 0])).abs().max().item()
    assert sharpest["held"] < 5 * exact
    assert sharpest["own"] > 5 * sharpest["held"]


def test_optimise_on_a_local_model_ends_without_a_warning_and_above_its_starts():
    """What it returns is valued by the model itself, so no held action can deceive it."""
    model = model_of(LOCAL, n=400)
    assert not model.outputs[0].exact
    best = model.train_targets.max()
    torch.manual_seed(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, value = optimise(
            lambda one: qLogExpectedImprovement(one, best), model, BOX, q=2, num_restarts=3, raw_samples=32
        )
    function = qLogExpectedImprovement(model, best)
    assert X.shape == (2, 2)
    assert function(X[None]).item() == pytest.approx(value.item(), rel=1e-3)
    assert hill(X).max() > -0.05


def test_starts_near_given_points_stay_in_the_box():
    model = model_of()
    corner = torch.tensor([[0.0, 1.0]], dtype=D)
    X, _ = optimise(
        lambda one: UpperConfidenceBound(one, 0.01), model, BOX, num_restarts=2, raw_samples=16, near=corner
    )
    assert ((X >= 0) & (X <= 1)).all()
    assert hill(X).max() > -0.05


@pytest.mark.parametrize("way", ["exact", "local", "around"])
def test_draws_are_functions_with_the_moments_of_the_posterior(way):
    """The same function in each call, and over draws the mean and variance of the model."""
    model = model_of(EXACT if way == "exact" else LOCAL, n=120)
    X = torch.rand(6, 2, dtype=D)
    model = model.around(X) if way == "around" else model
    drawn = SampledFunctions(model, torch.Size([1000]), seed=0)
    values = drawn(X)
    assert values.shape == (1000, 6)
    torch.testing.assert_close(drawn(X[2:4]), values[:, 2:4], rtol=1e-6, atol=1e-9)
    found = model.posterior(X[:, None])
    size = found.variance[:, 0, 0].sqrt()
    np.testing.assert_allclose(((values.mean(dim=0) - found.mean[:, 0, 0]) / size), 0.0, atol=0.15)
    np.testing.assert_allclose(values.std(dim=0) / size, 1.0, atol=0.15)


@pytest.mark.parametrize("way", ["exact", "local", "around"])
@pytest.mark.parametrize("m", [1, 2])
def test_draws_have_gradients_and_the_shapes_of_botorch(way, m):
    """`draw_matheron_paths` finds them; slopes are those of central differences."""
    model = model_of(EXACT if way == "exact" else LOCAL, n=120, m=m, outcome_transform=Standardize(m))
    model = model.around(torch.rand(3, 2, dtype=D)) if way == "around" else model
    paths = draw_matheron_paths(model, torch.Size([2]))
    outer = [1] * (m > 1)
    X = torch.rand(5, 2, *outer, 3, 2, dtype=D)  # each draw at its own points
    Z = X.clone().requires_grad_(True)
    values = paths(Z)
    assert values.shape == (5, 2, *[m] * (m > 1), 3)
    values.sin().sum().backward()
    step = torch.zeros_like(X)
    step[1, 1, ..., 2, 0] = 1e-4  # draws with near rows are accurate to 1e-9
    slope = (paths(X + step).sin().sum() - paths(X - step).sin().sum()).item() / 2e-4
    assert Z.grad[1, 1, ..., 2, 0].item() == pytest.approx(slope, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("regressor", [EXACT, LOCAL])
@pytest.mark.parametrize(
    "how",
    [
        {"fixed_features": {0: 0.9}},
        {"inequality_constraints": [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=D), -0.5)]},
        {"equality_constraints": [(torch.tensor([0, 1]), torch.tensor([1.0, 1.0], dtype=D), 0.5)]},
    ],
)
def test_the_best_point_obeys_what_the_search_was_asked_to(regressor, how):
    """The starts, which know nothing of it, lie nearer to the top of the hill."""
    torch.manual_seed(0)
    x, _ = optimise(
        lambda model: UpperConfidenceBound(model, 0.1),
        model_of(regressor),
        BOX,
        num_restarts=3,
        raw_samples=32,
        search=partial(optimize_acqf, **how),
    )
    if "fixed_features" in how:
        assert x[0, 0] == 0.9
    elif "equality_constraints" in how:
        assert float(x.sum()) == pytest.approx(0.5, abs=1e-6)
    else:
        assert float(x.sum()) <= 0.5 + 1e-6
