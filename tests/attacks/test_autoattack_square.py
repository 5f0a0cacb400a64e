"""What Square is made of: bumps, windows and when they shrink, and the mass that moves from one window to another."""

import pytest
import torch
from attack_kit import batch_of, seeded

from bilaw.attacks.autoattack import Square, square
from bilaw.attacks.autoattack.bumps import bump, heap, tiles
from bilaw.chain.windows import Whole


def test_a_heap_by_hand():
    raw = torch.full((3, 5), 1 / 9 + 0.0)
    raw[:, 1:4] += 1 / 4
    raw[1, 2] += 1
    torch.testing.assert_close(heap(3, 5), raw / raw.norm())


def test_bumps_are_of_unit_length_and_two_opposite_halves():
    for seed in range(20):
        dice = square.Dice(seeded(seed), seeded(seed))
        for side in (2, 3, 4, 7, 10):
            made = bump(side, side, dice, torch.zeros((), dtype=torch.float64))
            assert made.norm().item() == pytest.approx(1)
            made = made if made[0, 0] * made[0, -1] > 0 else made.T
            half = side // 2
            assert (made[:half] > 0).all()
            assert (made[half:] < 0).all()
            if side % 2 == 0:
                torch.testing.assert_close(made[:half], -made[half:])


def test_bumps_lie_or_stand_by_chance_and_fit_lines():
    dice, like = square.Dice(seeded(), seeded()), torch.zeros(())
    standing = [bool((bump(4, 4, dice, like)[0] > 0).all()) for _ in range(60)]
    assert 15 < sum(standing) < 45
    for shape in [(1, 1), (1, 2), (1, 6), (6, 1), (2, 5), (5, 2)]:
        made = bump(*shape, dice, like)
        assert made.shape == shape
        assert made.norm().item() == pytest.approx(1)


def test_tiles_differ_in_sign_alone():
    x = torch.zeros(6, 3, 11, 11)
    made = tiles(x, square.Dice(seeded(), seeded(1)))
    assert torch.equal(made.abs(), made[:1, :1].abs().expand_as(made))
    tile = made[:, :, :2, :2]
    assert set(tile.sign()[:, :, 0, 0].flatten().tolist()) == {-1.0, 1.0}
    assert made[0, 0, :10, :10].all()  # five tiles of 2 x 2 each way leave one row and one column


HALVED_AFTER = [10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000]  # of 10000 queries; appendix A of the paper


def test_the_squares_shrink_when_the_paper_says(monkeypatch):
    sides = []
    monkeypatch.setattr(square._Linf, "try_square", lambda self, eps, side, *rest: sides.append(side))
    Square(0.1, queries=9000)(flat, batch_of(torch.full((1, 1, 28, 28), 0.5), [0]), seeded())
    assert len(sides) == 8999
    for query, side in enumerate(sides, start=1):
        assert side**2 == pytest.approx(0.8 * 784 / 2 ** sum(query > at for at in HALVED_AFTER))


@pytest.mark.parametrize(
    ("norm", "shape", "query", "side"),
    [("linf", (3, 28, 28), 1, 25), ("linf", (3, 28, 28), 11, 18), ("linf", (3, 28, 28), 51, 13),
     ("l2", (3, 28, 28), 1, 25), ("l2", (3, 28, 28), 11, 19), ("l2", (1, 4, 4), 51, 3), ("linf", (1, 4, 4), 51, 2)],
)  # fmt: skip
def test_windows_are_whole_squares_and_odd_in_l2(monkeypatch, norm, shape, query, side):
    asked, windows = [], square._Search.window

    def spy(self, side, dice):
        asked.append(side)
        return windows(self, side, dice)

    monkeypatch.setattr(square._Search, "window", spy)
    Square(0.1, norm, queries=60)(flat, batch_of(torch.full((1, *shape), 0.5), [0]), seeded())
    a_query = {"linf": 1, "l2": 2}[norm]
    assert len(asked) == 59 * a_query
    assert asked[(query - 1) * a_query] == side


def flat(x):
    """Return logits of class 0 that nothing moves."""
    return x.flatten(1).sum(1, keepdim=True) * 0 + torch.tensor([1.0, 0.0, -1.0], dtype=x.dtype)


class Known(square.Dice):
    """Places in the order given."""

    def place(self, most):
        return self.host.pop(0)


def test_square_moves_the_mass_of_one_window_into_another_in_l2():
    x = torch.full((2, 3, 12, 12), 0.5, dtype=torch.float64)
    before = 0.1 * torch.randn(x.shape, generator=seeded(), dtype=torch.float64)
    before *= 0.4 / before.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    nobody = torch.zeros(2, dtype=torch.int64)
    search = square._L2(nobody, x, nobody, Whole(flat, x + before), torch.full((2,), torch.inf, dtype=torch.float64))
    search.try_square(0.4, 3.0, Known(seeded(), [0, 1, 8, 9, 0]))
    after = search.best.images - x
    torch.testing.assert_close(after.flatten(1).norm(dim=1), torch.full((2,), 0.4, dtype=torch.float64))
    assert not after[..., 8:11, 9:12].any()
    ratio = after / before
    kept = torch.ones(12, 12, dtype=torch.bool)
    kept[0:3, 1:4] = kept[8:11, 9:12] = False
    torch.testing.assert_close(ratio[..., kept], ratio[:, :1, 5:6, 5].expand(2, 3, int(kept.sum())))


def moved(before, eps, to, off):
    """Let Square move the mass of the 3 x 3 window at `off` to that at `to`, whatever the margin; return delta."""
    x = torch.full(before.shape, 0.5, dtype=torch.float64)
    nobody = torch.zeros(len(x), dtype=torch.int64)
    margin = torch.full((len(x),), torch.inf, dtype=torch.float64)
    search = square._L2(nobody, x, nobody, Whole(flat, x + before), margin)
    search.try_square(eps, 3.0, Known(seeded(), [*to, *off, 0]))
    return search.best.images - x


@pytest.mark.parametrize("off", [(8, 9), (1, 2), (0, 1)], ids=["apart", "overlapping", "the same"])
@pytest.mark.parametrize("channels", [1, 3])
def test_each_channel_gets_the_mass_of_its_own_windows_and_its_share_of_what_is_unused(channels, off):
    before = torch.randn(2, channels, 12, 12, generator=seeded(), dtype=torch.float64)
    before *= torch.tensor([1.0, 8.0, 0.1], dtype=torch.float64)[:channels, None, None]  # hardly any in the last
    before *= 0.4 / before.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    eps, to = 0.5, (0, 1)
    after = moved(before, eps, to, off)
    windows = torch.zeros(12, 12, dtype=torch.bool)
    for top, left in (to, off):
        windows[top : top + 3, left : left + 3] = True
    unused = (eps**2 - 0.4**2) / channels
    expected = before[..., windows].square().sum(-1) + unused
    torch.testing.assert_close(after[..., 0:3, 1:4].square().sum((2, 3)), expected)
    torch.testing.assert_close(after[..., ~windows], before[..., ~windows])
    torch.testing.assert_close(after.flatten(1).norm(dim=1), torch.full((2,), eps, dtype=torch.float64))
