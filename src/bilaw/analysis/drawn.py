"""What every figure is: a matplotlib figure, and the arrays it shows; and how they all look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bilaw.errors import look_up
from bilaw.files import replacing

P = ParamSpec("P")
R = TypeVar("R")
FORMATS = {"pdf": "vector", "svg": "vector", "png": "pixels"}
# Okabe and Ito's palette without its yellow, in an order in which neighbours differ in lightness, too: with the
# dashes and markers, lines are told apart in grey and by the colour-blind.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")
# Of amounts: one hue, even in lightness, so readable in grey; the faint end is still seen on white.
SHADES = LinearSegmentedColormap.from_list("bilaw", ["#bccfe2", "#08264a"])
CELLS = LinearSegmentedColormap.from_list("bilaw-cells", ["#f1f5f9", "#08264a"])
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e3e5e8",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 150,
    "savefig.bbox": "tight",
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "bilaw",
    "text.parse_math": False,  # a run's name may hold a dollar sign
}


class Drawn(NamedTuple):
    """A figure and its numbers."""

    figure: Figure
    data: dict[str, Any]  # arrays by name; of figures that show several runs, by the run's name first

    def save(self, path: Path) -> None:
        """Write the figure, whole or not at all, in the format that the file's name ends in."""
        kind = path.suffix.removeprefix(".")
        look_up("format", kind, FORMATS)
        # Without a date, a figure is the same to the byte whenever it is drawn again.
        metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
        with replacing(path) as part, rc_context(STYLE):
            self.figure.savefig(part, format=kind, metadata=metadata)


def axes(columns: int = 1, rows: int = 1, width: float = 3.4, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """Return a new figure with a row of axes or several."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        made = figure.subplots(rows, columns, squeeze=False)
    return figure, [ax for row in made for ax in row]


def plain_ticks(axis: Axis) -> None:
    """Let a logarithmic axis show 0.01, and not the mathematics that texts do not parse here."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def looks(names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return a line's look for each run: colour, dashes and marker."""
    shapes = zip(cycle(COLOURS), cycle(DASHES), cycle(MARKERS), strict=False)
    return [
        (name, {"color": colour, "linestyle": dash, "marker": marker, "markersize": 3.5, "linewidth": 1.4})
        for name, (colour, dash, marker) in zip(names, shapes, strict=False)
    ]


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Let a function draw in our style, whatever the user's own is."""

    @wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> R:
        with rc_context(STYLE):
            return draw(*arguments, **options)

    return drawn
