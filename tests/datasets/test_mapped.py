import random
import subprocess
import sys
from types import MappingProxyType

import numpy as np
import pytest
import torch
from PIL import Image

from bilaw.datasets.data import Images, Lazy, take
from bilaw.datasets.own import as_dataset

N, SIDE = 30, 8
COLOUR = np.random.default_rng(0).integers(256, size=(N, SIDE, SIDE, 3), dtype=np.uint8)
GREY = COLOUR[..., 0].copy()
Y = [i % 3 for i in range(N)]
CHW = torch.from_numpy(COLOUR).permute(0, 3, 1, 2)


def to_tensor(image):  # torchvision's ToTensor
    held = torch.from_numpy(np.array(image, copy=True))
    held = held.unsqueeze(0) if held.ndim == 2 else held.permute(2, 0, 1)
    return held.contiguous().to(torch.float32).div(255)


class Vision:
    """The surface of torchvision's CIFAR10 (arrays, list) and MNIST (tensors): .data, .targets, .transform."""

    __module__ = "torchvision.datasets.cifar"
    classes = ("ant", "bee", "cat")

    def __init__(self, data=COLOUR, targets=Y, transform=None):
        self.data, self.targets, self.transform, self.read = data, targets, transform, 0

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        self.read += 1
        image = Image.fromarray(np.asarray(self.data[i]))
        return (self.transform(image) if self.transform else image), int(self.targets[i])


class Hugging:
    """The surface of Hugging Face's Dataset: rows as dicts, columns by name, features that know the classes."""

    class Names:
        names = ("ant", "bee", "cat")

    column_names = ("img", "label")
    features = MappingProxyType({"img": object(), "label": Names()})

    def __len__(self):
        return N

    def __getitem__(self, key):
        if isinstance(key, str):
            return {"label": Y}[key]
        assert type(key) is int
        return {"img": Image.fromarray(COLOUR[key]), "label": Y[key]}


class Plain:
    """Any data set: a function of the place."""

    def __init__(self, sample, n=N):
        self.sample, self.n = sample, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.sample(i)


def mirrored(image):
    return to_tensor(image).flip(2) if torch.rand(()) < 0.5 else to_tensor(image)


@pytest.mark.parametrize("data", [COLOUR, GREY, torch.from_numpy(GREY), COLOUR.transpose(0, 3, 1, 2)])
def test_arrays_of_a_torchvision_set_are_taken_as_they_are(data):
    if data.shape[1] == 3:  # SVHN keeps channels first and gives images

        class Channels(Vision):
            __module__ = "torchvision.datasets.svhn"

            def __getitem__(self, i):
                self.read += 1
                return Image.fromarray(self.data[i].transpose(1, 2, 0)), self.targets[i]

        own = Channels(data)
    else:
        own = Vision(data, torch.tensor(Y) if isinstance(data, torch.Tensor) else Y)
    got = as_dataset(own)
    assert own.read < 2 * 16 + 8  # a look, not a pass
    assert got.classes == ("ant", "bee", "cat")
    assert torch.equal(got.train.x, CHW[:, :1] if data.ndim == 3 else CHW)
    assert got.train.y.tolist() == Y
    assert got.notes == ()


def test_arrays_that_are_not_what_the_set_gives_are_left_alone():
    class Turned(Vision):
        def __getitem__(self, i):
            return Image.fromarray(self.data[i][::-1]), (self.targets[i] + 1) % 3

    got = as_dataset(Turned()).train
    assert torch.equal(got.x, CHW.flip(2))
    assert got.y.tolist() == [(y + 1) % 3 for y in Y]


def test_labels_that_a_users_class_keeps_but_does_not_give_are_not_taken():
    class Noisy(Vision):
        __module__ = "mine"

        def __getitem__(self, i):
            image, y = super().__getitem__(i)
            return image, (y + (i == 7)) % 3

    for limit in (2**30, 100):
        got = as_dataset(Noisy(), limit=limit).train
        assert got.y.tolist() == [(y + (i == 7)) % 3 for i, y in enumerate(Y)]


def test_to_tensor_is_read_once_and_kept_as_bytes():
    own = Vision(transform=to_tensor)
    data = as_dataset((own, Vision(COLOUR[:5], Y[:5], to_tensor)))
    assert torch.equal(data.train.x, CHW)
    assert torch.equal(data.test.x, CHW[:5])
    assert data.notes[0] == "train: float images that are bytes / 255 were kept as bytes"


SAMPLES = {
    "array, channels last": lambda i: (COLOUR[i], Y[i]),
    "array, channels first": lambda i: [COLOUR[i].transpose(2, 0, 1), np.int32(Y[i])],
    "tensor": lambda i: (CHW[i], torch.tensor(Y[i])),
    "tensor, channels last": lambda i: (torch.from_numpy(COLOUR[i]), torch.tensor([Y[i]])),
    "picture": lambda i: {"image": Image.fromarray(COLOUR[i]), "label": Y[i]},
    "picture with alpha": lambda i: (Image.fromarray(COLOUR[i]).convert("RGBA"), Y[i], "more"),
    "floats": lambda i: {"pixel_values": CHW[i] / 255, "labels": Y[i]},
}


@pytest.mark.parametrize("form", SAMPLES)
def test_every_kind_of_sample(form):
    data = as_dataset(Plain(SAMPLES[form]))
    assert torch.equal(data.train.x, CHW)
    assert data.train.y.tolist() == Y
    assert data.classes == ("0", "1", "2")


def test_an_ambiguous_layout_is_noted():
    x = torch.zeros(3, 5, 4)
    data = as_dataset(Plain(lambda i: (x, Y[i])))
    assert data.train.x.shape[1:] == (3, 5, 4)
    assert "images were read as (channels, height, width); both layouts" in data.notes[0]


def test_hugging_face():
    data = as_dataset({"train": Hugging(), "test": Hugging()})
    assert torch.equal(data.train.x, CHW)
    assert torch.equal(data.test.x, CHW)
    assert data.classes == ("ant", "bee", "cat")


def test_a_subset_keeps_the_names_of_its_classes():
    part = torch.utils.data.Subset(Vision(), [5, 3, 4, 8])
    data = as_dataset(part)
    assert data.train.y.tolist() == [2, 0, 1, 2]
    assert torch.equal(data.train.x, CHW[[5, 3, 4, 8]])
    assert data.classes == ("ant", "bee", "cat")


def test_large_sets_are_read_batch_by_batch():
    limit = COLOUR.size - 1
    lazy = as_dataset(Plain(SAMPLES["picture"]), limit=limit)
    assert isinstance(lazy.train, Lazy)
    assert lazy.train.y.tolist() == Y
    assert "are read batch by batch" in lazy.notes[0]
    index = torch.tensor([7, 7, 0, 29])
    assert torch.equal(take(lazy.train, index).x, CHW[index])
    assert isinstance(as_dataset(Plain(SAMPLES["picture"]), limit=limit + 1).train, Images)


OWN = np.random.default_rng(0)
DRAWS = {
    "torch": lambda i: CHW[i].flip(2) if torch.rand(()) < 0.5 else CHW[i],
    "python": lambda i: CHW[i].flip(2) if random.random() < 0.5 else CHW[i],
    "numpy": lambda i: CHW[i].flip(2) if np.random.rand() < 0.5 else CHW[i],
    "seldom": lambda i: CHW[i].flip(2) if torch.rand(()) < 1e-9 else CHW[i],
    "own generator": lambda i: CHW[i].flip(2) if OWN.random() < 0.5 else CHW[i],
}


@pytest.mark.parametrize("draw", DRAWS)
def test_random_transforms_act_anew_each_time_and_a_note_says_what_that_means(draw):
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    data = as_dataset(Vision(transform=mirrored) if draw == "torch" else Plain(lambda i: (DRAWS[draw](i), Y[i])))
    assert isinstance(data.train, Lazy)
    assert "does not repeat to the same bits" in data.notes[0]
    assert "data.augment = true crops and mirrors on the device, faster" in data.notes[0]
    assert data.train.y.tolist() == Y
    assert states[0] == random.getstate()  # what was drawn while reading was put back
    assert np.array_equal(states[1], np.random.get_state()[1])
    assert torch.equal(states[2], torch.get_rng_state())
    if draw != "seldom":
        index = torch.arange(N)
        assert not torch.equal(data.train.read(index), data.train.read(index))


def nan(i):
    return torch.full((1, 4, 4), float("nan") if i == 2 else 0.5), Y[i]


def broken(i):
    raise OSError("disk gone")


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (lambda i: COLOUR[i], "train[0] = 'ndarray' is not accepted; it takes a pair (image, label), or a dict"),
        (lambda i: {"a": 1}, "train[0] = 'keys a' is not accepted; it takes a dict with one of the keys image, img"),
        (lambda i: {"image": COLOUR[i]}, "one of the keys label, labels"),
        (lambda i: ("a.png", Y[i]), "train[0] = 'str' is not accepted; it takes an image: Pillow's, or an array"),
        (lambda i: (COLOUR[i][: 8 - (i == 17)], Y[i]), "train[17] = 'uint8 of shape (3, 7, 8)' is not accepted"),
        (lambda i: (CHW[i] if i < 9 else CHW[i] / 255, Y[i]), "train[9] = 'float32 of shape (3, 8, 8)'"),
        (
            lambda i: (COLOUR[i] if i < 9 else GREY[i], Y[i]),
            "train[9] = 'shape (8, 8)' is not accepted; it takes images",
        ),
        (lambda i: (CHW[i] / 255 - 0.5, Y[i]), "make normalisation a layer of the model (bilaw.models.normalized)"),
        (nan, "train[2] = 'NaN'"),
        (lambda i: (COLOUR[i], Y[i] / 2), "train[0] label = 0.0 is not accepted; it takes a whole number"),
        (lambda i: (COLOUR[i], Y[i] + 1), "train labels = '1, 2, 3'"),
        (lambda i: (Image.fromarray(GREY[i].astype(np.uint16)), Y[i]), "images of 8 bits a channel"),
        (broken, "train[0] cannot be read (OSError: disk gone, at "),
    ],
)
def test_refusals(sample, says):
    with pytest.raises(ValueError, match="it takes") as refusal:
        as_dataset(Plain(sample))
    assert says in str(refusal.value)


def test_nothing_of_theirs_is_imported():
    code = (
        "import sys, numpy, bilaw.datasets.table as t, bilaw.datasets.own as o\n"
        "o.as_dataset((numpy.zeros((4, 8, 8), 'uint8'), [0, 1, 0, 1])); t.load('digits')\n"
        "assert not {'PIL', 'torchvision', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
