import pytest
import torch
from torch import nn

from bilaw.algorithm import Method, bilaw_step
from bilaw.attacks import PGD
from bilaw.derivatives import DERIVATIVES, central, exact
from bilaw.losses import LOSSES, AdversarialCE
from bilaw.models import build
from bilaw.net import Net
from bilaw.types import Adversarial, Batch
from bilaw.weighting import Learned, Omega, WeightNet


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def small(dtype=torch.float64):
    """Return a small net with everything forward mode has to get through."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(16, 8),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            nn.Linear(8, 3),
        ).to(dtype)


def sample(n=6, shape=(2, 4, 4), classes=3, dtype=torch.float64, seed=0):
    """Return a batch, and points in the 8/255 ball that stand for what an attack found."""
    drawn = seeded(seed)
    x = torch.rand(n, *shape, generator=drawn, dtype=dtype)
    y = torch.randint(classes, (n,), generator=drawn)
    x_adv = (x + 8 / 255 * torch.randn(x.shape, generator=drawn, dtype=dtype).sign()).clamp(0, 1)
    return Batch(x, y, torch.arange(n)), Adversarial(x_adv, torch.zeros_like(y), 10)


def directions(theta, seed=2):
    drawn = seeded(seed)
    return {name: torch.randn(p.shape, generator=drawn, dtype=p.dtype) for name, p in theta.items()}


def robust_of(net, name, batch, found, noise=11):
    return lambda theta: LOSSES[name]()(net.training(theta, noise=noise), batch, found).robust


def by_jacobian(f, theta, v):
    """Return sum_p <d f_j / dp, v_p>, a whole backward for every sample j."""
    theta = {name: p.detach().requires_grad_() for name, p in theta.items()}
    rows = []
    for value in f(theta):
        gradients = torch.autograd.grad(
            value, list(theta.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        rows.append(sum((g * d).sum() for g, d in zip(gradients, v.values(), strict=True)))
    return torch.stack(rows)


def by_double_backward(f, theta, v):
    """Return d <J^T u, v> / du."""
    theta = {name: p.detach().requires_grad_() for name, p in theta.items()}
    value = f(theta)
    u = torch.zeros_like(value).requires_grad_()
    gradients = torch.autograd.grad(value, list(theta.values()), u, create_graph=True)
    along = sum((g * d).sum() for g, d in zip(gradients, v.values(), strict=True))
    return torch.autograd.grad(along, u)[0]


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.attacked])
def test_exact_is_the_jacobian_times_v(name):
    net = Net(small())
    f, v = robust_of(net, name, *sample()), directions(net.theta)
    expected = by_jacobian(f, net.theta, v)
    assert expected.abs().min() > 1e-6
    torch.testing.assert_close(exact(f, net.theta, v), expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(by_double_backward(f, net.theta, v), expected, rtol=1e-11, atol=1e-12)


def test_batchnorm_and_dropout_both_matter_to_that():
    """Or the agreement above would say little: in eval mode, or with other masks, s is another."""
    net = Net(small())
    batch, found = sample()
    v = directions(net.theta)
    s = exact(robust_of(net, "trades", batch, found), net.theta, v)
    other_masks = exact(robust_of(net, "trades", batch, found, noise=99), net.theta, v)
    assert ((s - other_masks).norm() / s.norm()) > 0.01
    one_by_one = torch.cat(
        [
            exact(
                robust_of(net, "trades", Batch(*(p[i : i + 2] for p in batch)), found._replace(x=found.x[i : i + 2])),
                net.theta,
                v,
            )
            for i in range(0, 6, 2)
        ]
    )
    assert ((s - one_by_one).norm() / s.norm()) > 0.01  # through the batch's statistics samples see each other


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_every_derivative_agrees_on_every_loss(derivative, name):
    net = Net(small())
    f, v = robust_of(net, name, *sample()), directions(net.theta)
    s = DERIVATIVES[derivative](f, net.theta, v)
    torch.testing.assert_close(s, by_jacobian_or_zero(f, net.theta, v, name), rtol=1e-5, atol=1e-6)


def by_jacobian_or_zero(f, theta, v, name):
    return by_jacobian(f, theta, v) if LOSSES[name].attacked else torch.zeros(6, dtype=torch.float64)


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_a_derivative_leaves_no_trace(derivative):
    module = small()
    module[1].eval()
    net = Net(module)
    f, v = robust_of(net, "trades", *sample()), directions(net.theta)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    direction = {name: d.clone() for name, d in v.items()}
    modes, random_state = [part.training for part in module.modules()], torch.get_rng_state()
    s = DERIVATIVES[derivative](f, net.theta, v)
    assert s.shape == (6,)
    assert not s.requires_grad
    assert s.grad_fn is None
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(torch.equal(d, direction[name]) for name, d in v.items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert [part.training for part in module.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random_state)


def quadratic(dtype=torch.float64):
    """Return f_j = (a_j . p)^2 + b_j q, a point, a direction, and the derivative by hand."""
    drawn = seeded(5)
    a, b = (torch.randn(7, n, generator=drawn, dtype=dtype) for n in (4, 1))
    theta = {"p": torch.randn(4, generator=drawn, dtype=dtype), "q": torch.randn(1, generator=drawn, dtype=dtype)}
    v = {"p": torch.randn(4, generator=drawn, dtype=dtype), "q": torch.randn(1, generator=drawn, dtype=dtype)}
    expected = 2 * (a @ theta["p"]) * (a @ v["p"]) + b @ v["q"]
    return lambda at: (a @ at["p"]) ** 2 + b @ at["q"], theta, v, expected


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_by_hand_on_a_quadratic(derivative):
    f, theta, v, expected = quadratic()  # central differences have no error of their own here
    torch.testing.assert_close(DERIVATIVES[derivative](f, theta, v), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("scale", [-1.0, 1e-6, 1e6, 1e-12])
def test_linear_in_the_direction(derivative, scale):
    f, theta, v, expected = quadratic()
    s = DERIVATIVES[derivative](f, theta, {name: scale * d for name, d in v.items()})
    torch.testing.assert_close(s, scale * expected, rtol=1e-8, atol=1e-8 * abs(scale))


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_direction_no_change(derivative, dtype):
    f, theta, v, _ = quadratic(dtype)
    s = DERIVATIVES[derivative](f, theta, {name: torch.zeros_like(d) for name, d in v.items()})
    assert s.tolist() == [0.0] * 7
    assert s.dtype == dtype


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_what_does_not_depend_on_theta_does_not_change(derivative):
    _, theta, v, _ = quadratic()
    s = DERIVATIVES[derivative](lambda at: torch.arange(3.0), theta, v)
    assert s.tolist() == [0.0, 0.0, 0.0]


def test_central_moves_theta_by_length_either_way():
    f, theta, v, _ = quadratic()
    seen = []

    def watch(at):
        seen.append(torch.cat([at[name] - theta[name] for name in theta]))
        return f(at)

    central(watch, theta, v, length=1e-3)
    direction = torch.cat(list(v.values()))
    ahead, behind = seen
    torch.testing.assert_close(ahead, 1e-3 * direction / direction.norm(), rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(behind, -ahead, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", ["adversarial-ce", "trades"])
@pytest.mark.parametrize("seed", [0, 1])
def test_central_is_within_one_percent_on_small_cnn_in_float32(name, seed):
    """Small-CNN whose last layer is sharpened, as training would: see docs/decisions.md on why that matters.

    Untrained, p(x) and p(x_adv) hardly differ, TRADES' robust terms are near zero and smooth nowhere near, and the
    central difference is off by a few percent for want of digits and because of kinks.
    """
    net = Net(build("small-cnn", (3, 32, 32), 10, seed=seed))
    with torch.no_grad():
        list(net.module.modules())[-1].weight *= 8
    batch, found = sample(16, (3, 32, 32), 10, torch.float32, seed)
    validation, found_validation = sample(16, (3, 32, 32), 10, torch.float32, seed + 10)
    terms = LOSSES[name]()(net.training(), validation, found_validation)
    gradients = torch.autograd.grad((terms.fixed + terms.robust).mean(), list(net.theta.values()))
    v = dict(zip(net.theta, gradients, strict=True))
    f = robust_of(net, name, batch, found)
    s, near = exact(f, net.theta, v), central(f, net.theta, v)
    assert ((near - s).norm() / s.norm()) < 0.01
    clear = s.abs() > 0.05 * s.abs().max()
    assert torch.equal(near.sign()[clear], s.sign()[clear])


def test_central_closes_in_on_exact_as_its_steps_shrink():
    """What is left between the two is the size of the step (ReLUs that switch within it), so float64 can shed it."""
    net = Net(build("small-cnn", (3, 32, 32), 10, seed=0).double())
    f, v = robust_of(net, "trades", *sample(8, (3, 32, 32), 10)), directions(net.theta)
    s = exact(f, net.theta, v)
    errors = [((central(f, net.theta, v, length) - s).norm() / s.norm()).item() for length in (1e-2, 1e-4, 1e-6)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-4


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_a_sample_aligned_with_itself_has_positive_s(derivative):
    """With v the gradient of robust_j itself, s_j = ||v||^2 > 0."""
    net = Net(small())
    f = robust_of(net, "trades", *sample())
    for j in range(6):
        gradients = torch.autograd.grad(f(net.theta)[j], list(net.theta.values()))
        v = dict(zip(net.theta, gradients, strict=True))
        s = DERIVATIVES[derivative](f, net.theta, v)
        squared = sum(g.square().sum() for g in gradients)
        torch.testing.assert_close(s[j], squared, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-25, 1e20])
def test_central_agrees_with_exact_on_directions_of_any_size(scale):
    f, theta, v, _ = quadratic(torch.float32)
    v = {name: scale * d for name, d in v.items()}
    s = exact(f, theta, v)
    torch.testing.assert_close(central(f, theta, v), s, rtol=0.01, atol=0.01 * float(s.abs().max()), equal_nan=True)


class Attends(nn.Module):
    """A transformer's layer over the rows of an image."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
            self.out = nn.Linear(64, 3, dtype=torch.float64)

    def forward(self, x):
        return self.out(self.layer(x[:, 0]).flatten(1))


@pytest.mark.parametrize("name", ["adversarial-ce", "trades"])
def test_attention_has_an_exact_derivative(name):
    net = Net(Attends())
    f, v = robust_of(net, name, *sample(shape=(1, 8, 8))), directions(net.theta)
    torch.testing.assert_close(exact(f, net.theta, v), central(f, net.theta, v), rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(exact(f, net.theta, v), by_jacobian(f, net.theta, v), rtol=1e-9, atol=1e-12)


def test_a_model_that_attends_learns_its_weights():
    net = Net(Attends())
    x, y = torch.rand(12, 1, 8, 8, generator=seeded(), dtype=torch.float64), torch.arange(12) % 3
    batch, held = (Batch(x[part], y[part], torch.arange(6)) for part in (slice(6), slice(6, 12)))
    omega = Omega(WeightNet(3).double(), "multiclass-margin")
    scheme = Learned(omega, torch.optim.SGD(omega.network.parameters(), lr=0.1))
    before = [p.clone() for p in omega.network.parameters()]
    optimizer = torch.optim.SGD(net.theta.values(), lr=0.1)
    record = bilaw_step(net, optimizer, batch, held, Method(AdversarialCE(), PGD(0.1, steps=2), scheme), 0, 0)
    assert record.s.abs().min() > 0
    assert any(not torch.equal(a, b) for a, b in zip(before, omega.network.parameters(), strict=True))
    assert torch.backends.cuda.flash_sdp_enabled()  # what is global is as it was
