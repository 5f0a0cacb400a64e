from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import avg_pool2d, conv2d, linear, relu

from bilaw.models import MODELS, Normalize, build, normalized, wide_resnet

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]
SMALL = {**MODELS, "wrn-32-10": partial(wide_resnet, depth=8, width=1)}  # every row, at a size for two cores
LEAST_SIDE = {"fc1": 1, "tiny-cnn": 4, "small-cnn": 8, "wrn-32-10": 1}


def count(name, shape, classes):
    with torch.device("meta"):  # shapes without storage: the 46 M weights are never drawn
        return sum(p.numel() for p in build(name, shape, classes).parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "expected"),
    [
        ("fc1", (1, 28, 28), 10, 784 * 1024 + 1024 + 1024 * 10 + 10),
        ("fc1", (3, 32, 32), 2, 3072 * 1024 + 1024 + 1024 * 2 + 2),
        ("tiny-cnn", (1, 28, 28), 10, 16 * 16 + 16 + 16 * 32 * 16 + 32 + 1568 * 100 + 100 + 100 * 10 + 10),
        ("tiny-cnn", (1, 8, 8), 10, 16 * 16 + 16 + 16 * 32 * 16 + 32 + 128 * 100 + 100 + 100 * 10 + 10),
        ("small-cnn", (3, 32, 32), 10, 1_639_282),
        ("small-cnn", (3, 32, 32), 100, 1_639_282 + 90 * 257),
        ("wrn-32-10", (3, 32, 32), 10, 46_160_474),
        ("wrn-34-10", (3, 32, 32), 10, 46_160_474),
        ("wrn-32-10", (3, 32, 32), 100, 46_160_474 + 90 * 641),
        ("wrn-28-10", (3, 32, 32), 10, 36_479_194),  # the number published with the architecture: 36.5 M
    ],
)
def test_parameter_count(name, shape, classes, expected):
    assert count(name, shape, classes) == expected


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_one_row_per_image(name, shape, classes):
    model = SMALL[name](shape, classes)
    x = torch.rand(2, *shape)
    for training in (True, False):
        logits = model.train(training)(x)
        assert logits.shape == (2, classes)
        assert logits.isfinite().all()


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_shape_from_the_smallest_up(name, data):
    sides = st.integers(LEAST_SIDE[name], LEAST_SIDE[name] + 9)
    shape = data.draw(st.tuples(st.integers(1, 4), sides, sides))
    model = SMALL[name](shape, 3).eval()
    assert model(torch.rand(1, *shape)).shape == (1, 3)
    assert SMALL[name](list(shape), 3).eval()(torch.rand(1, *shape)).shape == (
        1,
        3,
    )  # as configurations hold it


@pytest.mark.parametrize("name", MODELS)
def test_input_is_left_alone_and_every_parameter_is_used(name):
    model = SMALL[name]((1, 8, 8), 3)
    x = torch.rand(4, 1, 8, 8, requires_grad=True)
    before = x.detach().clone()
    grads = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])  # unused ones raise
    assert torch.equal(x, before)
    assert grads[0].abs().sum() > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # PyTorch's own, at the first jvp
@pytest.mark.parametrize("name", MODELS)
def test_forward_mode_matches_reverse_mode(name):  # the meta-gradient is one directional derivative
    model = SMALL[name]((1, 8, 8), 3).eval().double()
    x, v = torch.rand(2, 2, 1, 8, 8, dtype=torch.float64)
    _, forward = torch.func.jvp(model, (x,), (v,))
    _, pullback = torch.func.vjp(model, x)
    u = torch.rand_like(forward)
    torch.testing.assert_close((u * forward).sum(), (pullback(u)[0] * v).sum(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fc1_by_hand(shape):
    model = build("fc1", shape, 10)
    w1, b1, w2, b2 = model.parameters()
    x = torch.rand(3, *shape)
    torch.testing.assert_close(model(x), relu(x.reshape(3, -1) @ w1.T + b1) @ w2.T + b2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiny_cnn_by_hand(shape):
    model = build("tiny-cnn", shape, 10)
    c1, d1, c2, d2, w1, b1, w2, b2 = model.parameters()
    x = torch.rand(3, *shape)
    h = relu(conv2d(relu(conv2d(x, c1, d1, stride=2, padding=1)), c2, d2, stride=2, padding=1))
    torch.testing.assert_close(model(x), linear(relu(linear(h.reshape(3, -1), w1, b1)), w2, b2))


def test_small_cnn_layers_in_order():
    kinds = [type(m) for m in build("small-cnn", (3, 32, 32), 10).modules() if not list(m.children())]
    block = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * 2 + [nn.MaxPool2d]
    assert kinds == block * 3 + [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]


def test_wrn_keys_and_shapes_are_the_literature_s():
    with torch.device("meta"):
        state = {key: tuple(value.shape) for key, value in build("wrn-32-10", (3, 32, 32), 10).state_dict().items()}
    bn = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    expected = {"conv1.weight", "fc.weight", "fc.bias", *(f"bn1.{leaf}" for leaf in bn)}
    for group in (1, 2, 3):
        expected.add(f"block{group}.layer.0.convShortcut.weight")
        for block in range(5):
            at = f"block{group}.layer.{block}"
            expected |= {f"{at}.conv1.weight", f"{at}.conv2.weight"}
            expected |= {f"{at}.{layer}.{leaf}" for layer in ("bn1", "bn2") for leaf in bn}
    assert set(state) == expected
    assert state["conv1.weight"] == (16, 3, 3, 3)
    assert state["block1.layer.0.bn1.weight"] == (16,)
    assert state["block1.layer.0.convShortcut.weight"] == (160, 16, 1, 1)
    assert state["block2.layer.0.conv1.weight"] == (320, 160, 3, 3)
    assert state["block3.layer.4.conv2.weight"] == (640, 640, 3, 3)
    assert state["bn1.running_var"] == (640,)
    assert state["fc.weight"] == (10, 640)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("width", [1, 2])  # at width 1 the first group needs no projection
def test_wrn_by_hand(width, training):
    model = wide_resnet((3, 32, 32), 10, depth=14, width=width).train(training)
    x = torch.rand(2, 3, 32, 32)
    h = model.conv1(x)
    for index, blocks in enumerate((model.block1, model.block2, model.block3)):
        for place, block in enumerate(blocks.layer):
            stride = 2 if index > 0 and place == 0 else 1
            active = relu(block.bn1(h))
            out = relu(block.bn2(conv2d(active, block.conv1.weight, stride=stride, padding=1)))
            out = conv2d(out, block.conv2.weight, padding=1)
            changes = out.shape[1] != h.shape[1]
            h = out + (conv2d(active, block.convShortcut.weight, stride=stride) if changes else h)
            assert (block.convShortcut is not None) == changes
    assert h.shape == (2, 64 * width, 8, 8)
    pooled = avg_pool2d(relu(model.bn1(h)), 8).flatten(1)  # the literature's pooling
    torch.testing.assert_close(model(x), linear(pooled, model.fc.weight, model.fc.bias))


def test_wrn_initial_weights():
    model = build("wrn-8-4", (3, 32, 32), 10, seed=0)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            after, _, height, width = module.weight.shape
            std = math.sqrt(2 / (after * height * width))
            sigma = 1 / math.sqrt(module.weight.numel())  # of the sample mean, in units of std
            assert abs(module.weight.mean()) < 5 * sigma * std
            assert module.weight.std().item() == pytest.approx(std, rel=5 * sigma)
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
    assert (model.fc.bias == 0).all()


@pytest.mark.parametrize(("paper", "literature"), [(8, 10), (14, 16), (26, 28), (32, 34)])
def test_both_ways_to_count_layers_name_one_net(paper, literature):
    with torch.device("meta"):
        one, other = (build(f"wrn-{depth}-1", (3, 32, 32), 10) for depth in (paper, literature))
    assert [(k, v.shape) for k, v in one.state_dict().items()] == [(k, v.shape) for k, v in other.state_dict().items()]
    assert len(one.block1.layer) == (paper - 2) // 6


SEEDED = ["fc1", "tiny-cnn", "small-cnn", "wrn-8-1"]


def equal(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", SEEDED)
def test_weights_are_a_function_of_the_seed(name):
    first = build(name, (1, 8, 8), 3, seed=7)
    torch.rand(5)  # the caller's own draws change nothing
    assert equal(first, build(name, (1, 8, 8), 3, seed=7))
    assert not equal(first, build(name, (1, 8, 8), 3, seed=8))
    with torch.device("meta"):  # nor does the default device
        assert equal(first, build(name, (1, 8, 8), 3, seed=7))


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_leaves_the_caller_s_random_state(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda _: pytest.fail("the GPUs were reseeded"))
    before = torch.get_rng_state()
    build(name, (1, 8, 8), 3, seed=2**64 - 1)
    with pytest.raises(ValueError, match="classes"):
        build(name, (1, 8, 8), 1, seed=0)
    assert torch.equal(before, torch.get_rng_state())


def test_without_a_seed_the_caller_s_random_state_decides():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        one, other = build("fc1", (1, 8, 8), 3), build("fc1", (1, 8, 8), 3)
        torch.manual_seed(3)
        assert equal(one, build("fc1", (1, 8, 8), 3))
        assert not equal(one, other)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "shape",
    [(8, 8), (1, 1, 8, 8), (), (0, 8, 8), (1, -8, 8), (1, 8, 0), (1, 8.0, 8), (True, 8, 8), "188", None, 64],
    ids=repr,
)
def test_wrong_shapes_are_refused(name, shape):
    with pytest.raises(ValueError, match="channels, height, width") as error:
        build(name, shape, 10)
    assert f"shape = {shape!r}" in str(error.value)


@pytest.mark.parametrize("name", [name for name in MODELS if LEAST_SIDE[name] > 1])
def test_too_small_an_image_is_refused(name):
    side = LEAST_SIDE[name]
    for shape in ((1, side - 1, 32), (1, 32, side - 1)):
        with pytest.raises(ValueError, match=f"height and width >= {side}") as error:
            build(name, shape, 10)
        assert f"shape = {shape!r}" in str(error.value)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [1, 0, -3, 2.5, True, "10", None], ids=repr)
def test_wrong_class_counts_are_refused(name, classes):
    with torch.device("meta"), pytest.raises(ValueError, match="a whole number >= 2") as error:
        build(name, (3, 32, 32), classes)
    assert f"classes = {classes!r}" in str(error.value)


@pytest.mark.parametrize(
    ("make", "setting", "accepted"),
    [
        (lambda: build("resnet", (1, 8, 8), 10), "model = 'resnet'", "tiny-cnn, wrn-32-10, or any wrn-D-K"),
        (lambda: build("tiny-cn", (1, 8, 8), 10), "model = 'tiny-cn'", "did you mean 'tiny-cnn'?"),
        (lambda: build("wrn-D-K", (1, 8, 8), 10), "model = 'wrn-D-K'", "wrn-D-K"),
        (lambda: build("wrn-32-10 ", (1, 8, 8), 10), "model = 'wrn-32-10 '", "did you mean 'wrn-32-10'?"),
        (lambda: build(["fc1"], (1, 8, 8), 10), "model = ['fc1']", "one of fc1"),
        (lambda: build("wrn-33-10", (3, 32, 32), 10), "model = 'wrn-33-10'", "6n + 2 (8, 14, ..., 32) or 6n + 4"),
        (lambda: build("wrn-2-1", (3, 32, 32), 10), "model = 'wrn-2-1'", "n >= 1"),
        (lambda: build("wrn-4-1", (3, 32, 32), 10), "model = 'wrn-4-1'", "n >= 1"),
        (lambda: build("wrn-8-0", (3, 32, 32), 10), "model = 'wrn-8-0'", "width K >= 1"),
        (lambda: wide_resnet((3, 32, 32), 10, depth=-4), "depth = -4", "6n + 2"),
        (lambda: wide_resnet((3, 32, 32), 10, depth=32.0), "depth = 32.0", "6n + 2"),
        (lambda: wide_resnet((3, 32, 32), 10, 8, width=1.5), "width = 1.5", "a whole number >= 1"),
        (lambda: build("fc1", (1, 8, 8), 10, seed=-1), "seed = -1", "None or a whole number from 0"),
        (lambda: build("fc1", (1, 8, 8), 10, seed=2**64), f"seed = {2**64}", "None or a whole number from 0"),
        (lambda: build("fc1", (1, 8, 8), 10, seed="0"), "seed = '0'", "None or a whole number from 0"),
        (lambda: Normalize([0.5], [0.0]), "std = [0.0]", "a number > 0 for each of mean's 1 channels"),
        (lambda: Normalize([0.5, 0.5], [1.0, -1.0]), "std = [1.0, -1.0]", "a number > 0"),
        (lambda: Normalize([0.5, 0.5], [1.0]), "std = [1.0]", "each of mean's 2 channels"),
        (lambda: Normalize([0.5], [math.nan]), "std = [nan]", "finite numbers"),
        (lambda: Normalize([math.inf], [1.0]), "mean = [inf]", "finite numbers"),
        (lambda: Normalize([], []), "mean = []", "one per channel"),
        (lambda: Normalize(0.5, [1.0]), "mean = 0.5", "a sequence"),
        (lambda: Normalize(["a"], [1.0]), "mean = ['a']", "a sequence"),
        (lambda: Normalize([0.0] * 3, [1.0] * 3)(torch.rand(2, 1, 8, 8)), "x.shape = (2, 1, 8, 8)", "(B, 3,"),
    ],
)  # fmt: skip
def test_refusals_name_setting_value_and_what_is_accepted(make, setting, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        make()
    assert setting in str(error.value)
    assert accepted in str(error.value)


number = st.floats(-2, 2, width=32)
scale = st.floats(0.125, 4, width=32)


@settings(deadline=None)
@given(st.lists(st.tuples(number, scale), min_size=1, max_size=4), st.integers(0, 2**32))
def test_normalize_channel_by_channel(statistics, seed):
    mean, std = zip(*statistics, strict=True)
    x = torch.rand(2, len(mean), 3, 2, generator=torch.Generator().manual_seed(seed))
    expected = torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(len(mean))], dim=1)
    torch.testing.assert_close(Normalize(mean, std)(x), expected)


def test_normalized_is_the_model_of_normalised_images():
    model = build("tiny-cnn", (3, 8, 8), 10, seed=0)
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    x = torch.rand(2, 3, 8, 8)
    before = x.clone()
    both = normalized(model, mean, std)
    torch.testing.assert_close(both(x), model(Normalize(mean, std)(x)))
    assert torch.equal(x, before)
    assert both[1] is model


def test_normalize_s_statistics_travel_with_the_weights_but_are_not_trained():
    saved = Normalize([0.25, 0.5], [0.5, 2.0])
    loaded = Normalize([0.0, 0.0], [1.0, 1.0])
    loaded.load_state_dict(saved.state_dict())
    x = torch.rand(1, 2, 4, 4)
    assert torch.equal(saved(x), loaded(x))
    assert list(saved.parameters()) == []
    assert saved.double()(x.double()).dtype == torch.float64
