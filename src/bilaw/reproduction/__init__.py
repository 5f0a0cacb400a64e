"""The paper's tables, reproduced: a grid of runs, worked off by local processes, and what comes of it."""
