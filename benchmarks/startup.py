"""From the start of `bilaw train` to its first step, against `import torch`.

    python benchmarks/startup.py [--quick] [--rounds 5] [--threads 2]

The sides take turns as processes: `python -c "import torch"`, `bilaw --help`, and `bilaw train` on digits with a
checkpoint after the first step, whose file tells that the step was done; the run is then ended. So the last has the
data read, the model built, the run folder made, one PGD-10 step of 32 images taken and one checkpoint written.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import Taken, arguments, entered, head, say
from outcomes import keep, outcome, ratio

BILAW = str(Path(sys.executable).with_name("bilaw"))
MORE = 3.0  # seconds beside `import torch`
TRAIN = ["train", "--data.name", "digits", "--optim.batch", "32", "--optim.epochs", "50", "--log.checkpoint_steps", "1"]


def until(command: list[str], done: Callable[[], bool] | None, env: dict[str, str]) -> dict[str, float]:
    """Run a process to its end, or until something is `done`; return what it took."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, **quiet)  # type: ignore[call-overload]
    while done is not None and not done():
        assert process.poll() is None, f"{' '.join(command)} ended (exit {process.returncode}) before its first step"
        time.sleep(0.002)
    wall = time.perf_counter() - began
    if done is not None:
        process.kill()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it has been waited for
    return {"wall": wall if done is not None else time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime}


def trained(env: dict[str, str]) -> dict[str, float]:
    """Return what `bilaw train` takes to its first step."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [BILAW, *TRAIN, "--run", str(run)]
        return until(command, lambda: any((run / "checkpoints").glob("[!.]*")), env)


def main() -> None:
    read = arguments(__doc__)
    results = head("startup", read)
    env = {**os.environ, "OMP_NUM_THREADS": str(read.threads)}
    sides: dict[str, Callable[[], dict[str, float]]] = {
        "import torch": lambda: until([sys.executable, "-c", "import torch"], None, env),
        "bilaw --help": lambda: until([BILAW, "--help"], None, env),
        "bilaw train, to its first step": lambda: trained(env),
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for turn in range(read.rounds + 1):
        for name, side in sides.items():
            taken = side()
            say(f"{name}: {taken['wall']:.2f} s")
            if turn:  # the first round fills the file cache
                rounds[name].append(taken)
    told = {name: outcome(Taken(values, None, {})) for name, values in rounds.items()}
    names = list(sides)
    more = [told[names[2]][kind]["median"] - told[names[0]][kind]["median"] for kind in ("wall", "cpu")]
    note = f"{more[0]:.2f} s by the clock ({more[1]:.2f} s of the processor) more than `import torch`; "
    note += f"target: under {MORE:g} s: {'met' if more[0] < MORE else 'missed'}"
    ratios = [ratio(told, names[2], names[0])]
    results["cases"].append({"title": "start to first step", "sides": told, "ratios": ratios, "notes": [note]})
    keep(results, read.out)


if __name__ == "__main__":
    entered({}, main)
