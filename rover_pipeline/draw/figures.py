"""Figures in two widths, drawn by Matplotlib as SVG: the frame that all charts share.

Their colours follow the light or dark theme of the page, their text has its font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from rover_pipeline.draw.formatting import elapsed, significant
from rover_pipeline.draw.theme import COLOURS

#: Widths of a figure for a desktop and for a phone, CSS pixels. Text is as large on both. Layout.
WIDE, NARROW = 1000, 352
#: Heights of a row of axes, of its title and of the tick labels below the last row; margins left and right. Layout.
ROW, TITLE, TICKS = 88, 24, 24
LEFT, RIGHT = 46, 18
#: With 72 dots per inch a point of Matplotlib is a CSS pixel. Layout.
_DPI = 72
_STYLE = {
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,
    "axes.titlepad": 6,
    "axes.titlecolor": COLOURS["ink"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 1.0,
    "lines.linewidth": 1.6,
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["grid"],
    "ytick.color": COLOURS["grid"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
}

_VARIABLE_OF = {colour: f"var(--{name})" for name, colour in COLOURS.items()}

_SVG = "{http://www.w3.org/2000/svg}"
#: Attributes with coordinates in pixels.
_COORDINATES = ("d", "transform", "x", "y", "points")
_MORE_THAN_TWO_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")


class Chart(NamedTuple):
    """A figure in two widths, as SVG elements, and a label that describes it in words."""

    wide: str
    narrow: str
    label: str


class Canvas(NamedTuple):
    """A figure to draw on; width and height are CSS pixels. `narrow`: it is the one for a phone."""

    figure: Figure
    narrow: bool
    width: float
    height: float

    def add_axes(self, left: float, right: float, top: float, bottom: float) -> Axes:
        """Axes with these margins to the edges of the figure, pixels. Matplotlib's own layout would draw everything
        twice, and the axes of each chart would begin somewhere else."""
        w, h = self.width, self.height
        return self.figure.add_axes((left / w, bottom / h, (w - left - right) / w, (h - top - bottom) / h))

    def add_rows(self, titles: Sequence[str], seconds: float) -> list[Axes]:
        """Axes above one another with the same time axis; only the last one has tick labels."""
        rows = []
        for number, title in enumerate(titles):
            below = (len(titles) - 1 - number) * ROW + TICKS
            axes = self.add_axes(LEFT, RIGHT, number * ROW + TITLE, below)
            axes.set_title(title)
            set_time_axis(axes, seconds, self.narrow)
            # Matplotlib's own formatter would write the exponent of large values over the title.
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
            axes.tick_params(labelbottom=number == len(titles) - 1)
            rows.append(axes)
        return rows

    @property
    def curve_bins(self) -> int:
        """Bins of a downsampled curve that a reader can distinguish."""
        return 170 if self.narrow else 480

    @property
    def mark_bins(self) -> int:
        """Marks beside one another that a reader can distinguish."""
        return 110 if self.narrow else 320


def draw_chart(
    name: str, label: str, draw: Callable[[Canvas], None], height: float | Callable[[bool], float], width: float = WIDE
) -> Chart:
    """Draw a figure in both widths.

    Args:
        name: of the chart, unique in the page.
        label: describes the figure for people who cannot see it.
        height: CSS pixels, or a function that gives it for a wide (False) and a narrow (True) figure.
        width: of the wide figure, CSS pixels.
    """

    def svg(narrow: bool) -> str:
        w, h = NARROW if narrow else width, height(narrow) if callable(height) else height
        # The user's own style has no influence. The salt makes ids unique in the page and reproducible.
        with matplotlib.style.context({**_STYLE, "svg.hashsalt": f"{name}-{narrow}"}, after_reset=True):
            figure = Figure(figsize=(w / _DPI, h / _DPI), dpi=_DPI)
            draw(Canvas(figure, narrow, w, h))
            file = io.BytesIO()
            no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
        return themed_svg(file.getvalue())

    return Chart(svg(False), svg(True), label)


def set_time_axis(axes: Axes, seconds: float, narrow: bool) -> None:
    """Let the horizontal axis show the whole recording, in seconds or minutes."""
    axes.set_xlim(0, max(seconds, 1e-3))
    if seconds >= 60:
        unit = 3600 if seconds >= 7200 else 60
        steps = [unit * step for step in (1 / 60, 1 / 30, 1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120)]
        max_ticks = 5 if narrow else 11
        step = next((step for step in steps if seconds / step <= max_ticks), seconds)
        axes.xaxis.set_major_locator(MultipleLocator(step))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: elapsed(value, seconds)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5 if narrow else 10, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.tick_params(length=0)


def themed_svg(file: bytes) -> str:
    """The `svg` element of a file by Matplotlib, to be put into HTML.

    Placeholder colours become CSS variables, and coordinates keep two decimals. Ids stay unique in the page as long as
    every figure has an `svg.hashsalt` of its own, but for those of groups: these are removed.
    """
    root = ElementTree.fromstring(file)
    for defs in root.findall(f"{_SVG}defs[{_SVG}style]"):
        root.remove(defs)  # This style sheet would apply to every element of the page.
    _, _, width, height = root.attrib["viewBox"].split()
    for element in root.iter():
        # Names are `{namespace}name`. HTML has no namespaces.
        element.tag = element.tag.rpartition("}")[2]
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        if element.tag == "g":
            attributes.pop("id", None)
        if "style" in attributes:
            attributes["style"] = _themed_style(attributes["style"])
        for name in attributes.keys() & _COORDINATES:
            attributes[name] = _MORE_THAN_TWO_DECIMALS.sub(r"\1", " ".join(attributes[name].split()))
        element.attrib = attributes
    root.attrib = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    ElementTree.indent(root, space="")
    return ElementTree.tostring(root, encoding="unicode")


def _themed_style(style: str) -> str:
    """CSS declarations with variables instead of placeholder colours, and without a font family."""
    themed = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":  # Matplotlib before 3.11 writes weight, size and family as one declaration.
            *weight, size = value.partition("px")[0].split()
            themed += [f"font-weight: {weight[-1]}"] if weight else []
            themed.append(f"font-size: {size}px")
        elif name and name != "font-family":
            themed.append(f"{name}: {_VARIABLE_OF.get(value, value)}")
    return "; ".join(themed)
