"""A preview of a trace as a video: the data of all sensors side by side, in real time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from rover_pipeline.draw.pixels import draw_caption
from rover_pipeline.draw.theme import GROUND
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.export import ExportOptions, panels
from rover_pipeline.export.samples import find_samples, tell_duration

WIDTH, HEIGHT = 1280, 720
#: Pictures a second, unless the user asks for every n-th only. The video plays in real time.
RATE = 10.0
#: Encoders in order of preference, with their settings: H.264 where this FFmpeg has it, else MPEG-4.
_ENCODERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("libx264", {"crf": "23", "preset": "veryfast"}),
    ("libopenh264", {"b": "4000000"}),
    ("mpeg4", {"qscale": "4"}),
)


class _Area(NamedTuple):
    """The area of a panel, pixels."""

    left: int
    top: int
    width: int
    height: int


#: Captions of the panels.
_CAPTIONS = {
    "camera": "camera",
    "birds_eye": "from above: ahead is up; radar points: red recedes, blue comes",
    "range_image": "lidar ranges: ahead in the middle, near is warm",
    "range_doppler": "range-Doppler: range to the right, receding upward",
    "range_azimuth": "range-azimuth: range upward, azimuth to the right",
}
#: Rows of panels: the height of each row, and the width of each of its panels, pixels, where all are shown.
_ROWS: tuple[tuple[int, dict[str, int]], ...] = (
    (432, {"camera": 768, "birds_eye": 512}),
    (128, {"range_image": 1280}),
    (160, {"range_doppler": 640, "range_azimuth": 640}),
)
#: Longest video, s. A longer recording is none: the clock was set in it.
MAX_SECONDS = 86400.0
#: The video runs from the first to the last sample of these channels.
_TIMED_CHANNELS = (
    ("lidar", "rng"),
    ("lidar", "xyz"),
    ("camera", "video.avi"),
    ("radar", "iq"),
    ("radar", "xyz"),
    ("_lidar_image", "rng"),
    ("_radar_points", "xyz"),
)


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write one trace as a video, the new file `out`. It does not depend on the number of threads.

    Raises:
        FormatError: the trace has nothing that can be shown.
    """
    rate = RATE / options.every
    timed = [samples for names in _TIMED_CHANNELS if (samples := find_samples(trace, *names)) and len(samples)]
    if not timed:
        raise FormatError(f"{trace}: has neither lidar, camera nor radar samples that can be shown")
    begin, end = min(samples.ts[0] for samples in timed), max(samples.ts[-1] for samples in timed)
    if end - begin > MAX_SECONDS:
        raise FormatError(f"{trace}: spans {(end - begin) / 86400:.1f} days: a clock was set; `check` says where")
    times = begin + np.arange(math.floor((end - begin) * rate) + 1) / rate
    draw = Picture(trace, begin)
    if not draw.areas:
        raise FormatError(f"{trace}: has neither lidar, camera nor radar samples that can be shown")
    tell_duration(f"export mp4 {trace.name}", [(len(times), "pictures", lambda: draw(begin))], options.threads)
    with progress(f"{trace.name} preview", len(times)) as advance:
        # A picture takes 2.8 MB.
        pictures = ordered_map(draw, times.tolist(), threads=options.threads, held=4 * options.threads)
        _encode(out, pictures, rate, advance)


class Picture:
    """Draws all sensors of a recording at a time as u1 RGB (720, 1280, 3).

    Attributes:
        areas: of the panels, of those that the recording has samples for.
    """

    def __init__(self, trace: Path, begin: float) -> None:
        """
        Args:
            begin: time of the first picture, from which the clock in the pictures counts, s.
        """
        self._name, self._begin = trace.resolve().name, begin
        self._panels: dict[str, panels.Panel] = {
            "birds_eye": panels.birds_eye_panel(trace),
            "range_image": panels.range_image_panel(trace),
            "range_doppler": panels.power_panel(trace, "range_doppler"),
            "range_azimuth": panels.power_panel(trace, "range_azimuth"),
        }
        others = [name for name, panel in self._panels.items() if panel.shows]
        area = arrange(["camera", *others])["camera"]  # pictures are decoded no larger than this
        self._panels["camera"] = panels.camera_panel(trace, area.width, area.height)
        self.areas = arrange([name for name, panel in self._panels.items() if panel.shows])

    def __call__(self, time: float) -> np.ndarray:
        picture = np.empty((HEIGHT, WIDTH, 3), "u1")
        for name, (left, top, width, height) in self.areas.items():
            panel = self._panels[name](time, width, height)
            draw_caption(panel, _CAPTIONS[name])
            panel[-1:], panel[:, -1:] = GROUND, GROUND  # a line between panels
            picture[top : top + height, left : left + width] = panel
        now = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        first = next(iter(self.areas.values()))
        corner = picture[first.top + first.height - 28 : first.top + first.height, : first.width]
        draw_caption(corner, f"{self._name}   {now} UTC   {time - self._begin:6.1f} s")
        return picture


def arrange(shown: Sequence[str]) -> dict[str, _Area]:
    """The areas of the panels that show something. They fill the picture: what is not recorded leaves no gap."""
    rows = [(height, {name: width for name, width in row.items() if name in shown}) for height, row in _ROWS]
    rows = [(height, row) for height, row in rows if row]
    spare = HEIGHT - sum(height for height, _ in rows)
    areas, top = {}, 0
    for number, (height, row) in enumerate(rows):
        height += spare if number == 0 else 0
        left, total = 0, sum(row.values())
        for name, width in row.items():
            wide = WIDTH - left if name == [*row][-1] else 2 * round(WIDTH * width / total / 2)
            areas[name] = _Area(left, top, wide, height)
            left += wide
        top += height
    return areas


def _encode(path: Path, pictures: Iterator[np.ndarray], rate: float, advance: Callable[[int], object]) -> None:
    exact_rate = Fraction(rate).limit_denominator(1000)
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = _add_stream(container, exact_rate)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, 1 / exact_rate
            container.mux(stream.encode(frame))
            advance(1)
        container.mux(stream.encode())


def _add_stream(container: Any, rate: Fraction) -> Any:
    """A video stream of the first encoder that this FFmpeg has."""
    for name, settings in _ENCODERS:
        try:
            stream = container.add_stream(name, rate=rate, options=settings)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            stream.codec_context.thread_count = 1  # the other processors draw the pictures
            stream.codec_context.open()
            return stream
        except (av.FFmpegError, ValueError):
            continue
    raise RoverError(f"preview: this FFmpeg has none of the encoders {', '.join(name for name, _ in _ENCODERS)}")
