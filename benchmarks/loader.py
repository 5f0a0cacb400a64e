"""Our batches against a torchvision-style DataLoader: 50,000 images of 3 x 32 x 32, crop and mirror, batches of 128.

    OMP_NUM_THREADS=1 python benchmarks/loader.py [--quick] [--rounds 5] [--workers 2] [--threads 1] [--device cpu]

Three sides take turns, round by round, each over one epoch (`--batches` of it): ours; a `DataLoader` whose data set
holds arrays and whose transform is torchvision's on Pillow's images (RandomCrop(32, padding=4),
RandomHorizontalFlip, ToTensor), written out here so that torchvision need not be installed; and the same on tensors
(pad, slice, flip, divide) without Pillow, leaner than any of torchvision's. Starting the workers is left out of their
time (persistent_workers, an untimed first epoch). All three share a process here, and seconds are the clock's: theirs
are spent in workers. Last: what a batch of ours costs beside one F-FGSM training step of Small-CNN. Medians and
spreads; ratios are of medians. `--device cuda` puts ours and the step there.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from harness import arguments as read_arguments
from harness import head
from outcomes import keep, spread
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as MapStyle

from bilaw.algorithm import Method, weighted_step
from bilaw.attacks import fast_fgsm
from bilaw.datasets.batches import Batches
from bilaw.datasets.data import Images
from bilaw.datasets.stores import store
from bilaw.losses import AdversarialCE
from bilaw.models import build
from bilaw.net import Net

N, SIZE, BATCH = 50_000, 32, 128


class Arrays(MapStyle[tuple[Tensor, int]]):
    """What torchvision's CIFAR10 is: `data` (N, H, W, C) uint8, `targets` a list, a transform for each sample."""

    def __init__(self, data: object, targets: list[int], transform: Callable[[object], Tensor]) -> None:
        self.data, self.targets, self.transform = data, targets, transform

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self.transform(self.data[place]), self.targets[place]


def with_pillow(pixels: np.ndarray) -> Tensor:
    """Return the array cropped and mirrored as torchvision does on Pillow's images, as a float tensor."""
    image = ImageOps.expand(Image.fromarray(pixels), border=4, fill=0)
    top, left = torch.randint(0, 9, (1,)).item(), torch.randint(0, 9, (1,)).item()
    image = image.crop((left, top, left + SIZE, top + SIZE))
    if torch.rand(1) < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(image, copy=True)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)


def with_tensors(pixels: Tensor) -> Tensor:
    """Return the tensor (C, H, W) cropped and mirrored, as floats."""
    top, left = torch.randint(0, 9, (1,)).item(), torch.randint(0, 9, (1,)).item()
    image = F.pad(pixels, (4, 4, 4, 4))[:, top : top + SIZE, left : left + SIZE]
    return (image.flip(2) if torch.rand(1) < 0.5 else image).float().div_(255)


def seconds(batches: Iterable[object], count: int) -> float:
    """Return how long the next `count` batches take."""
    began = now()
    for _ in itertools.islice(batches, count):
        pass
    return now() - began


def now() -> float:
    """Return the time, once the device has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def step_seconds(batches: Batches, rounds: int, device: torch.device) -> tuple[list[float], list[float]]:
    """Return the times of drawing a batch and of an F-FGSM step on it, in turns."""
    module = build("small-cnn", (3, SIZE, SIZE), 10, seed=0)
    net, method = Net(module.to(device)), Method(AdversarialCE(), fast_fgsm(8 / 255))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    drawn, stepped = [], []
    for t, batch in enumerate(timed(batches.epoch(0), drawn)):
        began = now()
        weighted_step(net, optimizer, batch, method, 0, t)
        stepped.append(now() - began)
        if t == 2 * rounds:
            break
    return drawn[1:], stepped[1:]  # the first warms up


def timed(batches: Iterable[object], into: list[float]) -> Iterable[object]:
    """Yield `batches`, noting how long each took."""
    source = iter(batches)
    while True:
        began = now()
        batch = next(source, None)
        into.append(now() - began)
        if batch is None:
            return
        yield batch


def main() -> None:
    arguments = read_arguments(
        __doc__,
        batches={"type": int, "help": "default: an epoch; with --quick 40"},
        workers={"type": int, "default": 2},
        device={"default": "cpu"},
    )
    batches = arguments.batches or (40 if arguments.quick else N // BATCH + 1)
    device = torch.device(arguments.device)
    drawn = torch.Generator().manual_seed(0)
    n = 6_400 if arguments.quick else N
    x = torch.randint(256, (n, 3, SIZE, SIZE), dtype=torch.uint8, generator=drawn)
    y = torch.randint(10, (n,), generator=drawn)
    ours = Batches(store(Images(x, y), device), size=BATCH, augment=True)
    ours_alone = {"bilaw": lambda turn: seconds(ours.epoch(turn), batches)}

    def loader(data: object, transform: Callable[..., Tensor]) -> Callable[[int], float]:
        held = Arrays(data, y.tolist(), transform)
        options = {"num_workers": arguments.workers, "persistent_workers": True}
        made: DataLoader[tuple[Tensor, int]] = DataLoader(held, BATCH, shuffle=True, drop_last=False, **options)

        def turn_of(turn: int) -> float:
            walk = iter(made)
            spent = seconds(walk, batches)
            seconds(walk, N)  # an epoch cut short is walked to its end, untimed
            return spent

        return turn_of

    sides = {
        **ours_alone,
        "DataLoader, torchvision's transforms on Pillow's images": loader(
            x.permute(0, 2, 3, 1).contiguous().numpy(), with_pillow
        ),
        "DataLoader, the same on tensors": loader(x, with_tensors),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(arguments.rounds + 1):
        for name, side in sides.items():
            spent = side(turn)
            if turn:  # the first round starts the workers and warms up
                times[name].append(spent / batches * 1e3)
    drawing, stepping = step_seconds(ours, arguments.rounds, device)
    middle = {name: statistics.median(values) for name, values in times.items()}
    rows = [
        {"side": name, "ms a batch": spread(values), "of ours": f"{middle[name] / middle['bilaw']:.1f}"}
        for name, values in times.items()
    ]
    draw, step = (statistics.median(values) * 1e3 for values in (drawing, stepping))
    note = (
        f"one F-FGSM step of Small-CNN takes {step:.0f} ms, a batch of ours {draw / (draw + step):.2%} of both together"
    )
    results = head("loader", arguments, "pillow")
    title = f"batches of {BATCH} out of {n:,} images of 3x{SIZE}x{SIZE}, crop and mirror"
    title += f", {arguments.workers} workers of theirs"
    results["cases"].append({"title": title, "rows": rows, "notes": [note]})
    keep(results, arguments.out)


if __name__ == "__main__":
    main()
