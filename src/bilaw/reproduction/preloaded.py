"""What is imported by the process whose forks do the tasks: all that a first step would import besides, too."""

import warnings

import bilaw.reproduction.work  # noqa: F401
from bilaw.derivatives import load_forward_mode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's, about itself
    import torch._dynamo  # noqa: F401 - the optimisers' first step asks for it

    load_forward_mode()
