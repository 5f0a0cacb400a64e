"""A comparison as text for papers and programs: CSV, Markdown, LaTeX with booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from bilaw.evaluation.compare import LEVEL, Cell, Comparison

BEST = f"better than every other row by more than chance, p < {LEVEL:g}"
UNRELIABLE = "unreliable: a check of the audit failed; compared with nothing"
NOT_AUDITED = "not audited"
SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def to_csv(found: Comparison) -> str:
    """Return a line for each run and attack; what is not known is empty."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["run", "attack", "accuracy", "low", "high", "deviation", "reliable", "best"])
    for name, row in found.rows.items():
        for attack, cell in row.items():
            spread = cell.spread.deviation if cell.spread else None
            reliable = {True: "yes", False: "no", None: "not audited"}[cell.reliable]
            lines.writerow(
                [name, attack, cell.accuracy, cell.low, cell.high, spread, reliable, "yes" if cell.best else "no"]
            )
    return out.getvalue()


def to_markdown(found: Comparison) -> str:
    """Return a table in Markdown; the best is bold where it is no chance."""

    def cell_of(cell: Cell) -> str:
        told = f"{cell.accuracy:.1%}"
        told = f"**{told}**" if cell.best else told
        told += f" ± {cell.spread.deviation:.1%}" if cell.spread else ""
        return (
            f"{told} [{cell.low:.1%}, {cell.high:.1%}]"
            + {True: "", False: " UNRELIABLE", None: " (not audited)"}[cell.reliable]
        )

    def plain(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
        return "".join(f"\\{c}" if c in "*_`[]" else c for c in escaped).replace("\n", " ")

    head = ["run", *found.attacks]
    lines = [head, ["---", *("---:" for _ in found.attacks)]]
    lines += [[plain(name), *(cell_of(row[attack]) for attack in found.attacks)] for name, row in found.rows.items()]
    lines[0] = [plain(word) for word in head]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n95 % intervals; bold: {BEST}.\n"


def to_latex(found: Comparison) -> str:
    """Return a tabular for the booktabs package, in percent; the best is bold where it is no chance."""
    cells = [cell for row in found.rows.values() for cell in row.values()]

    def cell_of(cell: Cell) -> str:
        told = f"{100 * cell.accuracy:.1f}"
        told = f"\\textbf{{{told}}}" if cell.best else told
        told += f" $\\pm$ {100 * cell.spread.deviation:.1f}" if cell.spread else ""
        told += {True: "", False: "\\textsuperscript{!}", None: "\\textsuperscript{?}"}[cell.reliable]
        return f"{told} {{\\footnotesize [{100 * cell.low:.1f}, {100 * cell.high:.1f}]}}"

    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * len(found.attacks)}}}",
        "\\toprule",
        " & ".join(["Run", *(escaped(attack) for attack in found.attacks)]) + " \\\\",
        "\\midrule",
        *(
            " & ".join([escaped(name), *(cell_of(row[attack]) for attack in found.attacks)]) + " \\\\"
            for name, row in found.rows.items()
        ),
        "\\bottomrule",
        "\\end{tabular}",
        f"% Accuracy in percent, 95 % intervals. Bold: {BEST}.",
    ]
    if any(cell.reliable is False for cell in cells):
        lines.append(f"% !: {UNRELIABLE}.")
    if any(cell.reliable is None for cell in cells):
        lines.append(f"% ?: {NOT_AUDITED}.")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Return text as LaTeX shows it.

    >>> escaped("a_b & 50 %")
    'a\\_b \\& 50 \\%'
    """
    return text.translate(SPECIAL).replace("\n", " ")


FORMATS: dict[str, Callable[[Comparison], str]] = {"csv": to_csv, "markdown": to_markdown, "latex": to_latex}
