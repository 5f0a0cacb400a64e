"""The version of the package, and of nothing else."""

__version__ = "0.1.0"
