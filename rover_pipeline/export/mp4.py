"""A preview of a trace as a video: the data of all sensors side by side, in real time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from rover_pipeline.camera.options import FramesOptions
from rover_pipeline.camera.pictures import resize
from rover_pipeline.camera.steps import smaller
from rover_pipeline.draw.pixels import (
    ViewFromAbove,
    blank,
    colourise,
    decibel_limits,
    distance_limits,
    draw_caption,
    draw_text,
    fit,
    message_panel,
    metres,
    range_picture,
)
from rover_pipeline.draw.theme import GROUND, REMARK
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import (
    Samples,
    Sweeps,
    find_radar_points,
    find_samples,
    find_sweeps,
    print_duration,
    read_evenly,
)
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.panorama import Panorama
from rover_pipeline.lidar.sidecar import is_points
from rover_pipeline.numerics.jumps import jumps
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import read_optional

#: Pixels of a picture. Layout.
WIDTH, HEIGHT = 1280, 720
#: Pictures a second, unless the user asks for every n-th only. The video plays in real time. Layout.
RATE = 10.0
#: Encoders in order of preference, with their settings: H.264 where this FFmpeg has it, else MPEG-4.
_ENCODERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("libx264", {"crf": "23", "preset": "veryfast"}),
    ("libopenh264", {"b": "4000000"}),
    ("mpeg4", {"qscale": "4"}),
)
#: Captions of the panels.
_CAPTIONS = {
    "camera": "camera",
    "birds_eye": "from above: ahead is up; radar points: red recedes, blue comes",
    "range_image": "lidar ranges: ahead in the middle, near is warm",
    "range_doppler": "range-Doppler: range to the right, receding upward",
    "range_azimuth": "range-azimuth: range upward, azimuth to the right",
}
#: Rows of panels: the height of each row, and the width of each of its panels, pixels, where all are shown. Layout.
_ROWS: tuple[tuple[int, dict[str, int]], ...] = (
    (432, {"camera": 768, "birds_eye": 512}),
    (128, {"range_image": 1280}),
    (160, {"range_doppler": 640, "range_azimuth": 640}),
)
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
#: How much of the past trajectory is drawn, s. Layout.
_PAST_S = 10.0


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write one trace as a video, the new file `out`. It does not depend on the number of threads. Raises FormatError
    where the trace has nothing that can be shown."""
    rate = RATE / options.every
    every = (find_samples(view, *names) for names in _TIMED_CHANNELS for view in Recording.of(trace).each_of(names[0]))
    timed = [samples for samples in every if samples and len(samples)]
    if not timed:
        raise FormatError(f"{trace}: has neither lidar, camera nor radar samples that can be shown")
    stamps = np.sort(np.concatenate([samples.ts for samples in timed]))
    begin, end = float(stamps[0]), float(stamps[-1])
    if len(jumps(stamps)):
        raise FormatError(f"{trace}: spans {(end - begin) / 86400:.1f} days: a clock was set; `check` says where")
    times = begin + np.arange(math.floor((end - begin) * rate) + 1) / rate
    draw = Picture(trace, begin)
    if not draw.areas:
        raise FormatError(f"{trace}: has neither lidar, camera nor radar samples that can be shown")
    print_duration(f"export mp4 {trace.name}", [(len(times), "picture", lambda: draw(begin))], options.threads)
    with progress(f"{trace.name} preview", len(times)) as advance:
        # A picture takes 2.8 MB.
        pictures = ordered_map(draw, times.tolist(), threads=options.threads, held=4 * options.threads)
        _encode(out, pictures, rate, advance)


class Picture:
    """Draws all sensors of a recording at a time as u1 RGB (720, 1280, 3). `areas` has those of the panels that the
    recording has samples for. That of a further sensor has its name, as `camera camera_left`."""

    def __init__(self, trace: Path, begin: float) -> None:
        """`begin`: time of the first picture, from which the clock in the pictures counts, s."""
        self._name, self._begin = trace.resolve().name, begin
        recording = Recording.of(trace)
        lidars = _panels_of(recording, "range_image", "lidar")
        found = {"birds_eye": birds_eye_panel(recording), **{name: range_image_panel(view) for name, view in lidars}}
        for product in ("range_doppler", "range_azimuth"):
            found |= {name: power_panel(view, product) for name, view in _panels_of(recording, product, "radar")}
        cameras = dict(_panels_of(recording, "camera", "camera"))
        others = [name for name, panel in found.items() if panel]
        *_, width, height = arrange([*cameras, *others])["camera"]  # pictures are decoded no larger than this
        found |= {name: camera_panel(view, width, height) for name, view in cameras.items()}
        self._panels = {name: panel for name, panel in found.items() if panel}
        self.areas = arrange([*self._panels])

    def __call__(self, time: float) -> np.ndarray:
        picture = np.empty((HEIGHT, WIDTH, 3), "u1")
        for name, (left, top, width, height) in self.areas.items():
            panel = self._panels[name](time, width, height)
            kind, _, sensor = name.partition(" ")
            draw_caption(panel, f"{sensor}: {_CAPTIONS[kind].partition(':')[0]}" if sensor else _CAPTIONS[kind])
            panel[-1:], panel[:, -1:] = GROUND, GROUND  # a line between panels
            picture[top : top + height, left : left + width] = panel
        now = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        _, top, width, height = next(iter(self.areas.values()))
        corner = picture[top + height - 28 : top + height, :width]
        draw_caption(corner, f"{self._name}   {now} UTC   {time - self._begin:6.1f} s")
        return picture


def _panels_of(recording: Recording, kind: str, type: str) -> list[tuple[str, Recording]]:
    """The name of the panel of each sensor of a type, and the recording as this one sees it."""
    main, *others = recording.each(type)
    return [(kind, main), *((f"{kind} {view.called(type)}", view) for view in others)]


def arrange(shown: Sequence[str]) -> dict[str, tuple[int, int, int, int]]:
    """Left, top, width and height, pixels, of the panels that show something. They fill the picture: what is not
    recorded leaves no gap. The panels of several sensors of a type share the place of one."""
    rows: list[tuple[int, dict[str, float]]] = []
    for height, widths in _ROWS:
        alike = {kind: [name for name in shown if name.partition(" ")[0] == kind] for kind in widths}
        rows.append((height, {name: widths[kind] / len(names) for kind, names in alike.items() for name in names}))
    rows = [(height, row) for height, row in rows if row]
    spare = HEIGHT - sum(height for height, _ in rows)
    areas, top = {}, 0
    for number, (height, row) in enumerate(rows):
        height += spare if number == 0 else 0
        left, total = 0, sum(row.values())
        for name, width in row.items():
            wide = WIDTH - left if name == [*row][-1] else 2 * round(WIDTH * width / total / 2)
            areas[name] = left, top, wide, height
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


#: Draws a sensor as u1 RGB (height, width, 3), from a time in s, the width and the height in pixels. None stands for a
#: panel for which the recording has no sample at any time.
Panel = Callable[[float, int, int], np.ndarray]


def _latest_sample_panel(
    name: str, samples: Samples | None, draw: Callable[[dict[str, np.ndarray], int, int], np.ndarray]
) -> Panel | None:
    """A panel that draws the latest sample at a time, or says that there is none."""
    if samples is None or not len(samples):
        return None

    def panel(time: float, width: int, height: int) -> np.ndarray:
        at = samples.latest(time)
        sample = None if at is None else samples.read(at)
        return message_panel(width, height, f"{name}: no sample") if sample is None else draw(sample, width, height)

    return panel


def camera_panel(trace: Recording, width: int, height: int) -> Panel | None:
    """The camera's picture, decoded no larger than a panel of this size needs."""
    video = find_samples(trace, "camera", "video.avi")
    if video is not None:
        options = FramesOptions(width=width, height=height)
        video.channels["video.avi"] = smaller(video.channels["video.avi"], options=options)
    return _latest_sample_panel("camera", video, lambda sample, width, height: fit(sample["video.avi"], width, height))


def range_image_panel(trace: Recording) -> Panel | None:
    """The lidar's ranges by azimuth, ahead in the middle: near is warm, far is dark, no return is black."""
    metadata = read_optional(trace.file("lidar/lidar.json"))
    if metadata is not None and is_points(metadata):
        return _points_panel(trace)
    info = sensor_info(metadata) if metadata is not None else None
    samples = image = find_samples(trace, "_lidar_image", "rng")
    if image is None and info is not None:
        samples = find_samples(trace, "lidar", "rng")
    # All beams have this column shift in common: without it the sensor's rear is not at the edge of the picture.
    ahead = round(np.mean(info.format.pixel_shift_by_row)) if info else 0
    limits = distance_limits(np.array([metres(each["rng"]) for each in read_evenly(samples, 5)]))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        ranges = sample["rng"] if image or info is None else destagger(sample["rng"][None], info)[0]
        return range_picture(metres(np.roll(ranges, -ahead, axis=1)), limits, width, height)

    return _latest_sample_panel("lidar ranges", samples, draw)


def _points_panel(trace: Recording) -> Panel | None:
    """The same of a lidar that is points, in pixels that hold about one point each."""
    samples = find_samples(trace, "lidar", "xyz", "count")
    clouds = [each["xyz"][: int(each["count"])] for each in read_evenly(samples, 5)]
    panorama = Panorama.of(clouds)
    if panorama is None:
        return None
    limits = distance_limits(np.concatenate([np.linalg.norm(cloud, axis=1) for cloud in clouds]))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        ranges = panorama.image(sample["xyz"][: int(sample["count"])])
        return range_picture(metres(ranges), limits, width, height)

    return _latest_sample_panel("lidar ranges", samples, draw)


def power_panel(trace: Recording, product: str) -> Panel | None:
    """The radar's power, of the product `range_doppler`, range to the right and receding upward, or of `range_azimuth`,
    range upward and azimuth to the right."""
    samples = find_samples(trace, f"_radar_{product}", "power")
    limits = decibel_limits(np.array([each["power"] for each in read_evenly(samples, 8)]))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        power = sample["power"][::-1] if product == "range_doppler" else sample["power"].T[::-1]
        return resize(colourise(power, *limits, "power"), width, height)

    return _latest_sample_panel(product.replace("_", "-"), samples, draw)


def birds_eye_panel(trace: Recording, max_range: float | None = None) -> Panel | None:
    """The lidar's points from above with ahead upward, the points of radars over them, and the trajectory so far, up to
    a range from the lidar to the nearer edges of the panel, m; None = most points are inside."""
    sweeps = find_sweeps(trace)
    radars = [(found, view.mount("radar")) for view in trace.each("radar") if (found := find_radar_points(view))]
    if (sweeps is None or not len(sweeps.samples)) and not radars:
        return None
    edge = max_range or _typical_range(sweeps)
    recent_positions = _recent_positions(trace)

    def panel(time: float, width: int, height: int) -> np.ndarray:
        view = ViewFromAbove(blank(width, height), (width / 2, height / 2), min(width, height) / 2 / edge)
        view.draw_rings(2 * edge)
        at = sweeps.samples.latest(time) if sweeps else None
        points = sweeps.points(at) if sweeps and at is not None else None
        if points is not None:
            view.draw_lidar_points(points)
        view.draw_rover(recent_positions(time))
        counts = []
        for radar, mount in radars:
            at = radar.latest(time)
            if at is not None and (sample := radar.read(at)) is not None:
                counts.append(count := int(sample["count"]))
                points = matmul(sample["xyz"][:count], mount.rotation.T) + mount.translation
                view.draw_radar_points(points, sample["doppler"][:count], 4, 1)
        if counts and not any(counts):
            draw_text(view.picture, "no radar point", (6, height - 8), REMARK, 0.4)
        return view.picture

    return panel


def _typical_range(sweeps: Sweeps | None) -> float:
    """The horizontal distance within which most points of the recording lie, m."""
    chosen = np.linspace(0, len(sweeps.samples) - 1, 5).astype(int).tolist() if sweeps and sweeps.samples else []
    clouds = [points for at in chosen if sweeps and (points := sweeps.points(at, 5000)) is not None]
    joined = np.concatenate([np.empty((0, 3), "f4"), *clouds])
    return float(np.clip(np.quantile(np.hypot(*joined[:, :2].T), 0.97), 4, 60)) if len(joined) else 10.0


def _recent_positions(trace: Recording) -> Callable[[float], np.ndarray]:
    """A function that gives the positions of the last seconds before a time, in the lidar frame then, f8 (N, 3)."""
    odom = find_samples(trace, "_odom", "pos", "rot")
    if odom is None or not len(odom):
        return lambda time: np.empty((0, 3))
    pos, rot = odom.read_all("pos"), odom.read_all("rot")

    def positions(time: float) -> np.ndarray:
        now = odom.latest(time)
        if now is None:
            return np.empty((0, 3))
        first = int(np.searchsorted(odom.ts, time - _PAST_S))
        return matmul(pos[first : now + 1] - pos[now], rot[now])

    return positions
