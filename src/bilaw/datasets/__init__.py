"""Data sets: where they come from, how they are checked, split and batched."""
