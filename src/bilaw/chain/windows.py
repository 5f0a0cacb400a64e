"""What a chain makes of images of which one window changes: only what that window can reach is computed anew.

The inputs of all convolutions and poolings are kept, and the output of the first linear layer, at the images as they
are. A window of side 4 in an image of 32 x 32 reaches 6 x 6 of the first 3 x 3 convolution's output, 8 x 8 of the
second's; of a linear layer's sum only the terms of the pixels reached change. Every reach is given the same size
wherever the window lies, for libraries prepare a convolution anew for every new size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.chain.layers import Affine, Chain, Conv, Flatten, Layer, Linear, MaxPool
from bilaw.rows import put
from bilaw.types import LogitsOf

MEMORY = 1 << 31  # bytes of inputs kept at the most; beyond that whole images are looked at


class Span(NamedTuple):
    """Rows or columns start..stop-1."""

    start: int
    stop: int

    def less(self, other: Span) -> Span:
        """Return the same, counted from where the other starts."""
        return Span(self.start - other.start, self.stop - other.start)

    def within(self, other: Span) -> Span:
        """Return what the two share, be it nothing: with long strides some rows are seen by no output."""
        start = max(self.start, other.start)
        return Span(start, max(start, min(self.stop, other.stop)))


Window = tuple[Span, Span]  # rows, columns


class Reach(NamedTuple):
    """How far a layer looks along one axis: an output takes `size` inputs, `stride` apart, from -`padding` on."""

    size: int
    stride: int
    padding: int
    length: int  # of the output

    def outputs(self, span: Span) -> Span:
        """Return the outputs that see `span`: as many wherever it lies, and maybe more than do."""
        count = min((span.stop - span.start + self.size - 2) // self.stride + 1, self.length)
        first = -((self.size - 1 - self.padding - span.start) // self.stride)  # rounded up
        start = min(max(first, 0), self.length - count)
        return Span(start, start + count)

    def inputs(self, span: Span) -> Span:
        """Return the inputs that outputs see, counted from the first of the padding."""
        return Span(span.start * self.stride, (span.stop - 1) * self.stride + self.size)


@dataclass
class Held:
    """A convolution or pooling, how far it looks, and its padded input at the images as they are."""

    layer: Conv | MaxPool
    reach: tuple[Reach, Reach]
    x: Tensor

    @property
    def padding(self) -> tuple[int, int]:
        """Return the rows and columns of padding on each side."""
        return self.reach[0].padding, self.reach[1].padding


class Probe(Protocol):
    """Images (B, C, H, W) that are changed window by window, and the logits of a classifier there."""

    images: Tensor

    def logits(self) -> Tensor:
        """Return the logits (B, k) at the images as they are."""
        ...

    def look(self, patch: Tensor, window: Window) -> Tensor:
        """Return the logits with `patch` (B, C, rows, columns) in the window."""
        ...

    def take(self, which: Tensor) -> None:
        """Keep the last look's patch in the images `which` (B,) bool."""
        ...

    def __getitem__(self, places: Tensor) -> Probe:
        """Return the images at `places` alone."""
        ...


class Whole:
    """A classifier that sees whole images, whatever has changed."""

    def __init__(self, logits_of: LogitsOf, images: Tensor) -> None:
        self.logits_of, self.images = logits_of, images.clone()
        self.window, self.old = images[:0], images[:0]

    def narrowed(self) -> Probe:
        """Return `Windows` of the same images, where the classifier allows it: for windows that reach little."""
        if isinstance(self.logits_of, Chain) and _suits(self.logits_of, self.images):
            return Windows.of(self.logits_of, self.images)
        return self

    def logits(self) -> Tensor:
        """Return the logits at the images as they are."""
        return self.logits_of(self.images)

    def look(self, patch: Tensor, window: Window) -> Tensor:
        """Return the logits with the patch in the window."""
        self.window = cut(self.images, window)
        self.old = self.window.clone()
        self.window.copy_(patch)
        return self.logits_of(self.images)

    def take(self, which: Tensor) -> None:
        """Put back what was there before, in all images but these."""
        put(~which, self.old, self.window)

    def __getitem__(self, places: Tensor) -> Whole:
        """Return the images at `places` alone."""
        return Whole(self.logits_of, self.images[places])


class Windows:
    """A chain that looks again at no more than a window can reach."""

    chain: Chain
    images: Tensor
    spatial: list[Layer | Held]
    last: Tensor  # (B, C, H, W) what is flattened
    first: Linear  # what comes then,
    columns: Tensor  # (n, C, H, W) its weights, as the pixels lie,
    sums: Tensor  # (B, n) and its sums, before any ReLU
    rest: list[Layer]
    patches: list[tuple[Tensor, Tensor]]  # of the last look: where they go, and what they are

    @classmethod
    def of(cls, chain: Chain, images: Tensor) -> Windows:
        """Return them at `images`."""
        made = cls()
        place = next(place for place, layer in enumerate(chain.layers) if isinstance(layer, Flatten))
        flatten, first, *made.rest = chain.layers[place:]
        assert isinstance(flatten, Flatten)
        assert isinstance(first, Linear)
        made.chain, made.first, made.images = chain, first, images.clone()
        made.spatial, made.patches, x = [], [], images
        for layer in chain.layers[:place]:
            out = layer(x)
            made.spatial.append(_held(layer, x, out) if isinstance(layer, Conv | MaxPool) else layer)
            x = out
        made.last = x.clone(memory_format=torch.channels_last)
        _, c, h, w = x.shape
        weight = first.weight
        made.columns = weight.view(-1, h, w, c).permute(0, 3, 1, 2) if flatten.by_pixel else weight.view(-1, c, h, w)
        made.sums = F.linear(flatten(x).to(first.weight.dtype), first.weight, first.bias)
        return made

    def logits(self) -> Tensor:
        """Return the logits at the images as they are."""
        return self._logits(self.sums)

    def look(self, patch: Tensor, window: Window) -> Tensor:
        """Return the logits with the patch in the window."""
        self.patches = [(cut(self.images, window), patch)]
        for layer in self.spatial:
            if isinstance(layer, Held):
                patch, window = self._through(layer, patch, window)
            else:
                patch = layer(patch)
        before = cut(self.last, window)
        change, columns = (patch - before).flatten(1), cut(self.columns, window).flatten(1)
        sums = torch.addmm(self.sums, change.to(columns.dtype), columns.T)
        self.patches += [(before, patch), (self.sums, sums)]
        return self._logits(sums)

    def take(self, which: Tensor) -> None:
        """Keep the last look's patches in the images `which` (B,) bool."""
        for into, value in self.patches:
            put(which, value, into)
        self.patches = []

    def __getitem__(self, places: Tensor) -> Windows:
        """Return the images at `places` alone."""
        made = Windows()
        made.__dict__ |= self.__dict__
        made.images, made.sums, made.patches = self.images[places], self.sums[places], []
        made.last = self.last[places].contiguous(memory_format=torch.channels_last)
        made.spatial = [_rows(layer, places) for layer in self.spatial]
        return made

    def _through(self, held: Held, patch: Tensor, window: Window) -> tuple[Tensor, Window]:
        """Return what a layer makes of a patch, and where that lies."""
        padded = Span(*(at + held.padding[0] for at in window[0])), Span(*(at + held.padding[1] for at in window[1]))
        self.patches.append((cut(held.x, padded), patch))
        reached = held.reach[0].outputs(window[0]), held.reach[1].outputs(window[1])
        seen = held.reach[0].inputs(reached[0]), held.reach[1].inputs(reached[1])
        around = cut(held.x, seen).clone(memory_format=torch.channels_last)
        rows, columns = (new.within(old) for new, old in zip(padded, seen, strict=True))
        there = cut(around, (rows.less(seen[0]), columns.less(seen[1])))
        there.copy_(cut(patch, (rows.less(padded[0]), columns.less(padded[1]))))
        return _unpadded(held.layer, around), reached

    def _logits(self, sums: Tensor) -> Tensor:
        x = sums.relu() if self.first.relu else sums
        for layer in self.rest:
            x = layer(x)
        return x.to(self.chain.own)


def _suits(chain: Chain, images: Tensor) -> bool:
    """Tell whether a chain works window by window until all is flattened and summed, and memory holds what is kept."""
    layers = chain.layers
    place = next((place for place, layer in enumerate(layers) if isinstance(layer, Flatten)), len(layers))
    if images.ndim != 4 or not any(isinstance(layer, Linear) for layer in layers[place + 1 : place + 2]):
        return False
    kept, x = 0, images[:1]
    for layer in layers[:place]:
        if isinstance(layer, Linear) or (isinstance(layer, Affine) and layer.scale.shape[-2:].numel() > 1):
            return False
        kept += x.nbytes if isinstance(layer, Conv | MaxPool) else 0
        x = layer(x)
    return len(images) * kept <= MEMORY


def _held(layer: Conv | MaxPool, x: Tensor, out: Tensor) -> Held:
    dilation = layer.dilation if isinstance(layer, Conv) else (1, 1)
    size = layer.weight.shape[2:] if isinstance(layer, Conv) else layer.size
    rows, columns = (
        Reach(dilation[i] * (size[i] - 1) + 1, layer.stride[i], layer.padding[i], out.shape[2 + i]) for i in (0, 1)
    )
    around = (columns.padding, columns.padding, rows.padding, rows.padding)
    nothing = 0.0 if isinstance(layer, Conv) else -torch.inf
    padded = F.pad(x, around, value=nothing).to(out.dtype) if any(around) else x.clone()
    return Held(layer, (rows, columns), padded.contiguous(memory_format=torch.channels_last))


def _rows(layer: Layer | Held, places: Tensor) -> Layer | Held:
    if not isinstance(layer, Held):
        return layer
    return replace(layer, x=layer.x[places].contiguous(memory_format=torch.channels_last))


def _unpadded(layer: Conv | MaxPool, x: Tensor) -> Tensor:
    return layer.padded(x, (0, 0)) if isinstance(layer, Conv) else replace(layer, padding=(0, 0))(x)


def cut(x: Tensor, window: Window) -> Tensor:
    """Return a view of the window."""
    rows, columns = window
    return x[:, :, rows.start : rows.stop, columns.start : columns.stop]
