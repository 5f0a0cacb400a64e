"""A process that has imported everything once and forks a child for each life of an evaluation.

It reads a job a line (JSON) and answers with the child's exit status: minus the signal that killed it.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import evaluation_kit as kit

from bilaw import cli, evaluate
from bilaw.evaluation import measure
from bilaw.models import build
from bilaw.models.weights import load_weights

SAMPLES, BATCH = 48, 16
ATTACKS = ("clean", "pgd-5", "autoattack", "square")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def trap(event, where, left):
    """Die at the `left`-th time that `event` happens to a file whose name holds `where`."""
    count = [left]

    def is_due(happened, path):
        count[0] -= happened == event and where in str(path)
        return count[0] == 0 and happened == event and where in str(path)

    write, write_text, replace, mkdir, rmtree = (
        Path.write_bytes,
        Path.write_text,
        Path.replace,
        Path.mkdir,
        shutil.rmtree,
    )

    def half(original):
        def writing(path, data, **more):
            if is_due("write", path):
                original(path, data[: len(data) // 2], **more)
                die()
            return original(path, data, **more)

        return writing

    def around(original):
        def moving(path, *args, **more):
            if is_due("replace", path):
                die()
            got = original(path, *args, **more)
            if is_due("replaced", path):
                die()
            return got

        return moving

    def made(path, *args, **more):
        mkdir(path, *args, **more)
        if is_due("mkdir", path):
            die()

    def cleared(path, *args, **more):
        if is_due("rmtree", path):
            next(Path(path).iterdir()).unlink()
            die()
        rmtree(path, *args, **more)

    Path.write_bytes, Path.write_text, Path.replace = half(write), half(write_text), around(replace)
    Path.mkdir, shutil.rmtree = made, cleared


def slow(seconds):
    """Let every look of the judge take a while, so that a kill at a random moment hits the middle."""
    for name in ("judge", "classify"):
        original = getattr(measure, name)

        def waiting(*args, original=original):
            time.sleep(seconds)
            return original(*args)

        setattr(measure, name, waiting)


def no_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))


def no_rights(folder):
    folder.mkdir(exist_ok=True)
    folder.chmod(0o555)
    folder.parent.chmod(0o755)
    if os.geteuid() == 0:
        os.setuid(65534)


def job_evaluate(out, weights, trouble=None):
    model = build("fc1", (1, 8, 8), 10, seed=0)
    load_weights(model, weights)
    settings = {"eps": kit.EPS, "attacks": ATTACKS, "samples": SAMPLES, "batch": BATCH, "audit": 10}
    settings |= {"points": True}
    if trouble == "no room":
        no_room()
    if trouble == "no rights":
        no_rights(Path(out))
    evaluate(model, "digits", out=out, **settings)


def job_cli(argv, trouble=None):
    sys.argv[1:] = argv
    if trouble == "no room":
        no_room()
    sys.exit(cli.main(argv))


def child(job):
    warnings.simplefilter("error")
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        if job.get("kill"):
            trap(*job["kill"])
        if job.get("slow"):
            slow(job["slow"])
        globals()[f"job_{job['do']}"](**job["with"])
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = 3
        brief = bool(job["with"].get("trouble"))  # where there is no room, there is none for a traceback
        print(repr(error) if brief else traceback.format_exc(), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    torch.set_num_threads(1)
    kit.make_cheap()
    evaluate(build("fc1", (1, 8, 8), 10, seed=0), "digits", eps=kit.EPS, attacks=["pgd-1"], samples=4, audit=2)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(job)
        if job.get("after"):
            time.sleep(job["after"])
            os.kill(pid, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
