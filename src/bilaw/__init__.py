"""Robust image classifiers with learned sample weights."""

__version__ = "0.1.0"
