"""IterGPModel does what BoTorch asks of a model: shapes, gradients, transforms, fantasies, draws.

BoTorch has no mixin to test a model with, so these are the checks of its tests of SingleTaskGP, and the
numbers beside: each posterior is compared with a dense one, and each gradient with central differences.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install itergp[botorch]")
pytest.importorskip("botorch.models", reason="BoTorch is not installed: pip install itergp[botorch]")

from botorch.models.model import Model  # noqa: E402
from botorch.models.transforms import Log, Normalize, Standardize  # noqa: E402
from botorch.posteriors import GPyTorchPosterior  # noqa: E402
from botorch.sampling import SobolQMCNormalSampler  # noqa: E402
from botorch.utils.datasets import SupervisedDataset  # noqa: E402

from itergp import InputError, IterGPRegressor, Matern52, MaxActions, UnitVector  # noqa: E402
from itergp.botorch import IterGPModel, SampledFunctions  # noqa: E402

D = torch.float64
FIXED = IterGPRegressor(kernel=1.2 * Matern52([0.9, 1.4]), noise=0.01, learn=False)
LOCAL = IterGPRegressor(
    kernel=1.2 * Matern52([0.9, 1.4]),
    noise=0.01,
    learn=False,
    policy=UnitVector("pivoted"),
    budget=MaxActions(10),
    neighbours=12,
)
WAYS = {"exact": FIXED, "local": LOCAL, "around": LOCAL}


def data(n=40, m=1, seed=0, dtype=D):
    torch.manual_seed(seed)
    X = torch.rand(n, 2, dtype=D)
    Y = torch.stack([torch.sin(5 * X[:, 0] + i) + X[:, 1] for i in range(m)], dim=-1)
    return X.to(dtype), (Y + 0.05 * torch.randn(n, m, dtype=D)).to(dtype)


def made(way="exact", m=1, **how):
    X, Y = data(m=m)
    model = IterGPModel(X, Y, regressor=WAYS[way], **how)
    return model.around(torch.rand(3, 2, dtype=D)) if way == "around" else model


def dense(output, Z, noise=None):
    """The exact posterior of an output at Z, by NumPy, in the units of the data: mean and covariance."""
    problem, scaling = output.posterior.problem, output.scaling
    K = problem.prior.kernel(problem.X, problem.X) + np.diag(problem.N)
    x = scaling.inputs(Z.numpy())
    k = problem.prior.kernel(problem.X, x)
    mu = problem.prior.mean(x) + k.T @ np.linalg.solve(K, problem.b[:, 0])
    return scaling.mean(mu), scaling.variance(problem.prior.kernel(x, x) - k.T @ np.linalg.solve(K, k))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("q", [1, 2])
def test_a_posterior_has_the_shapes_of_botorch(way, m, batch, q):
    """Mean and variance (..., q, m), joint covariances, samples, with noise and without."""
    model = made(way, m)
    assert isinstance(model, Model)
    assert (model.num_outputs, model.batch_shape) == (m, torch.Size())
    X = torch.rand(*batch, q, 2, dtype=D)
    found = model.posterior(X)
    assert isinstance(found, GPyTorchPosterior)
    assert found.mean.shape == found.variance.shape == (*batch, q, m)
    assert found.rsample(torch.Size([4])).shape == (4, *batch, q, m)
    noisy = model.posterior(X, observation_noise=True)
    torch.testing.assert_close(noisy.mean, found.mean)
    noise = model.noise_at(X).transpose(-1, -2)
    torch.testing.assert_close(noisy.variance, found.variance + noise)
    known = torch.full((*batch, q, m), 0.3, dtype=D)
    torch.testing.assert_close(model.posterior(X, observation_noise=known).variance, found.variance + 0.3)


@pytest.mark.parametrize("m", [1, 2])
def test_the_exact_posterior_is_the_dense_one(m):
    """Of each output, joint over q points."""
    model, X = made(m=m), torch.rand(5, 3, 2, dtype=D)
    mean, cov = model.latent(X)
    for i, output in enumerate(model.outputs):
        for b in range(5):
            expected = dense(output, X[b])
            np.testing.assert_allclose(mean[b, i], expected[0], rtol=1e-8)
            np.testing.assert_allclose(cov[b, i], expected[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("way", ["local", "around"])
def test_a_posterior_with_near_rows_is_never_overconfident(way):
    """Its covariance is at least that of the exact one, as a matrix, and its variance that of one point."""
    model, X = made(way), torch.rand(4, 3, 2, dtype=D)
    _, cov = model.latent(X)
    for b in range(4):
        above = cov[b, 0].numpy() - dense(model.outputs[0], X[b])[1]
        assert np.linalg.eigvalsh(above).min() > -1e-8
    alone = model.posterior(X.reshape(-1, 1, 2)).variance.reshape(4, 3)
    np.testing.assert_allclose(torch.diagonal(cov[:, 0], dim1=-2, dim2=-1), alone, rtol=1e-7)


def moved(function, X, h=1e-5):
    """Central differences of a number in all of X."""
    out = torch.zeros_like(X)
    for place in np.ndindex(*X.shape):
        step = torch.zeros_like(X)
        step[place] = h
        out[place] = (function(X + step) - function(X - step)).item() / (2 * h)
    return out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("m", [1, 2])
def test_gradients_are_those_of_central_differences(way, m):
    """Of a function of means and joint covariances, for several outputs, also at a row of the data. There the
    rows near a point change, so that with these it is elsewhere, where they do not."""
    model = made(way, m, input_transform=Normalize(2), outcome_transform=Standardize(m))
    torch.manual_seed(3)
    X = torch.rand(2, 2, 2, dtype=D)
    if way != "local":
        X[0, 0] = model.train_inputs[0][3]

    def total(Z):
        found = model.posterior(Z)
        return found.mean.sin().sum() + found.distribution.covariance_matrix.square().sum()

    Z = X.clone().requires_grad_(True)
    total(Z).backward()
    torch.testing.assert_close(Z.grad, moved(lambda Z: total(Z).detach(), X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("of", ["mean", "square", "covariance", "hessian", "draws"])
def test_a_second_derivative_is_refused_not_wrong(of):
    model, X = made(), torch.rand(1, 1, 2, dtype=D, requires_grad=True)

    def value(X):
        found = model.posterior(X)
        return {
            "mean": lambda: found.mean.sum(),
            "square": lambda: found.mean.square().sum(),
            "covariance": lambda: found.distribution.covariance_matrix.sum(),
            "hessian": lambda: found.mean.sum(),
            "draws": lambda: SampledFunctions(model, torch.Size([3]))(X).sum(),
        }[of]()

    def twice():
        if of == "hessian":
            return torch.autograd.functional.hessian(value, X)
        (slope,) = torch.autograd.grad(value(X), X, create_graph=True)
        return slope.square().sum().backward()

    with pytest.raises(RuntimeError, match=r"no second derivatives in X"):
        twice()


@pytest.mark.parametrize("m", [1, 2])
def test_many_and_close_points_have_a_posterior(m):
    """BoTorch adds jitter where a covariance has no factor; the moments are those of points by themselves."""
    model = made(m=m)
    torch.manual_seed(1)
    for X in (torch.rand(1, 2, dtype=D).repeat(2, 1), torch.rand(500, 2, dtype=D)):
        found = model.posterior(X)
        alone = model.posterior(X[:, None])
        torch.testing.assert_close(found.mean, alone.mean[:, 0], rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found.variance, alone.variance[:, 0], rtol=1e-6, atol=1e-10)
        assert found.rsample(torch.Size([2])).isfinite().all()


@pytest.mark.parametrize("fails", [False, True])
def test_observing_leaves_the_model_as_it_was(fails):
    """Also its transforms, which those of the new model learn anew."""
    X, Y = data(30)
    model = IterGPModel(X, Y, regressor=FIXED, input_transform=Normalize(2), outcome_transform=Standardize(1))
    Z = torch.rand(4, 1, 2, dtype=D)
    before = model.posterior(Z)
    far = 10 * torch.rand(30, 2, dtype=D)
    if fails:
        with pytest.raises(InputError):
            model.observe(far.fill_(np.nan), Y)
    else:
        assert model.observe(far, 5 * Y + 3, refit=0.0).posterior(Z).mean.isfinite().all()
    after = model.posterior(Z)
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.variance, after.variance)
    model.train()
    assert torch.equal(before.mean, model.posterior(Z).mean)


def test_float32_tensors_come_back_as_float32_with_gradients():
    X, Y = data(dtype=torch.float32)
    model, exact = IterGPModel(X, Y, regressor=FIXED), made()
    Z = torch.rand(4, 1, 2, requires_grad=True)
    found = model.posterior(Z)
    found.mean.sum().backward()
    assert found.mean.dtype == found.variance.dtype == Z.grad.dtype == torch.float32
    np.testing.assert_allclose(
        found.mean.detach(), exact.posterior(Z.detach().double()).mean, rtol=1e-3, atol=1e-3
    )


def test_conditioning_on_data_is_the_posterior_of_all_rows():
    """`condition_on_observations` extends, keeps hyper-parameters, and leaves the model as it was."""
    X, Y = data(50, 2)
    model = IterGPModel(X[:40], Y[:40], regressor=FIXED)
    Z = torch.rand(3, 2, 2, dtype=D)
    before = model.posterior(Z).mean
    more = model.condition_on_observations(X[40:], Y[40:])
    assert isinstance(more, IterGPModel)
    assert more.train_inputs[0].shape == (50, 2)
    torch.testing.assert_close(more.train_targets, Y.T)
    for i, output in enumerate(more.outputs):
        for b in range(3):
            mean, cov = dense(output, Z[b])
            np.testing.assert_allclose(more.latent(Z)[0][b, i], mean, rtol=1e-8)
            np.testing.assert_allclose(more.latent(Z)[1][b, i], cov, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(model.posterior(Z).mean, before)


def test_noise_of_new_observations_is_used():
    """Precise observations move the mean further than noisy ones."""
    model, x = made(), torch.tensor([[0.5, 0.5]], dtype=D)
    y = model.posterior(x).mean.detach() + 1.0
    after = [
        model.condition_on_observations(x, y, torch.full((1, 1), noise, dtype=D)).posterior(x).mean.item()
        for noise in (1e-8, 10.0)
    ]
    assert after[0] == pytest.approx(y.item(), abs=1e-4)
    assert after[1] < y.item() - 0.9


@pytest.mark.parametrize("way", WAYS)
def test_batches_of_observations_agree_with_one_at_a_time(way):
    """Conditioning in torch is conditioning by actions, if each point has the same actions."""
    model = made(way, 2)
    X, Y, Z = torch.rand(3, 2, 2, dtype=D), torch.rand(4, 3, 2, 2, dtype=D), torch.rand(4, 3, 5, 2, dtype=D)
    batched = model.condition_on_observations(X, Y)
    assert batched.batch_shape == (4, 3)
    found = batched.posterior(Z)
    assert found.mean.shape == (4, 3, 5, 2)
    if way == "exact":
        for a, b in np.ndindex(4, 3):
            alone = model.condition_on_observations(X[b], Y[a, b]).posterior(Z[a, b])
            torch.testing.assert_close(found.mean[a, b], alone.mean, rtol=1e-6, atol=1e-8)
            torch.testing.assert_close(found.variance[a, b], alone.variance, rtol=1e-5, atol=1e-9)
    assert (found.variance <= model.posterior(Z).variance + 1e-10).all()


@pytest.mark.parametrize("m", [1, 2])
def test_fantasies_have_the_shapes_of_botorch_and_gradients_flow_through_them(m):
    """num_fantasies x batch, again for fantasies of fantasies, and the slope in the imagined points is that
    of central differences."""
    model = made(m=m, outcome_transform=Standardize(m))
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    X, Z = torch.rand(2, 2, 2, dtype=D), torch.rand(2, 1, 2, dtype=D)
    fantasy = model.fantasize(X, sampler)
    assert fantasy.batch_shape == (3, 2)
    assert fantasy.posterior(Z).mean.shape == (3, 2, 1, m)
    again = fantasy.fantasize(Z, SobolQMCNormalSampler(torch.Size([4]), seed=1))
    assert again.batch_shape == (4, 3, 2)
    assert again.posterior(torch.rand(4, 3, 2, 5, 2, dtype=D)).variance.shape == (4, 3, 2, 5, m)

    def total(points):
        return model.fantasize(points, sampler).posterior(Z).mean.square().sum()

    V = X.clone().requires_grad_(True)
    total(V).backward()
    torch.testing.assert_close(V.grad, moved(lambda V: total(V).detach(), X), rtol=1e-3, atol=1e-5)


def test_subsets_of_outputs_are_those_outputs():
    model, X = made(m=3, outcome_transform=Standardize(3)), torch.rand(4, 2, 2, dtype=D)
    found = model.posterior(X)
    for idcs in ([1], [2, 0], [-1]):
        some = model.subset_output(idcs)
        assert some.num_outputs == len(idcs)
        torch.testing.assert_close(some.posterior(X).mean, found.mean[..., idcs])
        torch.testing.assert_close(
            model.posterior(X, output_indices=idcs).variance, found.variance[..., idcs]
        )
        torch.testing.assert_close(some.train_targets.reshape(len(idcs), -1), model.train_targets[idcs])
    batched = model.condition_on_observations(X, torch.rand(4, 2, 3, dtype=D))
    torch.testing.assert_close(
        batched.subset_output([2]).posterior(X).mean, batched.posterior(X).mean[..., [2]]
    )
    with pytest.raises(InputError, match="3 outputs"):
        model.subset_output([3])


def test_transforms_change_units_not_answers():
    """Inputs and outcomes are standardised in any case, so linear transforms before that change nothing. Log
    makes predictions positive."""
    X, Y = data(m=2)
    plain = IterGPModel(X, Y, regressor=FIXED)
    box = torch.tensor([[3.0, 3.0], [53.0, 53.0]], dtype=D)  # the kernel is in units of what comes out
    moved = IterGPModel(
        3 + 50 * X,
        Y,
        regressor=FIXED,
        input_transform=Normalize(2, bounds=box),
        outcome_transform=Standardize(2),
    )
    Z = torch.rand(3, 2, 2, dtype=D)
    a, b = plain.posterior(Z), moved.posterior(3 + 50 * Z)
    torch.testing.assert_close(a.mean, b.mean, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(a.variance, b.variance, rtol=1e-6, atol=1e-9)
    new = torch.rand(2, 2, dtype=D), torch.rand(2, 2, dtype=D)
    c, d = plain.condition_on_observations(*new), moved.condition_on_observations(3 + 50 * new[0], new[1])
    torch.testing.assert_close(c.posterior(Z).mean, d.posterior(3 + 50 * Z).mean, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(d.train_targets, c.train_targets, rtol=1e-9, atol=1e-12)
    logs = IterGPModel(X, Y.exp(), regressor=FIXED, outcome_transform=Log())
    assert (logs.posterior(Z).rsample(torch.Size([16])) > 0).all()


def test_known_noise_is_the_noise_of_the_posterior():
    """train_Yvar is used as it is, row by row, against the dense formula with these variances."""
    X, Y = data()
    Yvar = torch.linspace(1e-4, 0.5, 40, dtype=D)[:, None]
    regressor = IterGPRegressor(kernel=1.2 * Matern52([0.9, 1.4]), learn=False)
    model = IterGPModel(X, Y, Yvar, regressor=regressor)
    output = model.outputs[0]
    N = output.scaling.variance(output.posterior.problem.N)
    order = np.argsort(output.scaling.original(output.posterior.problem.X)[:, 0])
    np.testing.assert_allclose(N[order], Yvar[X[:, 0].argsort(), 0], rtol=1e-9)
    Z = torch.rand(1, 3, 2, dtype=D)
    np.testing.assert_allclose(model.latent(Z)[0][0, 0], dense(output, Z[0])[0], rtol=1e-8)
    zeros = IterGPModel(X, Y, torch.zeros_like(Y), regressor=regressor)
    np.testing.assert_allclose(zeros.posterior(X).mean, Y, atol=1e-4)


def test_observing_extends_and_learns_again_when_the_data_have_grown():
    X, Y = data(60)
    model = IterGPModel(X[:40], Y[:40])
    more = model.observe(X[40:45], Y[40:45])
    assert more.outputs[0].fit is model.outputs[0].fit
    assert more.outputs[0].exact
    again = more.observe(X[45:], Y[45:])
    assert again.outputs[0].fit is not model.outputs[0].fit
    torch.testing.assert_close(again.train_inputs[0], X)
    with pytest.raises(InputError, match="Yvar"):
        model.observe(X[40:], Y[40:], torch.ones(20, 1, dtype=D))


def test_known_noise_and_transforms_survive_observing():
    X, Y = data(60, 2)
    Yvar = torch.full_like(Y, 0.01)
    how = {"input_transform": Normalize(2), "outcome_transform": Standardize(2), "regressor": FIXED}
    model = IterGPModel(X[:40], Y[:40], Yvar[:40], **how)
    for first, last in ((40, 45), (45, 60)):
        model = model.observe(X[first:last], Y[first:last], Yvar[first:last])
        assert model._Yvar.shape == (last, 2)
        torch.testing.assert_close(model.train_targets, Y[:last].T, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(model.posterior(X).mean, Y, atol=0.5, rtol=0.5)


def test_duplicates_and_far_inputs_are_fine():
    """Equal points in a batch and in the data have equal answers; far from the data it is the prior."""
    X, Y = data()
    model = IterGPModel(torch.cat([X, X[:10]]), torch.cat([Y, Y[:10]]), regressor=FIXED)
    Z = X[:1].expand(3, 2).clone().requires_grad_(True)
    found = model.posterior(Z)
    assert torch.allclose(found.mean, found.mean[:1])
    found.rsample(torch.Size([5])).sum().backward()
    assert torch.isfinite(Z.grad).all()
    again = model.condition_on_observations(X[:5], Y[:5])
    assert torch.isfinite(again.posterior(X).variance).all()
    far = model.posterior(torch.full((1, 2), 1e6, dtype=D))
    prior = model.outputs[0].scaling.variance(np.array([1.2]))
    assert far.variance.item() == pytest.approx(prior.item())


def test_a_model_is_made_from_a_data_set():
    X, Y = data()
    dataset = SupervisedDataset(X, Y, feature_names=["a", "b"], outcome_names=["y"])
    assert set(IterGPModel.construct_inputs(dataset)) == {"train_X", "train_Y"}


def test_what_cannot_be_is_named():
    X, Y = data()
    with pytest.raises(InputError, match="without batches"):
        IterGPModel(X[None], Y[None])
    with pytest.raises(InputError, match="Yvar has shape"):
        IterGPModel(X, Y, torch.ones(3, 1, dtype=D))
    with pytest.raises(InputError, match="negative"):
        IterGPModel(X, Y, -torch.ones_like(Y))
    with pytest.raises(InputError, match="not finite"):
        IterGPModel(X, Y * torch.nan)
    with pytest.raises(InputError, match=r"expected \(..., q, 2\)"):
        made().posterior(torch.rand(4, 3, dtype=D))
    with pytest.raises(InputError, match="a column for each output"):
        made().condition_on_observations(X, torch.ones(40, 2, dtype=D))
