"""One self-contained page of several runs: studies in, HTML out."""
