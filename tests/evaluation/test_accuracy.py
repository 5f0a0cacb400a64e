"""Verdicts, sample by sample."""

from __future__ import annotations

import pytest
import torch

from bilaw.datasets.data import Images
from bilaw.evaluation.accuracy import correct


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_logits_that_are_no_numbers_are_wrong_whatever_the_largest(bad: float, place: int) -> None:
    logits = torch.tensor([[2.0, 1.0], [2.0, 1.0]])
    logits[0, place] = bad
    images = Images(torch.zeros(2, 1, 1, 1), torch.tensor([0, 0]))
    assert correct(lambda x: logits, images, None).tolist() == [False, True]
    images = Images(images.x, torch.tensor([1, 0]))
    assert correct(lambda x: logits, images, None).tolist() == [False, True]
