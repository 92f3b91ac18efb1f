"""A trace as a Rerun recording: all its data on one timeline, in the coordinate frames of the rig.

The timeline `time` is that of `ts`, seconds since the Unix epoch. Samples that are not valid are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.pictures import resize, undistort
from rover_pipeline.draw.pixels import height_colours, velocity_colours
from rover_pipeline.draw.theme import COLOUR_MAPS
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, counted
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import Samples, find_radar_points, find_samples, find_sweeps, print_duration
from rover_pipeline.format.channels import jpeg
from rover_pipeline.lookup import optional

if TYPE_CHECKING:
    import rerun

TIMELINE = "time"
#: Rerun's transforms follow the names: every sensor is in the lidar's frame, and the lidar in the world frame.
WORLD, LIDAR = "world", "world/lidar"
#: Pictures that are passed to Rerun in one call. Schedule.
_BATCH = 32
#: Channels of three values a sample, with their unit: each value becomes a curve, of each sensor of the type.
_CURVES = (
    ("imu", "acc", "m_s2"),
    ("imu", "avel", "rad_s"),
    ("_imu_filtered", "acc", "m_s2"),
    ("_imu_filtered", "avel", "rad_s"),
    ("_radar_velocity", "vel", "m_s"),
    ("_odom", "vel", "m_s"),
)

#: What the process at the other end of the pipe does. It needs no lock of this interpreter, so that a library may wait
#: for it while it holds that. When the disk is full it reads on, so that nobody waits, and prints the error's number.
_COPY = """
import os, sys
failed, file = 0, None
while data := os.read(0, 1 << 20):
    try:
        file = file or open(sys.argv[1], "wb", buffering=0)
        while data and not failed:
            data = data[file.write(data):]
    except OSError as error:
        failed = error.errno
print(failed)
"""


@dataclass
class _Recording:
    """A Rerun recording while a trace is written to it. `rr` is the module `rerun`, an optional library; `shown` names
    what was written, and `undecodable` counts the samples that were left out because they cannot be decoded."""

    trace: Recording
    options: ExportOptions
    stream: rerun.RecordingStream
    rr: Any
    shown: list[str] = field(default_factory=list)
    undecodable: int = 0

    def chosen(self, samples: Samples) -> range:
        """The samples of lidar, camera or radar that are written. Curves keep all samples."""
        return range(0, len(samples), self.options.every)

    def write(self, entity: str, ts: np.ndarray, columns: Any) -> None:
        """Write samples with their times. Rerun's `log` would also add the time at which this program runs."""
        self.stream.send_columns(entity, [self.rr.TimeColumn(TIMELINE, timestamp=ts)], columns)
        self.stream.flush()  # or all that a slow disk has not taken yet would be in memory

    def write_mount(self, view: Recording, type: str) -> str:
        """Write the pose of a sensor in the lidar frame. Returns its entity."""
        entity, mount = f"{LIDAR}/{view.called(type)}", view.mount(type)
        transform = self.rr.Transform3D(translation=mount.translation, mat3x3=mount.rotation)
        self.stream.log(entity, transform, static=True)
        return entity

    def done(self, sensor: str, samples: Samples) -> None:
        """Count a sensor that was written."""
        self.shown.append(sensor)
        self.undecodable += samples.undecodable


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write one trace as a Rerun recording, the new file `out`. Raises MissingExtraError where rerun-sdk is not
    installed, and FormatError where the trace has nothing that can be shown."""
    rr = optional("rerun", "export rrd", "rrd")
    source = Recording.of(trace)
    name = source.name
    stream = rr.RecordingStream("rover_pipeline", recording_id=name)
    _print_duration(source, options)
    # Rerun's writer of files ends with an index of all data. It waits for ever when the disk is full, hence the pipe.
    with _piped(out) as pipe:
        recording = _Recording(source, options, stream, rr)
        try:
            stream.save(pipe, default_blueprint=_blueprint(source))
            stream.send_recording_name(name)
            stream.log(WORLD, rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
            _write_trajectory(recording)
            parts = [(write_part, view) for type, write_part in _PARTS for view in source.each(type)]
            with progress(f"export rrd {name}", len(parts), "sensor") as advance:
                for write_part, view in parts:
                    write_part(recording, view)
                    advance(1)
            _write_curves(recording)
        finally:
            stream.disconnect()
    if not recording.shown:
        raise FormatError(f"{trace}: has no sensor that can be shown")
    if recording.undecodable:
        print(f"{trace}: left out: {counted(recording.undecodable, 'sample')} that cannot be decoded", file=sys.stderr)


@contextmanager
def _piped(path: Path) -> Iterator[str]:
    """A name to open and write to once, from the first byte to the last; the bytes become the new file `path`. The end
    of the block, which must have closed what it opened, raises OSError where the file could not be written."""
    read, write = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", _COPY, str(path)]
    with subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE) as process:
        os.close(read)
        try:
            yield f"/dev/fd/{write}"
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(write)
        printed, _ = process.communicate()
    if not printed.strip().isdigit():
        raise OSError(f"{path}: the process that writes it ended with status {process.returncode}")
    if number := int(printed):
        raise OSError(number, os.strerror(number), str(path))


def _print_duration(trace: Recording, options: ExportOptions) -> None:
    """Print how long it will take, by the samples that take nearly all of it: sweeps and pictures."""
    work: list[tuple[int, str, Callable[[], object]]] = []
    for view in trace.each("lidar"):
        if sweeps := find_sweeps(view):
            count = -(-len(sweeps.samples) // options.every)
            work.append((count, "sweep", partial(sweeps.points, 0, options.max_points)))
    for view in trace.each("camera"):
        if video := find_samples(view, "camera", "video.avi"):
            count = -(-len(video) // options.every)
            work.append((count, "picture", partial(_read_jpeg, video, 0, *_picture(view, video, options))))
    print_duration(f"export rrd {trace.path.name}", work)


def _picture(view: Recording, video: Samples, options: ExportOptions) -> tuple[tuple[int, int], Lens | None]:
    """Width and height of pictures as they are written, and their lens; None without `camera.json`."""
    height, width, _ = video.sensor.specs["video.avi"].shape
    wanted = options.width or width
    size = (wanted, max(1, round(height * wanted / width)))
    return size, view.lens().resized(*size) if view.has("camera/camera.json") else None


def _write_trajectory(recording: _Recording) -> None:
    odom = find_samples(recording.trace, "_odom", "pos", "rot")
    if odom is None or not len(odom):
        return
    pos, rot = odom.read_all("pos"), odom.read_all("rot")
    recording.write(LIDAR, odom.ts, recording.rr.Transform3D.columns(translation=pos, mat3x3=rot))
    recording.stream.log(f"{WORLD}/trajectory", recording.rr.LineStrips3D([pos.astype("f4")]), static=True)
    recording.shown.append("_odom")


def _write_lidar_points(recording: _Recording, view: Recording) -> None:
    sweeps, name = find_sweeps(view), view.called("lidar")
    if sweeps is None:
        return
    # Nobody says where a further lidar is, so that its points are in a space of its own.
    entity = f"{LIDAR if view is recording.trace else name}/points"
    for at in recording.chosen(sweeps.samples):
        points = sweeps.points(at, recording.options.max_points)
        if points is not None:
            columns = recording.rr.Points3D.columns(positions=points, colors=height_colours(points[:, 2]))
            recording.write(entity, sweeps.samples.ts[at : at + 1], columns.partition([len(points)]))
    recording.done(name, sweeps.samples)


def _write_pictures(recording: _Recording, view: Recording) -> None:
    video = find_samples(view, "camera", "video.avi")
    if video is None:
        return
    entity = f"{recording.write_mount(view, 'camera')}/image"
    size, lens = _picture(view, video, recording.options)
    if lens is not None:
        pinhole = recording.rr.Pinhole(
            focal_length=[lens.fx, lens.fy],
            principal_point=[lens.cx, lens.cy],
            resolution=[lens.width, lens.height],
            camera_xyz=recording.rr.ViewCoordinates.FLU,
            image_plane_distance=0.5,
        )
        recording.stream.log(entity, pinhole, static=True)
    chosen = recording.chosen(video)
    for first in range(0, len(chosen), _BATCH):
        pictures = {at: _read_jpeg(video, at, size, lens) for at in chosen[first : first + _BATCH]}
        decodable = [at for at, picture in pictures.items() if picture]
        if decodable:
            columns = recording.rr.EncodedImage.columns(
                blob=[pictures[at] for at in decodable], media_type=["image/jpeg"] * len(decodable)
            )
            recording.write(entity, video.ts[decodable], columns)
    recording.done(view.called("camera"), video)


def _read_jpeg(video: Samples, at: int, size: tuple[int, int], lens: Lens | None) -> bytes | None:
    """A picture as a JPEG: as it is stored, or encoded again at another (width, height) and without distortion, because
    Rerun draws points over a picture as a pinhole sees them, and knows no other lens."""
    channel: Any = video.sensor.channel("video.avi")
    height, width, _ = channel.spec.shape
    is_distorted = lens is not None and lens.is_distorted
    if size == (width, height) and not is_distorted and hasattr(channel, "jpeg"):
        return channel.jpeg(int(video.indices[at]))
    sample = video.read(at)
    if sample is None:
        return None
    picture = resize(sample["video.avi"], *size)
    return jpeg.encode(undistort(picture, lens) if lens is not None and is_distorted else picture)


def _write_radar_power(recording: _Recording, view: Recording) -> None:
    for product, axis in (("range_doppler", "doppler"), ("range_azimuth", "azimuth")):
        samples = find_samples(view, f"_radar_{product}", "power")
        if samples is None:
            continue
        for at in recording.chosen(samples):
            if (sample := samples.read(at)) is not None:
                tensor = recording.rr.TensorData(array=sample["power"], dim_names=(axis, "range"))
                columns = recording.rr.Tensor.columns(data=[tensor])
                recording.write(f"{view.called('radar')}/{product}", samples.ts[at : at + 1], columns)
        recording.done(samples.sensor.name, samples)


def _write_radar_points(recording: _Recording, view: Recording) -> None:
    samples = find_radar_points(view)
    if samples is None:
        return
    entity = recording.write_mount(view, "radar")
    for at in recording.chosen(samples):
        if (sample := samples.read(at)) is not None:
            n = int(sample["count"])
            columns = recording.rr.Points3D.columns(
                positions=sample["xyz"][:n], colors=velocity_colours(sample["doppler"][:n]), radii=np.full(n, 0.06)
            )
            recording.write(f"{entity}/points", samples.ts[at : at + 1], columns.partition([n]))
    recording.done(samples.sensor.name, samples)


def _write_curves(recording: _Recording) -> None:
    every = ((*each, view) for each in _CURVES for view in recording.trace.each_of(each[0]))
    for declared, channel, unit, view in every:
        samples, sensor = find_samples(view, declared, channel), view.called(declared)
        if samples is None or not len(samples):
            continue
        values = samples.read_all(channel).astype("f8")
        for axis, letter in enumerate("xyz"):
            entity = f"{sensor.removeprefix('_')}/{channel}_{unit}/{letter}"
            recording.write(entity, samples.ts, recording.rr.Scalars.columns(scalars=values[:, axis]))
        recording.shown.append(f"{sensor}/{channel}")


#: Type of sensors -> what writes each of them.
_PARTS: tuple[tuple[str, Callable[[_Recording, Recording], None]], ...] = (
    ("lidar", _write_lidar_points),
    ("camera", _write_pictures),
    ("radar", _write_radar_power),
    ("radar", _write_radar_points),
)


def _blueprint(trace: Recording) -> Any:
    """The first layout of the viewer: 3D to the left, pictures to the right, curves below."""
    import rerun.blueprint as rrb

    colour_map: Any = COLOUR_MAPS["power"]  # a name of Rerun's too
    colours = rrb.TensorScalarMapping(colormap=colour_map, mag_filter="nearest")
    types = ("camera", "radar", "lidar")
    cameras, radars, (_, *lidars) = ([view.called(type) for view in trace.each(type)] for type in types)
    products = (("range_doppler", "range-Doppler, dB"), ("range_azimuth", "range-azimuth, dB"))
    pictures = rrb.Vertical(
        *(rrb.Spatial2DView(origin=f"{LIDAR}/{name}/image", name=name) for name in cameras),
        *(
            rrb.TensorView(
                origin=f"{name}/{product}", name=text if len(radars) == 1 else f"{name}: {text}", scalar_mapping=colours
            )
            for name in radars
            for product, text in products
        ),
        *(rrb.Spatial3DView(origin=name, name=name) for name in lidars),
    )
    curves = rrb.Horizontal(
        rrb.TimeSeriesView(origin=trace.called("imu"), name="IMU"),
        rrb.TimeSeriesView(origin="odom", name="velocity, world"),
    )
    space = rrb.Spatial3DView(origin=WORLD, name="rig")
    return rrb.Blueprint(rrb.Vertical(rrb.Horizontal(space, pictures, column_shares=[3, 2]), curves, row_shares=[3, 1]))
