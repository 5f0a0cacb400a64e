"""One thread a process: two OpenMP threads that wait for each other on a busy machine are far slower than one."""

from contextlib import suppress

import torch

with suppress(ImportError):  # PyTorch's compiler loads it, and it will not come after anyone's distutils
    import setuptools  # noqa: F401

torch.set_num_threads(1)
