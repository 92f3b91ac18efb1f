"""The charts of the page. Each takes arrays and becomes a figure in two widths, drawn by Matplotlib as SVG.

Curves and intervals are reduced to what a picture can resolve, without hiding any extreme or single event. Colours
follow the light or dark theme of the page, and text has its font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from rover_pipeline.draw.formatting import elapsed, significant
from rover_pipeline.draw.map_view import FloorPlan
from rover_pipeline.draw.theme import COLOURS, colour_name

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
    "xtick.major.pad": 6,
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


#: First and last time of a chart, s.
Span = tuple[float, float]

#: Shortest bar of a sensor, s, in a recording that has no length. Layout.
_MIN_MARK_S = 1e-3
#: Margins above and below the axes of the path, and its width on a desktop, pixels. Layout.
_PATH_TOP, _PATH_BOTTOM, _PATH_WIDTH = 4, 40, 620.0
#: Times between marks along a path, s. Layout.
_TIME_MARK_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


class Intervals(NamedTuple):
    """Time intervals of a sensor in ascending order, f8 (interval, 2), s."""

    period: float  #: median interval between samples, s.
    running: np.ndarray  #: from the first sample to one period after the last one; empty without samples.
    invalid: np.ndarray  #: one per sample with `valid` = 0, until the next sample, at most one period long.
    missing: np.ndarray  #: where samples were lost.


def timeline(sensors: Sequence[tuple[str, Intervals]], span: Span) -> Chart:
    """When each sensor ran, by name: a bar, with its gaps and invalid samples."""
    names = [name for name, _ in sensors]
    heights = np.array([11 if name.startswith("_") else 26 for name in names], float)
    # On a phone the name of a sensor is above its bar.
    pitches = {True: heights + 21, False: heights + 7}

    def draw(canvas: Canvas) -> None:
        # As wide as the longest name, with seven pixels per letter.
        left = 14 if canvas.narrow else 16 + 7 * max(map(len, names))
        axes = canvas.add_axes(left, RIGHT, 2, TICKS)
        edges = np.concatenate([[0], np.cumsum(pitches[canvas.narrow])])
        set_time_axis(axes, span[1] - span[0], canvas.narrow)
        axes.set_ylim(edges[-1], 0)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        centres = edges[1:] - heights / 2 - (0 if canvas.narrow else 4)
        for (name, bar), centre, height in zip(sensors, centres, heights, strict=True):
            top, bottom = centre - height / 2, centre + height / 2
            (begin, end), *_ = bar.running - span[0]
            # A single sample has no length, but it was there.
            length = max((span[1] - span[0]) / canvas.mark_bins, _MIN_MARK_S)
            begin = max(0.0, min(begin, span[1] - span[0] - length))
            end = max(end, begin + length)
            _draw_bars(axes, [(begin, end, top, bottom)], colour_name(name))
            # Gaps hang from the upper edge, invalid samples stand on the lower edge.
            for each, edge, sign, colour in ((bar.missing, top, 1, "bad"), (bar.invalid, bottom, -1, "fair")):
                marks = visible_marks(each, bar.period, span, canvas.mark_bins)
                _draw_bars(axes, [(a, b, edge, edge + sign * height * share) for a, b, share in marks], colour)
            if canvas.narrow:
                axes.text(0, top - 4, name, va="bottom", ha="left", fontsize=12)
        if canvas.narrow:
            axes.set_yticks([])
        else:
            axes.set_yticks(centres, names)
            for text in axes.get_yticklabels():
                text.set_color(COLOURS["ink"])

    label = f"Timeline of {', '.join(names)}. The figures are in the table below."
    return draw_chart("timeline", label, draw, lambda narrow: float(pitches[narrow].sum()) + TICKS)


def visible_marks(intervals: np.ndarray, period: float, span: Span, bins: int) -> list[tuple[float, float, float]]:
    """Intervals as marks that are large enough to be seen: begin and end, s after the begin of the span, and height.

    If few samples fall into a bin, each interval has a mark of full height (1) that is at least a bin wide. Otherwise
    each bin has a mark as high as the covered share of it, in eighths and at least a quarter: a single frame
    of a minute must be visible, but must not look like the whole minute.
    """
    width = (span[1] - span[0]) / bins
    if 2 * period > width:
        return [(float(a - span[0]), float(max(b, a + width) - span[0]), 1.0) for a, b in intervals]
    share = share_of_bins(intervals, span, bins)
    levels = np.where(share > 1e-9, np.maximum(np.ceil(8 * share - 1e-6), 2) / 8, 0)
    return [(a * width, b * width, level) for a, b, level in nonzero_runs(levels)]


def _draw_bars(axes: Axes, bars: Sequence[tuple[float, float, float, float]], colour: str) -> None:
    """Bars, (left, right, lower, upper) each, as one path: thousands of SVG elements would make the page slow."""
    if not bars:
        return
    corners = [[(a, low), (b, low), (b, high), (a, high), (a, low)] for a, b, low, high in bars]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(bars)
    axes.add_patch(PathPatch(Path(np.concatenate(corners), codes), facecolor=COLOURS[colour], linewidth=0))


class Curve(NamedTuple):
    """A curve: its values at the times `ts`, s, the name of its colour in `COLOURS`, the width of its line, pixels, and
    its opacity."""

    title: str
    ts: np.ndarray
    values: np.ndarray
    colour: str
    width: float = 1.0
    alpha: float = 1.0

    def draw(self, axes: Axes, begin: float, bins: int) -> None:
        """Draw it over the seconds since `begin`, with the extremes of each of so many bins."""
        x, y = downsample_curve(self.ts - begin, self.values, bins)
        axes.plot(x, y, color=COLOURS[self.colour], linewidth=self.width, alpha=self.alpha)


def curve_rows(name: str, label: str, curves: Sequence[Curve], span: Span, stripes: Sequence[Span] = ()) -> Chart:
    """Curves above one another with axes of their own; stripes mark the same time intervals in all of them."""

    def draw(canvas: Canvas) -> None:
        rows = canvas.add_rows([curve.title for curve in curves], span[1] - span[0])
        for axes, curve in zip(rows, curves, strict=True):
            curve.draw(axes, span[0], canvas.curve_bins)
            for begin, end in stripes:
                axes.axvspan(begin, end, color=COLOURS["fair"], alpha=0.35, linewidth=0)
            axes.locator_params(axis="y", nbins=3)

    return draw_chart(name, label, draw, ROW * len(curves) + TICKS)


def path(ts: np.ndarray, xy: np.ndarray, valid: np.ndarray, plan: FloorPlan | None) -> Chart:
    """The path from above, on the occupancy grid if there is one. `ts`: f8 (pose,), s; `xy`: f8 (pose, 2), m, NaN where
    `valid`, bool (pose,), is False."""
    low, high = np.nanmin(xy, axis=0), np.nanmax(xy, axis=0)
    if plan is not None:
        low, high = np.minimum(low, plan.low), np.maximum(high, plan.high)
    margin = 0.04 * max(float((high - low).max()), 1.0)
    low, high = low - margin, high + margin
    x_size, y_size = high - low

    def height(narrow: bool) -> float:
        width = 352.0 if narrow else _PATH_WIDTH
        inside = float(np.clip((width - LEFT - RIGHT) * y_size / x_size, 180, 460 if narrow else 560))
        return inside + _PATH_TOP + _PATH_BOTTOM

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_axes(LEFT, RIGHT, _PATH_TOP, _PATH_BOTTOM)
        if plan is not None:
            axes.imshow(plan.image, extent=plan.extent, interpolation="none", aspect="auto", zorder=1.5)
        keep = _evenly_spaced_poses(valid, 240 if canvas.narrow else 600)
        axes.plot(xy[keep, 0], xy[keep, 1], color=COLOURS["accent"], linewidth=2.4, zorder=3)
        first, *_, last = np.flatnonzero(valid)
        box = {"boxstyle": "round,pad=0.15", "facecolor": COLOURS["card"], "alpha": 0.75, "linewidth": 0}
        for pose, text in _time_marks(ts - ts[first], valid, 4 if canvas.narrow else 6):
            axes.plot(*xy[pose], "o", color=COLOURS["accent"], markersize=4, zorder=4)
            axes.annotate(
                text, xy[pose], (6, 5), textcoords="offset points", fontsize=10, color=COLOURS["muted"], zorder=5,
                bbox=box,
            )  # fmt: skip
        for end, colour, text in ((first, "good", "start"), (last, "bad", "end")):
            axes.plot(*xy[end], "o", color=COLOURS[colour], markersize=9, zorder=6)
            axes.annotate(text, xy[end], (8, -12), textcoords="offset points", zorder=7, weight="bold", bbox=box)
        # The scale is the same along x and y: the limits of the shorter side are widened.
        size_px = np.array([canvas.width - LEFT - RIGHT, canvas.height - _PATH_TOP - _PATH_BOTTOM])
        half = size_px * float(((high - low) / size_px).max()) / 2
        (left, bottom), (right, top) = (low + high) / 2 - half, (low + high) / 2 + half
        axes.set(xlim=(left, right), ylim=(bottom, top), xlabel="x, m", ylabel="y, m")
        axes.tick_params(length=0)
        axes.locator_params(nbins=6)

    background = " on the occupancy grid" if plan is not None else ""
    return draw_chart("path", f"The path from above{background}", draw, height, _PATH_WIDTH)


def paths(ours: np.ndarray, theirs: np.ndarray, names: tuple[str, str], chart: str) -> Chart:
    """Two paths over one another from above, f8 (N, 2) each, m, NaN where they are not known."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_axes(LEFT, RIGHT, _PATH_TOP, _PATH_BOTTOM)
        for xy, colour, width in ((theirs, "radar", 4.5), (ours, "accent", 1.6)):
            axes.plot(*xy.T, color=COLOURS[colour], linewidth=width, alpha=0.5 if width > 2 else 1)
        axes.set(xlabel="x, m", ylabel="y, m")
        axes.set_aspect("equal", adjustable="datalim")
        axes.tick_params(length=0)

    return draw_chart(chart, f"The paths of {' and '.join(names)} from above", draw, 420, _PATH_WIDTH)


def _evenly_spaced_poses(valid: np.ndarray, maximum: int) -> np.ndarray:
    """Indices of at most `maximum` evenly spaced poses, and of those on both sides of a change of `valid`."""
    even = np.linspace(0, len(valid) - 1, min(len(valid), maximum)).round().astype(int)
    changes = np.flatnonzero(np.diff(valid.astype(int)))[:maximum]
    return np.unique(np.concatenate([even, changes, changes + 1]))


def _time_marks(seconds: np.ndarray, valid: np.ndarray, maximum: int) -> list[tuple[int, str]]:
    """Poses at round times, neither at the begin nor near the end, and these times as text."""
    last = float(seconds[-1])
    step = next((step for step in _TIME_MARK_STEPS_S if last / step <= maximum), None)
    if step is None:
        return []
    times = np.arange(step, last - 0.3 * step, step)
    texts = [f"{time:g} s" if last < 60 else elapsed(float(time), last) for time in times]
    poses = np.searchsorted(seconds, times)
    return [(int(pose), text) for pose, text in zip(poses, texts, strict=True) if valid[pose]]


def speed(curves: Sequence[Curve], max_doppler: float | None, span: Span) -> Chart:
    """Speeds over time, m/s, over one another, and the largest radial speed that does not wrap, m/s."""

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.add_rows(["speed, m/s"], span[1] - span[0])
        top = max(0.1, *(float(np.nanmax(curve.values, initial=0.0)) for curve in curves))
        for curve in curves:
            curve.draw(axes, span[0], canvas.curve_bins)
        if max_doppler is not None:
            axes.axhline(max_doppler, color=COLOURS["bad"], linewidth=1.4, linestyle=(0, (5, 3)))
            axes.annotate(
                f"maximum Doppler {max_doppler:.2f} m/s", (1, max_doppler), (-2, 4),
                xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", color=COLOURS["bad"],
                fontsize=11,
            )  # fmt: skip
            top = max(top, 1.1 * max_doppler)
        axes.set_ylim(0, 1.1 * top)
        axes.locator_params(axis="y", nbins=5)

    limit = f", maximum Doppler {max_doppler:.2f} m/s" if max_doppler is not None else ""
    return draw_chart("speed", f"Speed over time{limit}", draw, 230)


def downsample_curve(x: np.ndarray, y: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """A curve, f8 (sample,) over ascending x, with the minimum and the maximum of each bin, in their order. Each bin
    has as many samples as the others. NaN interrupts the curve and stays in it."""
    if len(x) <= 2 * bins:
        return x, y
    chosen: list[int] = []
    for indices in np.array_split(np.arange(len(x)), bins):
        finite = indices[np.isfinite(y[indices])]
        if len(finite) < len(indices):
            chosen.append(int(indices[~np.isfinite(y[indices])][0]))
        if len(finite):
            chosen += [int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])]
    keep = np.unique(chosen)
    return x[keep], y[keep]


def share_of_bins(intervals: np.ndarray, span: tuple[float, float], bins: int) -> np.ndarray:
    """Share of each of equally long bins, from the begin to the end of a span, s, that intervals cover, f8 (bin,).
    `intervals`: ascending, without overlap, f8 (interval, 2), s."""
    edges = np.linspace(*span, bins + 1)
    if not len(intervals):
        return np.zeros(bins)
    lengths = intervals[:, 1] - intervals[:, 0]
    until = np.cumsum(lengths)
    covered = np.interp(edges, intervals.reshape(-1), np.column_stack([until - lengths, until]).reshape(-1))
    return np.diff(covered) / np.maximum(np.diff(edges), 1e-300)


def nonzero_runs(values: np.ndarray) -> list[tuple[int, int, float]]:
    """Runs of equal values other than 0: first index, end index and value of each."""
    edges = np.flatnonzero(np.diff(values, prepend=np.nan, append=np.nan) != 0)
    return [(int(low), int(high), float(values[low])) for low, high in pairwise(edges) if values[low]]
