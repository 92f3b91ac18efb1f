"""The charts of a page. Each takes arrays and gives a figure in two widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rover_pipeline.report.figures import LEFT, RIGHT, ROW, TICKS, Canvas, Drawing, drawn, time_axis
from rover_pipeline.report.motion import Quality, Speed, Track
from rover_pipeline.report.recorded import STANDARD, Recorded
from rover_pipeline.report.times import places_of, runs, shares, spells, straight_line, thin
from rover_pipeline.report.words import clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rover_pipeline.report.maps import FloorPlan


#: Stripes that mark poses which are not valid, at most.
_STRIPES = 400


def colour_of(sensor: str) -> str:
    """The name of a sensor's colour."""
    if sensor.startswith("_"):
        return "derived"
    return sensor if sensor in STANDARD else "other"


def timeline(recorded: Sequence[Recorded], span: tuple[float, float]) -> Drawing:
    """When every sensor ran: bars with gaps and samples that are not valid."""
    lanes = [each for each in recorded if len(each.ts)]
    heights = np.array([11 if each.virtual else 26 for each in lanes], float)
    pitch = {True: heights + 21, False: heights + 7}  # on a phone the name stands above its bar

    def draw(canvas: Canvas) -> None:
        # As wide as the longest name, at seven pixels a letter.
        left = 14 if canvas.narrow else 16 + 7 * max(len(each.name) for each in lanes)
        plot = canvas.plot(left, RIGHT, 2, TICKS)
        tops = np.concatenate([[0], np.cumsum(pitch[canvas.narrow])])
        time_axis(plot, span[1] - span[0], canvas.narrow)
        plot.set_ylim(tops[-1], 0)
        plot.grid(axis="y", visible=False)
        plot.spines["left"].set_visible(False)
        centres = tops[1:] - heights / 2 - (0 if canvas.narrow else 4)
        for each, centre, height in zip(lanes, centres, heights, strict=True):
            found = spells(each.ts, each.valid)
            low, high = centre - height / 2, centre + height / 2
            (begin, end), *_ = found.running - span[0]
            _bars(plot, [(begin, end, low, high)], canvas.colour(colour_of(each.name)))
            # Gaps hang from the upper edge, what is not valid stands on the lower one.
            for kind, edge, sign, colour in ((found.missing, low, 1, "bad"), (found.invalid, high, -1, "fair")):
                marks = _marks(kind, found.period, span, canvas.marks)
                bars = [(a, b, edge, edge + sign * height * share) for a, b, share in marks]
                _bars(plot, bars, canvas.colour(colour))
            if canvas.narrow:
                plot.text(0, centre - height / 2 - 4, each.name, va="bottom", ha="left", fontsize=12)
        if canvas.narrow:
            plot.set_yticks([])
        else:
            plot.set_yticks(centres, [each.name for each in lanes])
            for text in plot.get_yticklabels():
                text.set_color(canvas.colour("ink"))

    names = ", ".join(each.name for each in lanes)
    label = f"Timeline of {names}. The figures are in the table below."
    return drawn("timeline", label, draw, lambda narrow: float(pitch[narrow].sum()) + TICKS)


def _marks(found: np.ndarray, period: float, span: tuple[float, float], parts: int) -> list[tuple[float, float, float]]:
    """Spells to draw, (begin, end, share of the time), seconds since the begin of the span: never too small to see.

    Each by itself, as wide as a part at least, where few samples fall into one of the `parts`; else the share of each
    part in eighths, a quarter at least: one frame in a minute must be seen, and must not look like the whole minute.
    """
    part = (span[1] - span[0]) / parts
    if 2 * period > part:
        return [(float(a - span[0]), float(max(b, a + part) - span[0]), 1.0) for a, b in found]
    share = shares(found, span, parts)
    levels = np.where(share > 1e-9, np.maximum(np.ceil(8 * share - 1e-6), 2) / 8, 0)
    return [(a * part, b * part, level) for a, b, level in runs(levels)]


def _bars(plot: Axes, bars: Sequence[tuple[float, float, float, float]], colour: str) -> None:
    """Bars, (left, right, lower, upper) each, as a single path: thousands of elements would make the page slow."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not bars:
        return
    corners = [[(a, low), (b, low), (b, high), (a, high), (a, low)] for a, b, low, high in bars]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(bars)
    plot.add_patch(PathPatch(Path(np.concatenate(corners), codes), facecolor=colour, linewidth=0))


def jitter(recorded: Sequence[Recorded], span: tuple[float, float]) -> Drawing | None:
    """How far the times of every raw sensor stray from a constant rate."""
    lanes = [each for each in recorded if not each.virtual and len(each.ts) > 2]
    if not lanes:
        return None

    def draw(canvas: Canvas) -> None:
        plots = canvas.rows([f"{each.name}, ms" for each in lanes], span[1] - span[0])
        for plot, each in zip(plots, lanes, strict=True):
            _, residual = straight_line(places_of(each.ts), each.ts)
            x, y = thin(each.ts - span[0], 1e3 * residual, canvas.parts)
            plot.plot(x, y, color=canvas.colour(colour_of(each.name)), linewidth=1)
            plot.locator_params(axis="y", nbins=3)

    label = "Distance of each sample's time from a constant rate, for " + ", ".join(each.name for each in lanes)
    return drawn("jitter", label, draw, ROW * len(lanes) + TICKS)


def path(track: Track, plan: FloorPlan | None) -> Drawing:
    """The trajectory from above, on the occupancy grid when there is one."""
    xy = track.pos[:, :2]
    low, high = np.nanmin(xy, axis=0), np.nanmax(xy, axis=0)
    if plan is not None:
        low, high = np.minimum(low, plan.low), np.maximum(high, plan.high)
    margin = 0.04 * max(float((high - low).max()), 1.0)
    low, high = low - margin, high + margin
    wide, tall = high - low
    width = 620.0

    def height(narrow: bool) -> float:
        across = 352.0 if narrow else width
        return float(np.clip((across - LEFT - RIGHT) * tall / wide, 180, 460 if narrow else 560)) + 44

    def draw(canvas: Canvas) -> None:
        plot = canvas.plot(LEFT, RIGHT, 4, 40)
        if plan is not None:
            box = (plan.low[0], plan.high[0], plan.low[1], plan.high[1])
            plot.imshow(plan.image, extent=box, interpolation="none", aspect="auto", zorder=1.5)
        _, keep = thin_path(track, 240 if canvas.narrow else 600)
        plot.plot(xy[keep, 0], xy[keep, 1], color=canvas.colour("accent"), linewidth=2.4, zorder=3)
        good = np.flatnonzero(track.valid)
        seconds = track.ts - track.ts[good[0]]
        plate = {"boxstyle": "round,pad=0.15", "facecolor": canvas.colour("card"), "alpha": 0.75, "linewidth": 0}
        for at, text in _clock_marks(seconds, track.valid, 4 if canvas.narrow else 6):
            plot.plot(*xy[at], "o", color=canvas.colour("accent"), markersize=4, zorder=4)
            plot.annotate(
                text, xy[at], (6, 5), textcoords="offset points", fontsize=10, color=canvas.colour("muted"), zorder=5,
                bbox=plate,
            )  # fmt: skip
        for at, colour, text in ((good[0], "good", "start"), (good[-1], "bad", "end")):
            plot.plot(*xy[at], "o", color=canvas.colour(colour), markersize=9, zorder=6)
            plot.annotate(text, xy[at], (8, -12), textcoords="offset points", zorder=7, weight="bold", bbox=plate)
        # A metre is as long across as upward: the box is filled up on both sides of what is narrower than it.
        box_px = np.array([canvas.width - LEFT - RIGHT, canvas.height - 44])
        half = box_px * float(((high - low) / box_px).max()) / 2
        (left, bottom), (right, top) = (low + high) / 2 - half, (low + high) / 2 + half
        plot.set(xlim=(left, right), ylim=(bottom, top), xlabel="x, m", ylabel="y, m")
        plot.yaxis.labelpad = 0
        plot.tick_params(length=0)
        plot.locator_params(nbins=6)

    ground = " on the occupancy grid" if plan is not None else ""
    return drawn("path", f"The path of the lidar from above{ground}", draw, height, width)


def thin_path(track: Track, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and numbers of at most `most` poses spread over a track, those beside a break included."""
    count = len(track.ts)
    even = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    breaks = np.flatnonzero(np.diff(track.valid.astype(int)))
    keep = np.unique(np.concatenate([even, breaks[:most], breaks[:most] + 1]))
    return track.ts[keep], keep


def _clock_marks(seconds: np.ndarray, valid: np.ndarray, most: int) -> list[tuple[int, str]]:
    """Poses at round times, neither at the begin nor near the end, and these times."""
    last = float(seconds[-1])
    for pitch in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200):
        if last / pitch <= most:
            times = np.arange(pitch, last - 0.3 * pitch, pitch)
            marks = np.searchsorted(seconds, times)
            texts = [f"{time:g} s" if last < 60 else clock(float(time), last) for time in times]
            return [(int(at), text) for at, text in zip(marks, texts, strict=True) if valid[at]]
    return []


def speed(
    pose: Speed | None, measured: Speed | None, limit: float | None, span: tuple[float, float], source: str
) -> Drawing | None:
    """Speeds over time against the largest Doppler that does not wrap."""
    if pose is None and measured is None:
        return None

    def draw(canvas: Canvas) -> None:
        (plot,) = canvas.rows(["speed, m/s"], span[1] - span[0])
        top = 0.1
        for curve, colour, text, width in (
            (measured, "radar", "_radar_velocity", 4.5),
            (pose, "lidar", source, 1.6),
        ):
            if curve is not None:
                x, y = thin(curve.ts - span[0], curve.speed, canvas.parts)
                plot.plot(x, y, color=canvas.colour(colour), linewidth=width, alpha=0.5 if width > 2 else 1, label=text)
                top = max(top, float(np.nanmax(y, initial=0.0)) if np.isfinite(y).any() else 0.0)
        if limit is not None:
            plot.axhline(limit, color=canvas.colour("bad"), linewidth=1.4, linestyle=(0, (5, 3)))
            plot.annotate(
                f"maximum Doppler {limit:.2f} m/s", (1, limit), (-2, 4), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right", color=canvas.colour("bad"), fontsize=11,
            )  # fmt: skip
            top = max(top, 1.1 * limit)
        plot.set_ylim(0, 1.1 * top)
        plot.locator_params(axis="y", nbins=5)

    fastest = f", maximum Doppler {limit:.2f} m/s" if limit is not None else ""
    return drawn("speed", f"Speed over time{fastest}", draw, 230)


def quality(channels: Sequence[Quality], track: Track, span: tuple[float, float]) -> Drawing | None:
    """What the odometry says of itself, over time; a stripe where poses are not valid."""
    if not channels:
        return None
    doubt = spells(track.ts, track.valid.astype("u1"))
    bad = [(a, b) for a, b, _ in _marks(doubt.invalid, doubt.period, span, _STRIPES)]

    def draw(canvas: Canvas) -> None:
        plots = canvas.rows([channel.name.replace("_", " ") for channel in channels], span[1] - span[0])
        for plot, channel in zip(plots, channels, strict=True):
            x, y = thin(track.ts - span[0], channel.values, canvas.parts)
            plot.plot(x, y, color=canvas.colour("lidar"), linewidth=1.2)
            for begin, end in bad:
                plot.axvspan(begin, end, color=canvas.colour("fair"), alpha=0.35, linewidth=0)
            plot.locator_params(axis="y", nbins=3)

    label = "Quality of the odometry over time: " + ", ".join(channel.name for channel in channels)
    return drawn("quality", label, draw, ROW * len(channels) + TICKS)


def residuals(found: Mapping[str, tuple[np.ndarray, np.ndarray]], ts: np.ndarray, span: tuple[float, float]) -> Drawing:
    """Signed sync residuals over time."""

    def draw(canvas: Canvas) -> None:
        plots = canvas.rows([f"{name}, ms" for name in found], span[1] - span[0])
        for plot, (name, (index, residual)) in zip(plots, found.items(), strict=True):
            values = np.where(index >= 0, 1e3 * residual, np.nan)
            x, y = thin(ts - span[0], values, canvas.parts)
            plot.plot(x, y, color=canvas.colour(colour_of(name)), linewidth=1)
            plot.locator_params(axis="y", nbins=3)

    label = "Time from each reference sample to the nearest sample of " + ", ".join(found)
    return drawn("residuals", label, draw, ROW * len(found) + TICKS)
