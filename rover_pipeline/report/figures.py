"""Matplotlib figures as SVG that lives in a page: its colours follow the page's theme, its ids clash with nobody's."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: CSS variables of the page, each drawn in a colour of its own that `_themed` finds again.
COLOURS = {
    name: f"#0001{number:02x}"
    for number, name in enumerate(
        (
            "ink",
            "muted",
            "grid",
            "accent",
            "bad",
            "fair",
            "good",
            "lidar",
            "radar",
            "camera",
            "imu",
            "other",
            "derived",
            "card",
        )
    )
}
_NAMES = {colour: name for name, colour in COLOURS.items()}

#: Widths of a figure, CSS pixels: for a desk and for a phone. Text is as large on both.
WIDE, NARROW = 1000, 352
#: Least width of the page, CSS pixels, at which the wide one is shown; `style.css` says the same.
_DPI = 72
#: Height of a row of axes and, in it, of its title; below the last row, of the ticks; and margins beside it.
ROW, TITLE, TICKS = 88, 24, 24
LEFT, RIGHT = 46, 18


class Drawing(NamedTuple):
    """A figure in two widths, as SVG elements, and what it shows in words."""

    wide: str
    narrow: str
    label: str


class Canvas(NamedTuple):
    """A figure to draw on, in CSS pixels.

    Attributes:
        narrow: whether it is for a phone.
        parts: details that fit beside one another.
    """

    figure: Figure
    narrow: bool
    width: float
    height: float

    def plot(self, left: float, right: float, top: float, bottom: float) -> Axes:
        """Axes with these margins to the edges of the figure.

        Matplotlib's own layout draws everything twice to find them, and every chart would begin elsewhere.
        """
        w, h = self.width, self.height
        return self.figure.add_axes((left / w, bottom / h, (w - left - right) / w, (h - top - bottom) / h))

    def rows(self, titles: Sequence[str], seconds: float) -> list[Axes]:
        """Axes above one another over the same time, the last with its ticks."""
        from matplotlib.ticker import FuncFormatter

        from rover_pipeline.report.words import figure

        found = []
        for number, title in enumerate(titles):
            below = (len(titles) - 1 - number) * ROW + TICKS
            axes = self.plot(LEFT, RIGHT, number * ROW + TITLE, below)
            axes.set_title(title)
            time_axis(axes, seconds, self.narrow)
            # Of huge values Matplotlib's own would write a factor where the title is.
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: figure(value)))
            axes.tick_params(labelbottom=number == len(titles) - 1)
            found.append(axes)
        return found

    @property
    def parts(self) -> int:
        return 170 if self.narrow else 480

    @property
    def marks(self) -> int:
        """Marks that are still seen beside one another."""
        return 110 if self.narrow else 320

    def colour(self, name: str) -> str:
        return COLOURS[name]


def drawn(
    name: str,
    label: str,
    draw: Callable[[Canvas], None],
    height: float | Callable[[bool], float],
    width: float = WIDE,
) -> Drawing:
    """Draw a figure for both widths.

    Args:
        name: makes the ids of its elements unique in the page.
        label: what it shows, for those who do not see it.
        height: CSS pixels, or a function of whether it is the narrow one.
        width: of the wide one, CSS pixels.
    """
    pictures = []
    for narrow in (False, True):
        tall = height(narrow) if callable(height) else height
        with _style(f"{name}-{narrow}"):
            from matplotlib.figure import Figure

            across = NARROW if narrow else width
            figure = Figure(figsize=(across / _DPI, tall / _DPI), dpi=_DPI)
            draw(Canvas(figure, narrow, across, tall))
            text = io.StringIO()
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        pictures.append(_themed(text.getvalue(), f"{name}-{'n' if narrow else 'w'}"))
    wide, narrow_one = pictures
    return Drawing(wide, narrow_one, label)


@contextmanager
def _style(salt: str) -> Iterator[None]:
    """Matplotlib as it comes, whatever the user's own style is, and the same bytes for the same figure."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": salt,
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
        )
        yield


def time_axis(plot: Axes, seconds: float, narrow: bool) -> None:
    """The horizontal axis of everything that is drawn over time: the whole recording, seconds or minutes."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    from rover_pipeline.report.words import clock

    plot.set_xlim(0, max(seconds, 1e-3))
    if seconds >= 60:
        unit = 3600 if seconds >= 7200 else 60
        steps = [unit * each for each in (1 / 60, 1 / 30, 1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120)]
        most = 5 if narrow else 11
        step = next((each for each in steps if seconds / each <= most), seconds)
        plot.xaxis.set_major_locator(MultipleLocator(step))
        plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: clock(value, seconds)))
    else:
        plot.xaxis.set_major_locator(MaxNLocator(5 if narrow else 10, steps=[1, 2, 5, 10]))
        plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    plot.tick_params(axis="x", length=0)
    plot.tick_params(axis="y", length=0)


def _shortened(attribute: re.Match[str]) -> str:
    """An attribute with two digits behind each point."""
    return f' {attribute[1]}="' + _LONG.sub(r"\1", attribute[2]) + '"'


_SIZES = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')
_LONG = re.compile(r"(-?\d+\.\d\d)\d+")


def _themed(svg: str, name: str) -> str:
    """The `svg` element of a file of Matplotlib's: colours as CSS variables, own ids, no more digits than are seen."""
    body = svg[svg.index("<svg ") :]
    size = _SIZES.match(body)
    assert size is not None, "Matplotlib's SVG begins with its size"
    body = body[size.end() :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    # A style for every element of the page, were it left in.
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"<g id=\"[^\"]*\"", "<g", body)
    body = re.sub(r' id="([^"]+)"', rf' id="{name}-\1"', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    body = body.replace("xlink:href", "href")
    body = re.sub(
        r"font-family: [^;\"]*;?|font: ([\d.]+px) [^;\"]*", lambda m: f"font-size: {m[1]}" if m[1] else "", body
    )
    body = re.sub(r"#0001[0-9a-f]{2}", lambda match: f"var(--{_NAMES[match[0]]})", body)
    body = re.sub(r' (d|transform|x|y|points)="([^"]*)"', _shortened, body)
    body = re.sub(r"\n\s*", "\n", body)
    return f'<svg viewBox="0 0 {size[1]} {size[2]}" width="{size[1]}" height="{size[2]}">{body}'.strip()
