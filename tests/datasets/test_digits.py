import numpy as np
import torch

from bilaw.datasets import digits, table

FINGERPRINT = 452077  # of the test half: results on digits stay comparable from release to release


def test_the_stored_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    theirs = load_digits()
    want = np.round(theirs.images * 255 / 16).astype(np.uint8)
    ours = digits.load()
    bag = torch.cat([ours.train.x, ours.test.x]).flatten(1)
    labels = torch.cat([ours.train.y, ours.test.y])
    rows = sorted((tuple(x), y) for x, y in zip(bag.tolist(), labels.tolist(), strict=True))
    assert rows == sorted((tuple(x.ravel().tolist()), int(y)) for x, y in zip(want, theirs.target, strict=True))


def test_the_test_half_is_balanced_and_always_the_same():
    one, two = digits.load(), table.load("digits")
    assert torch.equal(one.test.x, two.test.x)
    assert torch.equal(one.train.y, two.train.y)
    assert one.test.y.bincount().tolist() == [45] * 10
    assert one.train.x.dtype == torch.uint8
    assert (len(one.train.y), len(one.classes), one.augment) == (1347, 10, False)
    assert int((one.test.y * torch.arange(1, 451)).sum()) == FINGERPRINT
