"""One thread a process: two OpenMP threads that wait for each other on a busy machine are far slower than one."""

import torch

torch.set_num_threads(1)

collect_ignore = ["conftest.py"]  # nothing in it to test, and each folder's own goes by the same name
