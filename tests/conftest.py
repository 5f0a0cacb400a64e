"""One thread a process: two OpenMP threads that wait for each other on a busy machine are far slower than one."""

import torch

torch.set_num_threads(1)

collect_ignore_glob = ["*conftest.py"]  # there is nothing in them to test, and they all go by one name
