import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from bilaw.net import Net, frozen, mode


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def build(make, seed=3):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def conv_net():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(64, 3),
    )


@pytest.fixture
def module():
    """Return a net of mixed modes whose BatchNorm has seen other data."""
    made = build(conv_net)
    made[1].running_mean.fill_(0.25)
    made[1].running_var.fill_(2.0)
    made[3].eval()
    made[5].eval()
    return made


@pytest.fixture
def x():
    return torch.rand(8, 2, 4, 4, generator=seeded())


def modes(module):
    return [part.training for part in module.modules()]


def buffers(module):
    return {name: value.clone() for name, value in module.named_buffers()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def moved(theta, by=0.1, seed=1):
    drawn = seeded(seed)
    return {name: (p + by * torch.randn(p.shape, generator=drawn)).detach() for name, p in theta.items()}


def loaded(module, theta):
    """Return a copy of `module` that owns these parameters."""
    copy = build(conv_net)
    copy.load_state_dict({**module.state_dict(), **theta})
    return copy


# Eval mode


def test_frozen_is_the_module_in_eval_mode(module, x):
    before, state = modes(module), buffers(module)
    got = frozen(module)(x)
    assert modes(module) == before
    assert equal(buffers(module), state)
    torch.testing.assert_close(got, module.eval()(x), rtol=0, atol=0)


def test_frozen_gives_x_its_gradient_and_the_parameters_none(module, x):
    x.requires_grad_()
    for p in module.parameters():
        p.register_hook(lambda _: pytest.fail("a gradient reached a parameter"))
    frozen(module)(x).square().sum().backward()
    assert all(p.grad is None for p in module.parameters())
    got = x.grad.clone()
    x.grad = None
    module.eval()
    for p in module.parameters():
        p._backward_hooks.clear()
    module(x).square().sum().backward()
    torch.testing.assert_close(got, x.grad, rtol=0, atol=0)
    with torch.no_grad():
        leaf = x.detach()
    assert not frozen(module)(leaf).requires_grad


def test_frozen_at_other_parameters(module, x):
    net = Net(module)
    theta = moved(net.theta)
    for p in theta.values():
        p.requires_grad_()
    own = {name: p.detach().clone() for name, p in module.named_parameters()}
    got = net.frozen(theta)(x)
    assert not got.requires_grad
    torch.testing.assert_close(got, loaded(module, theta).eval()(x), rtol=0, atol=0)
    assert equal({name: p.detach() for name, p in module.named_parameters()}, own)
    assert not torch.equal(got, net.frozen()(x))


def test_frozen_follows_the_optimiser(module, x):
    net = Net(module)
    f = net.frozen()
    before = f(x)
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1.5)
    assert not torch.equal(f(x), before)
    torch.testing.assert_close(f(x), module.eval()(x), rtol=0, atol=0)


def test_any_other_callable_is_called_as_it_is_and_its_logits_are_checked():
    x = torch.rand(3, 4)
    assert torch.equal(frozen(lambda x: 2 * x)(x), 2 * x)
    for wrong in (lambda x: x[:, :1], lambda x: x[:, 0], lambda x: x[:1]):
        with pytest.raises(ValueError, match="model output"):
            frozen(wrong)(x)


def test_power_iteration_rests_while_frozen(x):
    module = build(lambda: nn.Sequential(nn.Flatten(), spectral_norm(nn.Linear(32, 3)))).train()
    state = buffers(module)
    assert state
    frozen(module)(x)
    assert equal(buffers(module), state)
    forward = Net(module).training()
    forward(x)
    assert equal(buffers(module), state)
    assert not equal(forward.buffers, state)


class Counting(nn.Module):
    def __init__(self, in_place=True):
        super().__init__()
        self.layer, self.in_place = nn.Linear(32, 3), in_place
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.in_place:
            self.calls += 1
        else:
            self.calls = self.calls + 1
        return self.layer(x.flatten(1))


@pytest.mark.parametrize("in_place", [True, False])
def test_frozen_never_moves_a_buffer(x, in_place):
    module = Counting(in_place)
    frozen(module)(x)
    assert module.calls == 0


# Train mode


def test_training_is_the_module_in_train_mode(x):
    module = build(lambda: nn.Sequential(nn.Conv2d(2, 3, 4), nn.BatchNorm2d(3), nn.Flatten())).eval()
    twin = build(lambda: nn.Sequential(nn.Conv2d(2, 3, 4), nn.BatchNorm2d(3), nn.Flatten())).train()
    net = Net(module)
    forward = net.training()
    for _ in range(2):  # the buffers that the first forward left are those of the second
        got, expected = forward(x), twin(x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert equal(forward.buffers, buffers(twin))
    assert got.requires_grad
    gradients = torch.autograd.grad(got.square().sum(), list(net.theta.values()))
    expected.square().sum().backward()
    for gradient, p in zip(gradients, twin.parameters(), strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-6, atol=1e-6)
    assert all(p.grad is None for p in module.parameters())


def test_buffers_stay_put_until_commit(module, x):
    net, state, before = Net(module), buffers(module), modes(module)
    places = [b.data_ptr() for b in module.buffers()]
    forward, other = net.training(), net.training(moved(net.theta))
    forward(x)
    other(x)
    forward(1 - x)
    assert equal(buffers(module), state)
    assert modes(module) == before
    assert not equal(forward.buffers, state)
    assert not equal(forward.buffers, other.buffers)
    net.commit(forward)
    assert equal(buffers(module), forward.buffers)
    assert [b.data_ptr() for b in module.buffers()] == places  # in place: optimisers and views keep theirs
    assert module[1].num_batches_tracked == 2
    assert not any(b.requires_grad for b in module.buffers())


def test_batchnorm_statistics_by_hand(x):
    module = build(lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Flatten()))
    net = Net(module)
    forward = net.training()
    forward(x)
    net.commit(forward)
    mean = x.mean((0, 2, 3))
    torch.testing.assert_close(module[0].running_mean, 0.1 * mean)
    torch.testing.assert_close(module[0].running_var, 0.9 + 0.1 * x.var((0, 2, 3), unbiased=True))


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_are_replaced_are_committed_as_well(x, in_place):
    module = Counting(in_place)
    net = Net(module)
    forward = net.training()
    forward(x)
    forward(x)
    assert module.calls == 0
    assert forward.buffers["calls"] == 2
    net.commit(forward)
    assert module.calls == 2


def test_equal_noise_gives_equal_masks(module, x):
    net = Net(module)

    def run(noise):
        forward = net.training(noise=noise)
        return forward(x), forward(x)

    (first, second), again, other = run(5), run(5), run(1234)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, other[0])


def test_equal_noise_gives_equal_masks_at_other_parameters():
    """Dropout of a constant shows its mask; the parameters only scale it."""

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.scale * nn.functional.dropout(torch.ones_like(x), 0.5, self.training)

    net, x = Net(Masked()), torch.ones(20, 30)
    one, other = net.training(noise=7), net.training({"scale": torch.tensor(3.0)}, noise=7)
    for _ in range(3):
        assert torch.equal(3 * one(x), other(x))
    assert 0.4 < (one(x) > 0).float().mean() < 0.6


def test_the_callers_random_numbers_are_left_alone(module, x):
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    forward = Net(module).training(noise=3)
    forward(x)
    first = forward(x)
    frozen(module)(x)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]
    assert random.getstate() == states[2]
    torch.rand(5)  # nor do they matter
    again = Net(module).training(noise=3)
    again(x)
    assert torch.equal(again(x), first)


# Either mode


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = conv_net()

    def forward(self, x):
        self.body(x)
        torch.rand(3)
        raise ArithmeticError("inside the model")


@pytest.mark.parametrize("run", [lambda net, x: net.frozen()(x), lambda net, x: net.training()(x)])
def test_everything_is_put_back_when_the_model_raises(run, x):
    module = build(Fragile)
    module.body[1].eval()
    module.body[4].eval()
    own = {name: id(p) for name, p in module.named_parameters()}
    before, state, random_state = modes(module), buffers(module), torch.get_rng_state()
    with pytest.raises(ArithmeticError):
        run(Net(module), x)
    assert modes(module) == before
    assert equal(buffers(module), state)
    assert torch.equal(torch.get_rng_state(), random_state) or run.__code__.co_names[0] == "frozen"
    assert {name: id(p) for name, p in module.named_parameters()} == own


def test_frozen_follows_committed_statistics_as_it_follows_the_optimiser(module, x):
    net = Net(module)
    f = net.frozen()
    forward = net.training()
    forward(x)
    net.commit(forward)
    torch.testing.assert_close(f(x), module.eval()(x), rtol=0, atol=0)


@pytest.mark.parametrize("training", [True, False])
def test_mode_comes_back_part_by_part(module, training):
    before = modes(module)
    assert len(set(before)) == 2
    with mode(module, training):
        assert modes(module) == [training] * len(before)
        with mode(module, not training):
            assert modes(module) == [not training] * len(before)
        assert modes(module) == [training] * len(before)
    assert modes(module) == before
    with pytest.raises(KeyError), mode(module, training):
        raise KeyError
    assert modes(module) == before


def test_parameters_that_need_no_gradient_stay_out_of_theta(module, x):
    module[5].requires_grad_(False)
    net = Net(module)
    assert set(net.theta) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert all(net.theta[name] is p for name, p in module.named_parameters() if p.requires_grad)
    net.training()(x).sum().backward()
    assert module[5].weight.grad is None
    assert module[0].weight.grad is not None
    torch.testing.assert_close(net.frozen()(x), module.eval()(x), rtol=0, atol=0)
    assert [p.requires_grad for p in module[5].parameters()] == [False, False]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.down.weight = self.up.weight

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


def test_tied_weights_are_one_parameter_wherever_theta_is():
    module, x = build(Tied), torch.rand(5, 4, generator=seeded())
    net = Net(module)
    assert list(net.theta) == ["up.weight"]
    weight = torch.randn(4, 4, generator=seeded(1)).requires_grad_()
    expected = torch.tanh(x @ weight.T) @ weight.T
    torch.testing.assert_close(net.frozen({"up.weight": weight})(x), expected.detach())
    got = net.training({"up.weight": weight})(x)
    torch.testing.assert_close(got, expected)
    (one,), (other,) = (torch.autograd.grad(z.square().sum(), weight) for z in (got, expected))
    torch.testing.assert_close(one, other)
    assert module.down.weight is module.up.weight


# What is refused


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (lambda x: x[:, 0], "(8,)"),
        (lambda x: x[:, :1], "(8, 1)"),
        (lambda x: x[:4], "(4, 32)"),
        (lambda x: x[:, :, None], "(8, 32, 1)"),
        (lambda x: (x, x), "'tuple'"),
        (lambda x: {"logits": x}, "'dict'"),
        (lambda x: x.sum(), "()"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_that_are_no_logits_are_refused(output, got, training, x):
    class Wrong(nn.Module):
        def forward(self, x):
            return output(x.flatten(1))

    net = Net(Wrong())
    with pytest.raises(ValueError, match="it takes logits of shape \\(8, classes\\), with at least 2") as error:
        (net.training() if training else net.frozen())(x)
    assert f"model output = {got} " in str(error.value)
    assert net.module.training


@pytest.mark.parametrize("model", [None, "small-cnn", lambda x: x, nn.Linear])
def test_what_is_no_module_is_refused(model):
    with pytest.raises(ValueError, match=r"it takes a torch\.nn\.Module that maps images to logits") as error:
        Net(model)
    assert f"model = '{type(model).__name__}'" in str(error.value)


@pytest.mark.parametrize("model", [None, "small-cnn", 3])
def test_what_is_no_classifier_at_all_is_refused(model):
    with pytest.raises(ValueError, match="model"):
        frozen(model)
