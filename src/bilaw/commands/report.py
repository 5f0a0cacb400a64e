"""`bilaw report`: a page that people open, and figures for papers beside it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bilaw.commands.evaluate_progress import probe_progress
from bilaw.commands.train import RUNS
from bilaw.config import ComputeConfig
from bilaw.errors import refuse
from bilaw.files import explained

if TYPE_CHECKING:
    from bilaw.analysis.study import Study

NEEDED = ("matplotlib", "PIL", "plotly")
OUT = "report.html"
SIZE = 6.0


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "report",
        help="write an interactive page of one run or several, and figures for papers",
        description="Write one self-contained HTML page of runs: curves, accuracies, mistakes, weights, all samples. "
        "What no file of a run tells (logits, adversarial points) is computed once and kept in its folder.",
    )
    parser.add_argument("folders", metavar="RUN", nargs="+", help="a run's folder, or its name in runs/")
    parser.add_argument("--out", metavar="FILE", default=OUT, help="the page (default: %(default)s)")
    parser.add_argument("--figures", metavar="A,B", help="static figures beside the page, too: pdf, svg, png")
    parser.add_argument("--samples", metavar="N", help="held-out samples to look at, or all (default: those evaluated)")
    parser.add_argument(
        "--size", metavar="MB", default=str(SIZE), help="of the page: pictures fill it (default: %(default)s)"
    )
    parser.add_argument("--device", metavar="NAME", help="default: a GPU if there is one")
    parser.add_argument("--threads", metavar="N", help="default: PyTorch's choice")


def run(arguments: argparse.Namespace) -> int:
    """Read the runs, compute what is missing, and write."""
    for package in NEEDED:
        if find_spec(package) is None:
            refuse("report", f"without {package}", "its packages installed: pip install 'bilaw[report]'")
    from bilaw.analysis.study import studies, study
    from bilaw.report import page

    out, kinds = Path(arguments.out), _kinds(arguments.figures)
    page.check_out(out)
    size = _size(arguments.size)
    folders = [_folder(asked) for asked in arguments.folders]
    if len({folder.resolve() for folder in folders}) < len(folders):
        refuse("RUN", " ".join(arguments.folders), "each run once")
    compute = ComputeConfig(device=arguments.device, threads=_whole("--threads", arguments.threads))
    samples = 2**31 if arguments.samples == "all" else _whole("--samples", arguments.samples)
    console, began = Console(), time.monotonic()

    def read(folder: Path, name: str) -> Study:
        with probe_progress(console, name) as watch:
            return study(folder, name=name, samples=samples, compute=compute, watch=watch)

    read_runs = studies(folders, read)
    probed, began = time.monotonic() - began, time.monotonic()
    for one in read_runs:
        for note in one.notes:
            console.print(f"note: {one.name}: {note}", markup=False, highlight=False, soft_wrap=True)
    with explained(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    written = page.write(read_runs, out, size)
    took = f"runs looked at in {probed:.0f} s, page written in {time.monotonic() - began:.0f} s"
    told = f"{out}: {written / 1e6:.1f} MB; {took}"
    console.print(told, markup=False, highlight=False, soft_wrap=True)
    if kinds:
        folder = out.with_name(f"{out.stem}-figures")
        count = _draw(read_runs, folder, kinds)
        console.print(f"{folder}: {count} figures", markup=False, highlight=False, soft_wrap=True)
    return 0


def _draw(read_runs: Sequence[Study], folder: Path, kinds: Sequence[str]) -> int:
    """Write every figure that there is, in every format; return how many figures."""
    from bilaw import analysis

    wanted = [(name, draw, read_runs) for name, draw in analysis.OF_RUNS.items()]
    each = [(f"{_word(one.name)}-{name}", draw, one) for one in read_runs for name, draw in analysis.OF_RUN.items()]
    count = 0
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, draw, of in [*wanted, *each]:
        try:
            drawn = draw(of)  # type: ignore[operator]
        except analysis.Missing:
            continue
        count += 1
        for kind in kinds:
            drawn.save(folder / f"{name}.{kind}")
    return count


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in name).strip("-.") or "run"


def _kinds(text: str | None) -> list[str]:
    from bilaw.analysis.drawn import FORMATS

    kinds = [kind for kind in (text or "").split(",") if kind]
    if text is not None and (not kinds or any(kind not in FORMATS for kind in kinds)):
        refuse("--figures", text, f"formats out of {', '.join(FORMATS)}, as in pdf,png")
    return kinds


def _folder(asked: str) -> Path:
    places = [place for place in (Path(asked), RUNS / asked) if place.is_dir()] if asked else []
    return places[0] if places else refuse("RUN", asked, "the folder of a run (`bilaw runs` lists them)")


def _size(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 2.5 <= size <= 500:
        refuse("--size", text, "megabytes from 2.5 (the plotting library alone takes 2) to 500")
    return size


def _whole(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        refuse(option, text, "a whole number >= 1")
    return int(text)
