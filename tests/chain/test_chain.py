"""A chain against the module it was read off: the same logits, the same gradients, and nothing left behind."""

import copy

import pytest
import torch
from chain_kit import CHAINS, OTHERS, Masked, build, images, seeded
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from bilaw.chain import Chain, trace
from bilaw.chain.layers import Affine, Conv
from bilaw.chain.thin import thin_conv
from bilaw.net import Frozen, Net, frozen, quick


def state(module):
    return {**dict(module.named_parameters()), **dict(module.named_buffers(remove_duplicate=False))}


def gradient(logits_of, x):
    x = x.clone().requires_grad_()
    logits = logits_of(x)
    weights = torch.randn(logits.shape, generator=seeded(9), dtype=torch.float64).to(logits.dtype)
    return logits.detach(), torch.autograd.grad((weights * logits).sum(), x)[0]


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_has_the_modules_logits_and_gradients(name):
    make, shape = CHAINS[name]
    module, x = build(make), images(shape)
    chain = Chain(trace(module), state(module))
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in chain.layers)
    for ours, theirs in zip(gradient(chain, x), gradient(module.eval(), x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_batch_normalisation_goes_into_the_convolution_before_it_and_nowhere_else():
    small, _ = CHAINS["small-cnn"]
    layers = Chain(trace(build(small)), state(build(small))).layers
    assert [type(layer) for layer in layers].count(Conv) == 6
    assert not any(isinstance(layer, Affine) for layer in layers)
    strided, _ = CHAINS["strided"]
    layers = Chain(trace(build(strided)), state(build(strided))).layers
    assert [type(layer) for layer in layers].count(Affine) == 1


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("half", "slack"), [(None, 1e-5), (torch.bfloat16, 0.05)])
def test_rounding_is_all_that_lower_precision_changes(name, half, slack):
    make, shape = CHAINS[name]
    module, x = build(make, dtype=torch.float32), images(shape, dtype=torch.float32)
    logits = Chain(trace(module), state(module), half)(x)
    assert logits.dtype == torch.float32
    expected = module.eval()(x)
    assert (logits - expected).abs().max() <= slack * expected.abs().max()


@pytest.mark.parametrize("name", CHAINS)
def test_a_frozen_classifier_hands_out_its_chain_at_its_own_parameters(name):
    make, shape = CHAINS[name]
    module, x = build(make), images(shape)
    net = Net(module)
    theta = {key: p.detach() * 1.25 for key, p in net.theta.items()}
    buffers = {key: b + 1 for key, b in module.named_buffers()}
    at = net.frozen(theta, buffers)
    assert isinstance(at.quick(x), Chain)
    torch.testing.assert_close(at.quick(x)(x), at(x), rtol=1e-10, atol=1e-12)
    assert not torch.allclose(at(x), net.frozen()(x))
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(0.5)
    torch.testing.assert_close(net.frozen().quick(x)(x), module.eval()(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_chain_is_attacked_as_it_is(name):
    module = build(OTHERS[name])
    assert trace(module) is None
    if name not in ("circular", "batch statistics"):
        classifier = frozen(module)
        assert quick(classifier, images((1, 4, 4))) is classifier


def test_a_forward_that_does_more_than_its_layers_tell_is_found_out():
    class Sly(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(16, 3)

        def forward(self, x):
            return self.out(x.flatten(1))

        def __call__(self, x):
            return 2 * super().__call__(x)

    module = build(Sly)
    assert trace(module) is not None
    classifier = frozen(module)
    assert quick(classifier, images((1, 4, 4))) is classifier


def test_reading_a_module_leaves_no_trace_in_it():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.out, self.seen = nn.Linear(16, 3), 0
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            self.calls += torch.rand(())
            return self.out(x.flatten(1))

    module = build(Counting).train()
    before, drawn = copy.deepcopy(module), torch.get_rng_state()
    trace(module)
    assert module.seen == 0
    assert module.calls == 0
    assert module.training
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), before.parameters(), strict=True))


def test_what_changes_meanwhile_is_noticed():
    class Phased(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.out, self.warm, self.heat = nn.Conv2d(1, 1, 3, padding=1), nn.Linear(16, 3), False, 1.0

        def forward(self, x):
            return self.out((x if self.warm else self.conv(x).relu()).flatten(1)) / self.heat

    module, x = build(Phased), images((1, 4, 4))
    classifier = frozen(module)
    for change in (lambda: None, lambda: setattr(module, "heat", 0.1), lambda: setattr(module, "warm", True)):
        change()
        assert quick(classifier, x) is classifier or torch.allclose(quick(classifier, x)(x), classifier(x))
    assert isinstance(quick(frozen(build(CHAINS["fc1"][0])), images((3, 5, 4))), Chain)
    net = build(CHAINS["fc1"][0])
    classifier = frozen(net)
    assert isinstance(quick(classifier, images((3, 5, 4))), Chain)
    net[1].register_forward_hook(lambda module, args, out: 2 * out)
    assert quick(classifier, images((3, 5, 4))) is classifier


def test_a_masked_class_does_not_hide_what_differs():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(16, 3)

        def forward(self, x):
            return self.out(x.flatten(1))

        def __call__(self, x):
            return super().__call__(x) * torch.tensor([-1.0, 1.0, 1.0], dtype=x.dtype)

    module = build(Outer)
    with torch.no_grad():
        module.out.bias[2] = -1e4
    classifier = frozen(module)
    assert quick(classifier, images((1, 4, 4))) is classifier


def test_a_chain_is_a_copy():
    for name in ("fc1", "tiny-cnn", "small-cnn", "written"):
        make, shape = CHAINS[name]
        module, x = build(make), images(shape)
        chain = frozen(module).quick(x)
        before = chain(x)
        with torch.no_grad():
            for value in (*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())):
                value.mul_(1.5)
        assert torch.equal(chain(x), before)


def test_buffers_may_be_given_in_part():
    module, x = build(CHAINS["small-cnn"][0]), images((3, 17, 8))
    name, value = next(iter((n, b) for n, b in module.named_buffers() if n.endswith("running_mean")))
    at = Net(module).frozen(None, {name: value + 1})
    assert isinstance(at.quick(x), Chain)
    torch.testing.assert_close(at.quick(x)(x), at(x), rtol=1e-10, atol=1e-12)


def test_a_mask_of_truths_is_a_product():
    module, x = build(Masked), images((1, 4, 4))
    module.mask[0, 1:3] = False
    chain = frozen(module).quick(x)
    assert isinstance(chain, Chain)
    torch.testing.assert_close(chain(x), module(x), rtol=1e-10, atol=1e-12)


def test_full_precision_has_the_last_word_without_a_chain_too():
    x = images((1, 4, 4), dtype=torch.float32)
    classifier = Net(build(OTHERS["unknown layer"], dtype=torch.float32), bf16=True).frozen()
    full = Net(classifier.net.module).frozen()
    assert torch.equal(classifier.quick(x, bf16=False)(x), full(x))
    assert not torch.equal(classifier.quick(x)(x), full(x))


def test_other_callables_and_compiled_nets_are_climbed_as_they_are():
    x = images((1, 4, 4))
    assert quick(torch.sum, x) is torch.sum
    net = Net(build(CHAINS["fc1"][0]))
    net.compiled = True  # what `compile=True` says, without loading the compiler
    assert isinstance(net.frozen().quick(images((3, 5, 4))), Frozen)


def test_bf16_attacks_climb_bf16_and_are_judged_in_float32():
    module, x = build(CHAINS["tiny-cnn"][0], dtype=torch.float32), images((1, 28, 28), dtype=torch.float32)
    classifier = Net(module, bf16_attacks=True).frozen()
    plain = module.eval()(x)
    torch.testing.assert_close(classifier(x), plain, rtol=0, atol=0)
    assert 0 < (classifier.quick(x)(x) - plain).abs().max() < 0.05 * plain.abs().max()
    torch.testing.assert_close(classifier.quick(x, bf16=False)(x), plain)
    other = Net(build(OTHERS["unknown layer"], dtype=torch.float32), bf16_attacks=True).frozen()
    x = images((1, 4, 4), dtype=torch.float32)
    assert 0 < (other.quick(x)(x) - other(x)).abs().max() < 0.05


sizes = st.integers(1, 3)


@given(
    channels=st.integers(1, 4), kernel=st.tuples(sizes, sizes), stride=st.tuples(sizes, sizes),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)), dilation=st.tuples(sizes, sizes), last=st.booleans(),
)  # fmt: skip
def test_a_thin_convolution_has_the_gradient_of_any_other(channels, kernel, stride, padding, dilation, last):
    x = torch.rand(2, channels, 8, 9, generator=seeded(), dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, channels, *kernel, generator=seeded(), dtype=torch.float64)
    out = F.conv2d(x, weight, None, stride, padding, dilation)
    along = torch.randn(out.shape, generator=seeded(), dtype=torch.float64)
    if last:
        along = along.contiguous(memory_format=torch.channels_last)
    (expected,) = torch.autograd.grad(out, x, along)
    thin = thin_conv(x, weight, None, stride, padding, dilation)
    torch.testing.assert_close(thin, out)
    torch.testing.assert_close(torch.autograd.grad(thin, x, along)[0], expected)
