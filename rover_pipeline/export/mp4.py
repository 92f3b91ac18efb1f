"""A preview of a trace as a video: what every sensor saw, side by side, in real time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rover_pipeline.engine.parallel import single_threaded_pools
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.export import panels
from rover_pipeline.export.scene import find
from rover_pipeline.simulate.ordered import in_order

if TYPE_CHECKING:
    from rover_pipeline.export import ExportOptions

WIDTH, HEIGHT = 1280, 720
#: Encoders in order of preference, with their settings: H.264 where this FFmpeg can, else MPEG-4.
_ENCODERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("libx264", {"crf": "23", "preset": "veryfast"}),
    ("libopenh264", {"b": "4000000"}),
    ("mpeg4", {"qscale": "4"}),
)
#: Panels: name, left, top, width, height. Rows of 432, 128 and 160 pixels.
_LAYOUT = (
    ("camera", 0, 0, 768, 432),
    ("from above", 768, 0, 512, 432),
    ("lidar ranges", 0, 432, 1280, 128),
    ("range-Doppler", 0, 560, 640, 160),
    ("range-azimuth", 640, 560, 640, 160),
)
#: What a panel does not say by itself.
_MEANING = {
    "from above": "ahead is up; radar points: red recedes, blue comes",
    "lidar ranges": "ahead in the middle, near is warm",
    "range-Doppler": "range to the right, receding upward",
    "range-azimuth": "range upward, azimuth to the right",
}
#: Whose times the preview covers.
_CLOCKS = (
    ("lidar", "rng"),
    ("camera", "video.avi"),
    ("radar", "iq"),
    ("_lidar_image", "rng"),
    ("_radar_points", "xyz"),
)


class PreviewOptions(NamedTuple):
    """How a preview is made.

    Attributes:
        rate: pictures a second, in real time.
        reach: of the view from above to its nearer edges, m; None = most points are within.
    """

    rate: float = 10.0
    reach: float | None = None


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """One trace as the new file `out`."""
    write_preview(trace, out, PreviewOptions(rate=PreviewOptions().rate / options.every), options.threads)


def write_preview(trace: Path, out: Path, options: PreviewOptions | None = None, threads: int = 1) -> None:
    """One trace as a video.

    Args:
        out: the new file.
        threads: pictures drawn at once. Nothing of the result depends on it.

    Raises:
        FormatError: the trace has nothing that can be shown.
    """
    options = options or PreviewOptions()
    spans = [(found.ts[0], found.ts[-1]) for names in _CLOCKS if (found := find(trace, *names)) and len(found)]
    if not spans:
        raise FormatError(f"{trace}: has neither lidar, camera nor radar samples that can be shown")
    begin, end = min(first for first, _ in spans), max(last for _, last in spans)
    times = begin + np.arange(math.floor((end - begin) * options.rate) + 1) / options.rate
    draw = Picture(trace, options, begin)
    with progress(f"{trace.name} preview", len(times)) as advance, single_threaded_pools():
        _encode(out, in_order(draw, times.tolist(), threads), options.rate, advance)


class Picture:
    """Draws what a trace has at a time, u1 RGB (720, 1280, 3)."""

    def __init__(self, trace: Path, options: PreviewOptions, begin: float) -> None:
        self._name, self._begin = trace.resolve().name, begin
        sizes = {name: (width, height) for name, _, _, width, height in _LAYOUT}
        self._panels: dict[str, panels.Panel] = {
            "camera": panels.camera(trace, *sizes["camera"]),
            "from above": panels.from_above(trace, options.reach),
            "lidar ranges": panels.ranges(trace),
            "range-Doppler": panels.power(trace, "range_doppler"),
            "range-azimuth": panels.power(trace, "range_azimuth"),
        }

    def __call__(self, time: float) -> np.ndarray:
        picture = np.empty((HEIGHT, WIDTH, 3), "u1")
        for name, left, top, width, height in _LAYOUT:
            panel = self._panels[name](time, width, height)
            panels.caption(panel, f"{name}: {_MEANING[name]}" if name in _MEANING else name)
            panel[-1:], panel[:, -1:] = panels.BACKGROUND, panels.BACKGROUND  # a line between panels
            picture[top : top + height, left : left + width] = panel
        now = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        words = f"{self._name}   {now} UTC   {time - self._begin:6.1f} s"
        panels.caption(picture[404:432, :768], words)
        return picture


def _encode(path: Path, pictures: Iterator[np.ndarray], rate: float, advance: Any) -> None:
    import av

    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = _stream(container, rate)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, 1 / Fraction(rate).limit_denominator(1000)
            container.mux(stream.encode(frame))
            advance(1)
        container.mux(stream.encode())


def _stream(container: Any, rate: float) -> Any:
    """A video stream by the first encoder that this FFmpeg has."""
    import av

    for name, settings in _ENCODERS:
        try:
            stream = container.add_stream(name, rate=Fraction(rate).limit_denominator(1000), options=settings)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            stream.codec_context.thread_count = 1  # the pictures are drawn on the other processors
            stream.codec_context.open()
            return stream
        except (av.FFmpegError, ValueError):
            continue
    raise RoverError(f"preview: this FFmpeg has none of the encoders {', '.join(name for name, _ in _ENCODERS)}")
