"""A process that has imported everything once and forks a child for each life of a run; children are killed at will.

It reads a job a line (JSON) and answers with the child's exit status: minus the signal that killed it.
"""

import json
import os
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path

import tensorboardX.event_file_writer  # noqa: F401 - loaded once, for all children
import torch
from safetensors.torch import save_file

from bilaw import cli, runs
from bilaw.training import average, keepers, loop
from bilaw.training.fit import Watch, fit
from bilaw.training.guards import Look

sys.path.insert(0, str(Path(__file__).parent))
import training_kit as kit


class Killer:
    """Ends this process at the `left`-th time that `event` happens to something whose name holds `where`."""

    def __init__(self, event, where, left):
        self.event, self.where, self.left = event, where, left

    def is_due(self, event, where=""):
        self.left -= event == self.event and self.where in str(where)
        return self.left == 0 and event == self.event and self.where in str(where)

    def at(self, event, where=""):
        if self.is_due(event, where):
            die()

    def arm(self):
        """Put a trap into every place where a run can be hit."""
        if self.event in TROUBLE:
            trouble, self.event = TROUBLE[self.event], "checkpoint"
            self.at = lambda event, where="": trouble() if self.is_due(event, where) else None
        self._around(loop.Loop, "_step", "step")
        self._around(average.Average, "update", "half a step", before=True)
        for name in ("epoch", "best", "keep_good", "back_to", "checkpoint"):
            self._around(keepers.Folder, name, name)
        for name in ("rename", "unlink"):
            self._around(Path, name, name, before=True)
        write, replace, append = Path.write_bytes, Path.replace, runs.append

        def half_write(path, data):
            if self.is_due("write", path):
                write(path, data[: len(data) // 2])
                die()
            return write(path, data)

        def not_replaced(path, target):
            self.at("replace", target)
            return replace(path, target)

        def half_append(path, data):
            if self.is_due("append", path):
                with path.open("ab") as out:
                    out.write(data[: len(data) // 2])
                die()
            append(path, data)

        Path.write_bytes, Path.replace, runs.append = half_write, not_replaced, half_append

    def _around(self, owner, name, event, before=False):
        original = getattr(owner, name)

        def trapped(target, *args, **kwargs):
            if before:
                self.at(event, target)
            got = original(target, *args, **kwargs)
            if not before:
                self.at(event, target)
            return got

        setattr(owner, name, trapped)


def _no_large_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def _no_rights():
    for folder in (run := Path(sys.argv[-1])), run / "checkpoints":
        folder.chmod(0o500)
    if os.geteuid() == 0:
        os.setuid(65534)


TROUBLE = {"too large": _no_large_files, "not to be written to": _no_rights}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def scripted(robust, one_step):
    """A judge that says what it is told, epoch by epoch, until the attack is switched."""

    def judge(classifier, select, config, epoch, watched):
        return Look(epoch, 0.9, robust[epoch], one_step[epoch]) if watched else Look(epoch, 0.9, 0.1, float("nan"))

    return judge


def job_fit(run, resume, settings, out, data="held", judge=None):
    if judge:
        loop.judge = scripted(*judge)
    notes = []
    try:
        got = fit(
            kit.Small(),
            kit.dataset(data),
            kit.settings_of(settings),
            run=run,
            resume=resume,
            watch=Watch(note=notes.append),
        )
        save_file(got.model.state_dict(), out)
    finally:
        with Path(out).with_suffix(".notes").open("a") as told:
            told.writelines(f"{note}\n" for note in notes)


def job_cli(argv):
    sys.argv[1:] = argv
    sys.exit(cli.main(argv))


def child(job):
    warnings.simplefilter("error")
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        if job.get("kill"):
            Killer(*job["kill"]).arm()
        globals()[f"job_{job['do']}"](**job["with"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 3
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    torch.set_num_threads(1)
    # Much of PyTorch is imported by the first step; on one thread, autograd may be used before a fork.
    fit(kit.Small(), kit.dataset(), kit.config(scheme__name="learned", optim__epochs=1, data__select=150))
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(job)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
