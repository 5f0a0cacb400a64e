"""The verbs of the command line, one file each: `add_parser` says what it takes, `run` does it."""
