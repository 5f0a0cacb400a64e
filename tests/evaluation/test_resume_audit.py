"""The audit is kept and seen like the rest: its looks survive a kill, and its work is part of the progress."""

import evaluation_kit as kit
import pytest
from evaluation_kit import EPS

from bilaw import evaluate
from bilaw.evaluation import attack_checks, findings, measure
from bilaw.evaluation.attack_checks import PASSES
from bilaw.evaluation.measure import Watch

LOOKS = [  # of the audit, in the order in which they are taken
    "ce-20 1",
    "fgsm",
    "pgd-40x2",
    "cw-20 1",
    "no bound 0",
    "ce-10 0.25",
    "ce-10 0.5",
    "ce-10 1",
    "ce-10 2",
    "square",
]


def judged(honest, out=None, audit=20, samples=48, attacks=("pgd-3", "fgsm"), **more):
    settings = {"eps": EPS, "attacks": attacks, "samples": samples, "batch": 16, "audit": audit}
    return evaluate(honest, "digits", out=out, **settings, **more)


class Stop(Exception):
    pass


@pytest.fixture
def looks(monkeypatch):
    """What the audit's attacks are called for."""
    seen, original = [], findings.survivors

    class Seen:
        stop = None

        def __call__(self, trial, attack, eps, purpose):
            new = f"audit-{purpose}" not in trial.seen and trial.store.part(f"audit-{purpose}") is None
            if purpose == self.stop and new:
                raise Stop
            if new:
                seen.append(purpose)
            return original(trial, attack, eps, purpose)

    spy = Seen()
    spy.seen = seen
    monkeypatch.setattr(attack_checks, "survivors", spy)
    return spy


@pytest.fixture
def attacked(monkeypatch):
    """How many samples the audit's attacks were given, attack by attack."""
    given, original = [], findings.judge

    def counted(logits_of, batch, attack, *args):
        given.append((attack, len(batch.y)))
        return original(logits_of, batch, attack, *args)

    monkeypatch.setattr(findings, "judge", counted)
    return given


@pytest.mark.parametrize("at", ["fgsm", "no bound 0", "square"])
def test_looks_of_the_audit_that_are_finished_are_not_taken_again(honest, tmp_path, looks, attacked, at):
    looks.stop = at
    with pytest.raises(Stop):
        judged(honest, tmp_path / "out")
    before, done = list(looks.seen), len(attacked)
    kept = sorted(path.stem for path in (tmp_path / "out" / "parts").glob("audit-*"))
    assert kept == sorted(f"audit-{purpose}" for purpose in before) != []
    looks.stop = None
    looks.seen.clear()
    found = judged(honest, tmp_path / "out")
    assert not set(before) & set(looks.seen)
    in_all = len(attacked)
    attacked.clear()
    whole = judged(honest, tmp_path / "whole")
    assert len(attacked) == in_all
    assert in_all > done > 0
    assert found.result == whole.result
    assert not (tmp_path / "out" / "parts").exists()


@pytest.mark.parametrize("folder", ["out", None])
def test_one_look_serves_every_check_that_asks_for_it(honest, tmp_path, looks, folder):
    judged(honest, folder and tmp_path / folder)
    taken = [purpose for purpose in looks.seen if not purpose.startswith("no bound ") or purpose.endswith(" 0")]
    assert taken == LOOKS


def heard(honest, **more):
    told = []
    judged(honest, watch=Watch(work=lambda done, total: told.append((done, total))), **more)
    assert all(done <= total for done, total in told)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    return told


def test_the_audit_is_part_of_the_progress(honest):
    plain, audited = heard(honest, audit=0), heard(honest, audit=20)
    assert audited[0][0] == plain[0][0]
    assert audited[0][1] - plain[0][1] == 20 * PASSES
    assert audited[-1][0] - plain[-1][0] > 20 * PASSES / 4
    assert len(audited) > len(plain) + 10
    assert audited[-1][0] == audited[-1][1]
    assert plain[-1][0] == plain[-1][1]


@pytest.mark.parametrize("audit", [0, 20])
def test_all_work_is_done_at_the_end_even_where_the_first_attack_leaves_nothing_to_the_others(honest, cheap, audit):
    told = heard(honest, audit=audit, attacks=("autoattack",), samples=8)
    assert told[-1][0] == told[-1][1]
    images = kit.digits(8)
    wrong = []
    evaluate(
        honest,
        images.x,
        (images.y + 1) % 10,
        eps=EPS,
        attacks=("autoattack",),
        audit=audit,
        watch=Watch(work=lambda done, total: wrong.append((done, total))),
    )
    assert wrong[-1][0] == wrong[-1][1]


@pytest.mark.parametrize("stop", [2, 5, "no bound 0"])
def test_what_was_found_in_the_store_is_no_work_done_now(honest, tmp_path, monkeypatch, looks, stop):
    whole = heard(honest)
    first, calls, keep = [], [], measure._Work._part

    def part(self, *args):
        if len(calls) == stop:
            raise Stop
        calls.append(args)
        return keep(self, *args)

    looks.stop = stop
    with monkeypatch.context() as patch:
        patch.setattr(measure._Work, "_part", part)
        with pytest.raises(Stop):
            judged(honest, tmp_path / "out", watch=Watch(work=lambda done, total: first.append((done, total))))
    looks.stop = None
    second = heard(honest, out=tmp_path / "out")
    restored = min(len(calls), 9)
    assert [done for done, _ in second[:restored]] == [0] * restored
    assert first[-1][0] > 0
    assert first[-1][0] + second[-1][0] == whole[-1][0]
    assert second[0][1] < whole[0][1]
