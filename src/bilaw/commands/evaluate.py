"""`bilaw evaluate`: what a run, a checkpoint or any classifier is worth, and whether the numbers can be relied on."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from bilaw import runs
from bilaw.commands.evaluate_progress import evaluation_progress
from bilaw.commands.train import RUNS
from bilaw.config import ComputeConfig
from bilaw.datasets.data import Dataset, shape_of
from bilaw.datasets.table import load as load_data
from bilaw.errors import refuse
from bilaw.evaluation.evaluate import evaluate
from bilaw.evaluation.measure import folder_name
from bilaw.evaluation.plan import SAMPLES, Plan
from bilaw.evaluation.result import describe
from bilaw.evaluation.store import read_result
from bilaw.evaluation.suites import SINGLE, USUAL
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.recipes.methods import names
from bilaw.settings import number_or_fraction
from bilaw.training.pretrained import load_omega
from bilaw.weighting import Omega

DESCRIPTION = """\
Measure TARGET (a run, a .safetensors file, or module:function): accuracies with
95 % intervals, a verdict on every sample, and an audit. A killed evaluation
goes on where it was when the same command is given again."""
ATTACKS = f"""\
attacks: autoattack, {", ".join(SINGLE)},
pgd-20, cw-20, kl-20, pgd-20x5 (restarts), weight-aware-20, weight-aware-20:RUN"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "evaluate",
        help="measure clean and robust accuracy, with intervals and an audit",
        usage="bilaw evaluate TARGET [options]",
        description=DESCRIPTION,
        epilog=ATTACKS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("target", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("--attacks", metavar="A,B", default=",".join(USUAL), help="default: %(default)s")
    parser.add_argument("--model", metavar="NAME", help="whose weights the .safetensors file holds")
    parser.add_argument("--data", metavar="NAME", help="as `bilaw train --data.name` (default: the run's)")
    parser.add_argument("--eps", metavar="X", help="radius, such as 8/255 (default: the run's)")
    parser.add_argument("--norm", metavar="NAME", help="linf or l2 (default: the run's, or linf)")
    parser.add_argument("--samples", metavar="N", default=str(SAMPLES), help="or all (default: %(default)s)")
    parser.add_argument("--audit", metavar="N", default="200", help="samples of the audit (default: 200; 0: none)")
    parser.add_argument("--points", action="store_true", help="keep the adversarial points")
    parser.add_argument("--seed", metavar="N", default="0", help="default: %(default)s")
    parser.add_argument("--batch", metavar="N", help="default: 128 on a CPU, else 512")
    parser.add_argument("--device", metavar="NAME", help="default: a GPU if there is one")
    parser.add_argument("--threads", metavar="N", help="default: PyTorch's choice")
    parser.add_argument("--out", metavar="DIR", help="default: RUN/evaluation, or in evaluations/")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print what came of it."""
    target = _target(arguments)
    plan = target.plan(arguments)
    compute = ComputeConfig(device=arguments.device, threads=_whole("--threads", arguments.threads))
    out = Path(arguments.out) if arguments.out else target.folder(plan)
    console = Console()
    before = read_result(out)
    title = target.name
    with evaluation_progress(console, title, quiet=before is not None, audited=plan.audit > 0) as watch:
        try:
            found = evaluate(
                target.model,
                target.data,
                eps=plan.eps,
                norm=plan.norm,
                attacks=plan.attacks,
                samples=plan.samples,
                seed=plan.seed,
                batch=_whole("--batch", arguments.batch),
                audit=plan.audit,
                points=plan.points,
                omega=target.omega,
                compute=compute,
                out=out,
                watch=watch,
                name=target.name,
                about=target.about,
            )
        except KeyboardInterrupt:
            again = shlex.join(["bilaw", *sys.argv[1:]])
            print(f"stopped; finished batches are in {out}. To go on: {again}", file=sys.stderr)
            raise
    print("\n".join(describe(found.result)))
    print(f"{'unchanged in' if before else 'in'} {out}: result.json, card.md, verdicts.safetensors")
    return 0


class Target:
    """What is to be measured, as the command line names it."""

    def __init__(self, name: str, model: nn.Module, data: Dataset, run: runs.Run | None, omega: Omega | None) -> None:
        self.name, self.model, self.data, self.run, self.omega = name, model.eval(), data, run, omega
        config = run.config() if run else None
        self.ball = (config.attack.eps, config.attack.norm) if config else (None, None)
        self.about = {"method": names(config)[2], "seed": config.seed} if config else {}

    def plan(self, arguments: argparse.Namespace) -> Plan:
        """Return the settings in force."""
        eps, norm = self.ball
        if arguments.eps is not None:
            eps = number_or_fraction("--eps", arguments.eps)
        if eps is None:
            refuse("--eps", None, "the radius of the ball, such as 0.1 or 8/255: nothing else says it here")
        samples = None if arguments.samples == "all" else _whole("--samples", arguments.samples)
        return Plan(
            eps,
            arguments.norm or norm or "linf",
            tuple(name for name in arguments.attacks.split(",") if name),
            samples,
            _whole("--seed", arguments.seed) or 0,
            audit=_whole("--audit", arguments.audit) or 0,
            points=arguments.points,
        )

    def folder(self, plan: Plan) -> Path:
        """Return where the evaluation goes, if nothing else is said."""
        return self.run.evaluation if self.run else folder_name(self.name, plan)


def _target(arguments: argparse.Namespace) -> Target:
    asked: str = arguments.target
    places = [place for place in (Path(asked), RUNS / asked) if place.is_dir()] if asked else []
    if places:
        return _of_run(runs.Run.open(places[0]), arguments)
    if arguments.data is None:
        refuse("--data", None, f"the data to measure {asked} on, as in `bilaw train --data.name`")
    data = _data(arguments.data, None)
    shape, classes = shape_of(data.test or data.train), len(data.classes)
    if Path(asked).is_file() or asked.endswith(".safetensors"):
        if arguments.model is None:
            refuse("--model", None, f"the model whose weights are in {asked}, such as tiny-cnn or module:function")
        model = load_model(arguments.model, shape, classes, seed=0)
        load_weights(model, asked)
        return Target(Path(asked).stem, model, data, None, None)
    if ":" not in asked:
        refuse("TARGET", asked, "the folder of a run, a .safetensors file, or a model as module:function")
    return Target(asked, load_model(asked, shape, classes, seed=0), data, None, None)


def _of_run(run: runs.Run, arguments: argparse.Namespace) -> Target:
    config = run.config()
    if not run.best.is_file():
        refuse("TARGET", str(run.path), "a run with a best epoch; this one has none yet")
    data = _data(arguments.data or config.data.name, config.data.root)
    if arguments.data is None and data.test is None:
        refuse("--data", None, f"data to measure on: {data.name} has no test half, and the run was trained on the rest")
    model = load_model(arguments.model or config.model.name, shape_of(data.test or data.train), len(data.classes), 0)
    load_weights(model, run.best)
    omega = load_omega(run.path, len(data.classes)) if run.omega.is_file() else None
    if omega is None and config.scheme.network is not None:
        omega = load_omega(config.scheme.network, len(data.classes))
    return Target(run.path.name, model, data, run, omega)


def _data(name: str, root: str | None) -> Dataset:
    data = load_data(name, root)
    for note in data.notes:
        print(f"note: {note}", file=sys.stderr)
    return data


def _whole(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        refuse(option, text, "a whole number")
    return int(text)
