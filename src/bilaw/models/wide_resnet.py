"""Wide residual networks (Zagoruyko and Komodakis, 2016), as adversarial training uses them."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import relu

from bilaw.errors import refuse, whole_at_least
from bilaw.models.arguments import Shape, class_count, image_shape, is_whole

DEPTHS = "6n + 2 (8, 14, ..., 32) or 6n + 4 (10, 16, ..., 34), n >= 1 blocks a group"


def wide_resnet(shape: Shape, classes: int, depth: int = 32, width: int = 10) -> WideResNet:
    """Return a WRN-depth-width: three groups of residual blocks, 16, 32 and 64 times `width` channels wide.

    The paper's WRN-32-10 is the literature's WRN-34-10: five blocks a group, under two ways to count layers.

    >>> [name for name, _ in wide_resnet((3, 32, 32), 10, depth=8, width=1).named_children()]
    ['conv1', 'block1', 'block2', 'block3', 'bn1', 'fc']
    """
    channels, _, _ = image_shape(shape)
    blocks, width = blocks_per_group(depth), whole_at_least("width", width, 1)
    return WideResNet(channels, class_count(classes), blocks, width)


def blocks_per_group(depth: int) -> int:
    """Return (depth - 2) / 6, the paper's rule, or (depth - 4) / 6, the literature's: only one can be whole.

    >>> blocks_per_group(32), blocks_per_group(34)
    (5, 5)
    """
    if not is_depth(depth):
        refuse("depth", depth, DEPTHS)
    return (depth - 2) // 6


def is_depth(depth: object) -> bool:
    """Tell whether a network can be that deep."""
    return isinstance(depth, int) and is_whole(depth, 8) and depth % 6 in (2, 4)


# The modules' names are the state_dict's keys, and those are TRADES' (less its unused `sub_block1`), so that
# the literature's checkpoints fit. Hence `convShortcut`, and a group's only child `layer`.


class WideResNet(nn.Module):
    """Images (B, channels, height, width) in, logits (B, classes) out."""

    def __init__(self, channels: int, classes: int, blocks: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, kernel_size=3, padding=1, bias=False)
        self.block1 = group(blocks, 16, 16 * width, stride=1)
        self.block2 = group(blocks, 16 * width, 32 * width, stride=2)
        self.block3 = group(blocks, 32 * width, 64 * width, stride=2)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)
        # TRADES' start: convolutions of standard deviation sqrt(2 / fan_out), fc's bias 0. PyTorch's own
        # start already has the rest: BatchNorm at scale 1 and shift 0, and fc's weight.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        # The mean over all pixels is the literature's 8x8 pooling at 32x32, and works at any other size.
        logits: Tensor = self.fc(relu(self.bn1(x)).mean((2, 3)))
        return logits


def group(blocks: int, before: int, after: int, stride: int) -> nn.Sequential:
    """Return `blocks` residual blocks, of which the first changes width and resolution."""
    first = Block(before, after, stride)
    rest = [Block(after, after, stride=1) for _ in range(blocks - 1)]
    return nn.Sequential(OrderedDict(layer=nn.Sequential(first, *rest)))


class Block(nn.Module):
    """[BN, ReLU, conv 3x3] twice, added to the input or, where the width changes, to its 1x1 projection."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.convShortcut: nn.Conv2d | None = None
        if before != after:
            self.convShortcut = nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return input plus residual."""
        active = relu(self.bn1(x))
        residual: Tensor = self.conv2(relu(self.bn2(self.conv1(active))))
        # The projection sees the activated input, the identity the raw one.
        return residual + (x if self.convShortcut is None else self.convShortcut(active))
