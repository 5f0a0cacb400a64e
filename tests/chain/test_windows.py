"""Changing a window and looking again at what it reaches, against looking at whole images."""

import pytest
import torch
from chain_kit import CHAINS, build, images, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bilaw.chain import Chain, trace, windows
from bilaw.chain.windows import Reach, Span, Whole, Windows
from bilaw.net import Net, frozen


def chain_of(name):
    make, shape = CHAINS[name]
    module = build(make)
    return Chain(
        trace(module), {**dict(module.named_parameters()), **dict(module.named_buffers(remove_duplicate=False))}
    ), shape


@pytest.mark.parametrize("name", [name for name in CHAINS if name != "strided"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**20))
def test_windows_see_what_whole_images_show(name, seed):
    chain, shape = chain_of(name)
    drawn = seeded(seed)
    some, whole = Windows.of(chain, images(shape)), Whole(chain, images(shape))
    with torch.no_grad():
        for turn in range(6):
            tall, wide = (int(torch.randint(1, side + 1, (), generator=drawn)) for side in shape[1:])
            top, left = (
                int(torch.randint(side - size + 1, (), generator=drawn))
                for side, size in zip(shape[1:], (tall, wide), strict=True)
            )
            window = Span(top, top + tall), Span(left, left + wide)
            patch = torch.rand(len(some.images), shape[0], tall, wide, generator=drawn, dtype=torch.float64)
            torch.testing.assert_close(some.look(patch, window), whole.look(patch, window), rtol=1e-9, atol=1e-11)
            taken = torch.rand(len(patch), generator=drawn) > 0.5
            some.take(taken)
            whole.take(taken)
            assert torch.equal(some.images, whole.images)
            torch.testing.assert_close(some.logits(), whole.logits(), rtol=1e-9, atol=1e-11)
            if turn == 2:
                rows = torch.tensor([0, 2, 3])
                some, whole = some[rows], whole[rows]


@given(
    size=st.integers(1, 5), stride=st.integers(1, 4), padding=st.integers(0, 2), side=st.integers(5, 30), data=st.data()
)
def test_a_reach_holds_every_output_that_sees_the_span_and_is_as_long_wherever_it_lies(
    size, stride, padding, side, data
):
    reach = Reach(size, stride, padding, (side + 2 * padding - size) // stride + 1)
    length = data.draw(st.integers(1, side))
    spans = [Span(start, start + length) for start in range(side - length + 1)]
    for span in spans:
        touched = reach.outputs(span)
        assert 0 <= touched.start < touched.stop <= reach.length
        for output in range(reach.length):
            first = output * stride - padding
            if first < span.stop and first + size > span.start:
                assert touched.start <= output < touched.stop
    assert len({span.stop - span.start for span in map(reach.outputs, spans)}) == 1


def test_only_chains_that_end_in_flattened_images_are_narrowed():
    tiny, shape = chain_of("tiny-cnn")
    assert isinstance(Whole(tiny, images(shape)).narrowed(), Windows)
    rows, shape = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), (1, 8, 8)
    of_rows = Chain(trace(rows), dict(rows.named_parameters()))
    assert isinstance(Whole(of_rows, images(shape, dtype=torch.float32)).narrowed(), Whole)
    strided, shape = chain_of("strided")  # a ReLU between its flattening and its linear layer
    assert isinstance(Whole(strided, images(shape)).narrowed(), Whole)
    assert isinstance(Whole(torch.sum, images(shape)).narrowed(), Whole)


def test_most_of_a_chain_is_left_alone_by_a_small_window(monkeypatch):
    """Count the outputs that convolutions compute: a window of 2 x 2 in 28 x 28."""
    chain, shape = chain_of("tiny-cnn")
    some, seen = Windows.of(chain, images(shape)), []
    true = torch.nn.functional.conv2d
    monkeypatch.setattr(torch.nn.functional, "conv2d", lambda *a: seen.append(true(*a).shape[2:].numel()) or true(*a))
    some.look(torch.rand(5, 1, 2, 2, dtype=torch.float64), (Span(7, 9), Span(0, 2)))
    assert seen == [3 * 3, 3 * 3]  # of 14 x 14 and of 7 x 7


def test_more_than_memory_holds_is_not_kept(monkeypatch):
    tiny, shape = chain_of("tiny-cnn")
    x = images(shape)
    needed = 8 * len(x) * (28 * 28 + 16 * 14 * 14)  # the inputs of two convolutions, in double precision
    monkeypatch.setattr(windows, "MEMORY", needed)
    assert isinstance(Whole(tiny, x).narrowed(), Windows)
    monkeypatch.setattr(windows, "MEMORY", needed - 1)
    assert isinstance(Whole(tiny, x).narrowed(), Whole)


def test_a_frozen_module_is_narrowed_through_its_chain():
    make, shape = CHAINS["small-cnn"]
    module, x = build(make), images(shape)
    assert isinstance(Whole(Net(module).frozen().quick(x), x).narrowed(), Windows)
    assert isinstance(Whole(frozen(module), x).narrowed(), Whole)
