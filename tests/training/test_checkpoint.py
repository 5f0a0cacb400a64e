"""Checkpoint files: what they hold comes back, and damage anywhere in them is noticed."""

import pytest
import torch

from bilaw import sealed
from bilaw.training import checkpoint

TENSORS = {
    "theta/w": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "transposed": torch.arange(6.0).view(2, 3).t(),
    "half": torch.tensor([1.5, float("nan")], dtype=torch.float16),
    "bf16": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "flags": torch.tensor([True, False]),
    "nothing": torch.empty(0, 3),
}
FACTS = {"standing": {"t": 3, "best": [0.1, float("nan")]}, "lengths": {"metrics.jsonl": 12}}


def test_what_is_written_comes_back(tmp_path):
    path = checkpoint.save(tmp_path, TENSORS, FACTS)
    found = sealed.read(path)
    assert found.tensors.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert found.tensors[name].dtype == value.dtype
        assert torch.equal(found.tensors[name].nan_to_num(9), value.nan_to_num(9))
    assert repr(found.facts) == repr(FACTS)
    assert found.path == path


def test_the_last_two_are_kept_in_the_order_they_were_taken(tmp_path):
    for t in (5, 9, 2):  # steps come again after a roll back
        checkpoint.save(tmp_path, TENSORS, {"t": t})
    assert [sealed.read(path).facts["t"] for path in sorted(tmp_path.iterdir())] == [9, 2]
    assert checkpoint.newest(tmp_path, pytest.fail).facts["t"] == 2


def test_no_checkpoint_is_none_at_all(tmp_path):
    assert checkpoint.newest(tmp_path, pytest.fail) is None


def test_every_flipped_bit_that_matters_is_noticed(tmp_path):
    """One bit in each byte in turn: either it is refused, or (padding) what is read is the same."""
    path = tmp_path / "one.safetensors"
    sealed.write(path, {"a": torch.arange(3.0), "b": torch.tensor([1, 2])}, {"t": 1})
    good, before = path.read_bytes(), sealed.read(path)
    silent = 0
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = sealed.read(path)
        except ValueError:
            continue
        silent += 1
        assert found.facts == before.facts
        assert all(torch.equal(found.tensors[name], value) for name, value in before.tensors.items())
    assert silent < 10


@pytest.mark.parametrize("length", [0, 1, 7, 8, 40, -1])
def test_a_truncated_file_is_refused(tmp_path, length):
    path = checkpoint.save(tmp_path, TENSORS, FACTS)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match="is damaged"):
        sealed.read(path)


def test_damaged_ones_are_set_aside_once_an_intact_one_is_found(tmp_path):
    one, two = (checkpoint.save(tmp_path, TENSORS, {"t": t}) for t in range(2))
    two.write_bytes(b"")
    notes = []
    assert checkpoint.newest(tmp_path, notes.append).path == one
    assert len(notes) == 1
    assert str(two) in notes[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000.safetensors", "000000001.damaged"]
    one.write_bytes(b"")
    with pytest.raises(ValueError, match=r"no checkpoint in .* is intact"):
        checkpoint.newest(tmp_path, notes.append)
    assert one.exists()
