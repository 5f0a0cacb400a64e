"""The benchmarks' own arithmetic: what is counted, what is told, and that documents follow from results."""

import json
import sys

import harness
import machine
import outcomes
import passes
import pytest
import tables
import torch
import verdicts
from harness import Side, Taken, Worker, turns
from torch import nn

from bilaw.attacks import PGD, fast_fgsm
from bilaw.models import build
from bilaw.net import Net
from bilaw.types import Batch

N, STEPS = 7, 3
COMPARED = 4  # rows of two images, through a chain and through the module it was read off


def batch_of(shape=(1, 28, 28), n=N):
    drawn = torch.Generator().manual_seed(0)
    return Batch(torch.rand(n, *shape, generator=drawn), torch.arange(n) % 10, torch.arange(n))


def taken(*cpu, wall=None, passes=None):
    clock = wall or cpu
    return Taken([{"cpu": a, "wall": b} for a, b in zip(cpu, clock, strict=True)], passes, {})


@pytest.mark.parametrize("counter", ["hooks", "deep"])
@pytest.mark.parametrize(("name", "shape"), [("tiny-cnn", (1, 28, 28)), ("small-cnn", (3, 32, 32))])
def test_pgd_is_a_row_forward_and_a_row_back_for_each_sample_and_step(counter, name, shape):
    module = build(name, shape, 10, seed=0).eval()
    with passes.COUNTERS[counter](module) as count:
        PGD(0.1, steps=STEPS)(module, batch_of(shape), torch.Generator().manual_seed(0))
    compared = {"hooks": 0, "deep": COMPARED}[counter]  # who is watched by hooks is climbed as he is
    assert (count.forward, count.backward) == (N * STEPS + compared, N * STEPS)


@pytest.mark.parametrize("counter", ["hooks", "deep"])
def test_forward_passes_without_gradients_have_no_way_back(counter):
    module = build("tiny-cnn", (1, 28, 28), 10, seed=0)
    with torch.no_grad(), passes.COUNTERS[counter](module) as count:
        module(batch_of().x)
        module(batch_of(n=3).x)
    assert (count.forward, count.backward) == (N + 3, 0)


@pytest.mark.parametrize("counter", ["hooks", "deep"])
def test_a_gradient_of_the_parameters_counts_like_one_of_the_images(counter):
    module = build("tiny-cnn", (1, 28, 28), 10, seed=0)
    with passes.COUNTERS[counter](module) as count:
        module(batch_of().x).sum().backward()
    assert (count.forward, count.backward) == (N, N)


def test_passes_on_the_weights_alone_are_seen_below():
    module = build("fc1", (1, 28, 28), 10, seed=0)
    first, last = (part for part in module.modules() if isinstance(part, nn.Linear))
    with passes.deep(module) as count:
        torch.addmm(
            last.bias, torch.addmm(first.bias, batch_of().x.flatten(1), first.weight.t()).relu(), last.weight.t()
        )
    assert (count.forward, count.backward) == (N, 0)
    assert count.multiply_adds == N * (first.weight.numel() + last.weight.numel())


def test_bf16_and_one_step_are_counted_alike():
    module = build("tiny-cnn", (1, 28, 28), 10, seed=0)
    with passes.deep(module) as count:
        fast_fgsm(0.1)(Net(module, bf16=True).frozen(), batch_of(), torch.Generator().manual_seed(0))
    assert (count.forward, count.backward) == (N + COMPARED, N)


def test_multiply_adds_are_those_of_the_layers():
    module = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(3 * 16, 5, bias=False))
    with torch.no_grad(), passes.deep(module) as count:
        module(torch.zeros(4, 2, 4, 4))
    assert count.multiply_adds == 4 * (16 * 3 * 2 * 9 + 48 * 5)
    assert count.told() == {"forward": 4, "backward": 0, "multiply_adds": count.multiply_adds}


def test_counting_leaves_the_module_as_it_was():
    module = build("tiny-cnn", (1, 28, 28), 10, seed=0)
    before = module(batch_of().x)
    with passes.hooks(module):
        during = module(batch_of().x)
    assert torch.equal(before, during)
    assert not any(part._forward_hooks for part in module.modules())


def test_medians_spreads_and_ratios():
    told = {"ours": outcomes.outcome(taken(1.0, 2.0, 9.0)), "theirs": outcomes.outcome(taken(6.0, 4.0, 5.0), [30.0])}
    assert told["ours"]["cpu"] == {"median": 2.0, "least": 1.0, "most": 9.0, "n": 3}
    assert told["theirs"]["mib"]["median"] == 30.0
    one = outcomes.ratio(told, "theirs", "ours", least=2.5)
    assert (one["cpu"], one["wall"], one["met"], one["target"]) == (2.5, 2.5, True, "at least 2.5")
    assert not outcomes.ratio(told, "theirs", "ours", most=2.4)["met"]
    assert "mib" not in one


def test_a_target_has_to_be_met_by_both_clocks():
    told = {"ours": outcomes.outcome(taken(1.0, wall=[2.0])), "theirs": outcomes.outcome(taken(4.0, wall=[4.0]))}
    assert not outcomes.ratio(told, "theirs", "ours", least=3)["met"]


def test_work_is_compared_where_both_sides_have_it_counted():
    counted = {"forward": 1, "backward": 1, "multiply_adds": 30}
    told = {"a": outcomes.outcome(taken(1.0, passes=counted)), "b": outcomes.outcome(taken(1.0, passes=counted))}
    assert outcomes.ratio(told, "a", "b")["multiply_adds"] == 1
    told["b"] = outcomes.outcome(taken(1.0, passes={"forward": 1, "backward": 1}))
    assert "multiply_adds" not in outcomes.ratio(told, "a", "b")


def test_verdicts_are_compared_one_by_one():
    told = verdicts.compared({"we": "00110", "they": "01100"}, "we")
    assert told == {"we": {"robust": 0.4}, "they": {"robust": 0.4, "only bilaw breaks": 1, "only it breaks": 1}}


def test_a_point_outside_the_ball_breaks_nothing():
    x, y = torch.tensor([[0.2], [0.2], [0.9]]), torch.tensor([0, 0, 0])

    class Half(nn.Module):
        def forward(self, x):
            return torch.cat([0.5 - x, x - 0.5], dim=1)

    found = torch.tensor([[0.6], [0.3], [1.1]])
    assert verdicts.robust(Half(), x, y, found, 0.5, "linf").tolist() == [False, True, True]
    assert verdicts.robust(Half(), x, y, found, 0.3, "linf").tolist() == [True, True, True]
    assert verdicts.letters(torch.tensor([True, False])) == "10"


def test_sides_are_processes_that_take_turns(tmp_path):
    program = tmp_path / "program.py"
    lines = [
        "import os, sys",
        f"sys.path.insert(0, {str(harness.ROOT / 'benchmarks')!r})",
        "from harness import Job, entered",
        "def build(case):",
        "    print('a peer that talks')",
        "    return Job(lambda: case['value'], None, lambda r: {'got': r, 'pid': os.getpid(), 'env': os.environ['X']})",
        "entered({'build': build}, lambda: None)",
    ]
    program.write_text("\n".join(lines))
    sys.argv, before = [str(program)], sys.argv
    try:
        found = turns({name: Side("build", {"value": name}, {"X": "1" + name}) for name in "ab"}, 3, threads=1)
    finally:
        sys.argv = before
    assert {name: one.facts["got"] for name, one in found.items()} == {"a": "a", "b": "b"}
    assert {name: one.facts["env"] for name, one in found.items()} == {"a": "1a", "b": "1b"}
    assert len({one.facts["pid"] for one in found.values()}) == 2
    assert all(len(one.rounds) == 3 and one.rounds[0]["wall"] >= 0 for one in found.values())


def test_a_side_that_fails_ends_the_program(tmp_path, capfd):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('no such peer')")
    with pytest.raises(SystemExit, match="build: its process ended"):
        Worker(Side("build", {}), threads=1, program=str(program))
    assert "no such peer" in capfd.readouterr().err


def test_the_machine_is_told(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Some CPU\ncpu family\t: 25\nmodel\t\t: 17\nflags\t\t: fpu avx2 amx_bf16\n")
    assert machine.processor(cpuinfo) == "Some CPU, family 25 model 17, avx2 amx_bf16"
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "7")
    assert machine.facts()["allocator"]["MALLOC_TRIM_THRESHOLD_"] == "7"
    assert machine.versions()["torch"] == torch.__version__


def results(name="speed", cpu=2.0):
    sides = {"ours": outcomes.outcome(taken(1.0)), "theirs": outcomes.outcome(taken(cpu))}
    ratios = [outcomes.ratio(sides, "theirs", "ours", least=1.5)]
    case = {"title": "a case", "sides": sides, "ratios": ratios, "notes": ["nothing else"]}
    told = {"processor": "P", "cores": 2, "python": "3", "allocator": {}, "load": 0.0}
    head = {"claim": name, "command": "python it.py", "quick": False, "threads": 1, "versions": {"torch": "9"}}
    return json.loads(json.dumps({**head, "machine": told, "cases": [case]}))


def test_tables_stand_between_their_comments_and_the_rest_stays():
    document = "before\n\n" + tables.block("speed", "old") + "\nafter <!-- begin nothing -->\n"
    made = tables.filled(document, {"speed": results()})
    assert made.startswith("before\n\n<!-- begin: speed (made by `python benchmarks/tables.py`) -->\n")
    assert made.endswith("<!-- end: speed -->\n\nafter <!-- begin nothing -->\n")
    assert "old" not in made
    assert "| theirs / ours | 2.00 | 2.00 | at least 1.5: met |" in made
    assert "Nothing else." in made
    assert tables.filled(made, {"speed": results()}) == made
    assert "at least 1.5: missed" in tables.filled(made, {"speed": results(cpu=1.25)})


def test_results_and_places_have_to_match():
    with pytest.raises(SystemExit, match="memory"):
        tables.filled(tables.block("speed", ""), {"speed": results(), "memory": results("memory")})
    made = tables.filled(tables.block("speed", "") + tables.block("memory", "| 1 |"), {"speed": results()})
    assert made.endswith(tables.block("memory", tables.MISSING))
    with pytest.raises(SystemExit, match="two places"):
        tables.filled(2 * tables.block("speed", ""), {"speed": results()})


def test_quick_results_are_marked_and_kept_apart(tmp_path, capsys):
    quick = {**results(), "quick": True}
    outcomes.keep(quick, tmp_path / "new")
    assert json.loads((tmp_path / "new/speed.json").read_text()) == quick
    assert "no figures to quote" in capsys.readouterr().out
    assert harness.QUICK != harness.RESULTS


def test_the_document_is_what_the_results_say():
    document = tables.DOCUMENT.read_text(encoding="utf-8")
    held = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(tables.RESULTS.glob("*.json"))}
    assert tables.filled(document, held) == document
    assert not any(one["quick"] for one in held.values())


def test_paths_of_this_machine_are_not_told():
    assert harness.named("/some/where/run") == "run"
    assert harness.named("--quick") == "--quick"
    assert outcomes.case_told({"run": "/some/where/run", "eps": 1}) == {"run": "run", "eps": 1}
