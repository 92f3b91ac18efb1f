"""A trace as a Rerun recording: all that it has, on one timeline, in the frames of the rig.

The timeline `time` is that of `ts`, seconds since the Unix epoch. Samples that are not valid are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError, MissingExtraError
from rover_pipeline.export.colours import by_height, by_velocity
from rover_pipeline.export.scene import Samples, find, find_sweeps, mount, text

if TYPE_CHECKING:
    import rerun as rr

    from rover_pipeline.export import ExportOptions

TIMELINE = "time"
#: Entities are named so that every sensor is in the lidar's frame, and the lidar in the world.
WORLD, LIDAR, CAMERA, RADAR = "world", "world/lidar", "world/lidar/camera", "world/lidar/radar"
#: Pictures handed over at once.
_BATCH = 32


class RrdOptions(NamedTuple):
    """What goes into a Rerun recording.

    Attributes:
        every: samples of lidar, camera and radar to go on by. Curves have all of theirs.
        max_points: of a sweep, about: columns between are left out. None = all.
        width: pictures are decoded and packed again at this width, pixels. None = as they are stored.
    """

    every: int = 1
    max_points: int | None = 20_000
    width: int | None = None


@dataclass
class _Scene:
    """A trace on its way into a recording."""

    trace: Path
    options: RrdOptions
    record: rr.RecordingStream
    encoded: rr.BinaryStream
    file: BinaryIO
    rr: Any
    shown: list[str] = field(default_factory=list)
    left_out: int = 0

    def picked(self, samples: Samples) -> range:
        """Which samples of a sensor go in."""
        return range(0, len(samples), self.options.every)

    def columns(self, entity: str, ts: np.ndarray, columns: Any) -> None:
        """Samples at their times. What is logged one by one would get times of this program's own besides."""
        self.record.send_columns(entity, [self.rr.TimeColumn(TIMELINE, timestamp=ts)], columns)
        self.store()

    def store(self) -> None:
        """Write what has been logged. Rerun's own file writer waits for ever for a disk that is full."""
        self.file.write(self.encoded.read() or b"")


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """One trace as the new file `out`."""
    write_recording(trace, out, RrdOptions(options.every, options.max_points, options.width))


def write_recording(trace: Path, out: Path, options: RrdOptions | None = None) -> None:
    """One trace as a Rerun recording.

    Args:
        out: the new file.

    Raises:
        MissingExtraError: rerun-sdk is not installed.
        FormatError: the trace has nothing that can be shown.
    """
    try:
        import rerun
    except ImportError as error:
        raise MissingExtraError("export rrd", "rrd") from error
    name = trace.resolve().name
    record = rerun.RecordingStream("rover_pipeline", recording_id=name)
    with out.open("wb") as file:
        scene = _Scene(trace, options or RrdOptions(), record, rerun.binary_stream(record), file, rerun)
        record.send_blueprint(_layout())
        record.send_recording_name(name)
        record.log(WORLD, rerun.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for show in _PARTS:
            show(scene)
        scene.store()
    if not scene.shown:
        raise FormatError(f"{trace}: has no sensor that can be shown")
    if scene.left_out:
        print(f"{trace}: {scene.left_out} samples cannot be decoded and are left out", file=sys.stderr)


def _trajectory(scene: _Scene) -> None:
    odom = find(scene.trace, "_odom", "pos", "rot")
    if odom is None or not len(odom):
        return
    pos, rot = odom.all("pos"), odom.all("rot")
    scene.columns(LIDAR, odom.ts, scene.rr.Transform3D.columns(translation=pos, mat3x3=rot))
    scene.record.log(f"{WORLD}/trajectory", scene.rr.LineStrips3D([pos.astype("f4")]), static=True)
    scene.shown.append("_odom")


def _points(scene: _Scene) -> None:
    sweeps = find_sweeps(scene.trace)
    if sweeps is None:
        return
    for at in scene.picked(sweeps.samples):
        points = sweeps.points(at, scene.options.max_points)
        if points is not None:
            columns = scene.rr.Points3D.columns(positions=points, colors=by_height(points[:, 2]))
            scene.columns(f"{LIDAR}/points", sweeps.samples.ts[at : at + 1], columns.partition([len(points)]))
    _done(scene, "lidar", sweeps.samples)


def _pictures(scene: _Scene) -> None:
    video = find(scene.trace, "camera", "video.avi")
    if video is None:
        return
    entity = f"{CAMERA}/image"
    pose = mount(scene.trace, "camera")
    scene.record.log(CAMERA, scene.rr.Transform3D(translation=pose.translation, mat3x3=pose.rotation), static=True)
    channel: Any = video.sensor.channel("video.avi")
    height, width, _ = channel.spec.shape
    size = _picture_size(width, height, scene.options.width)
    if (camera := text(scene.trace / "camera" / "camera.json")) is not None:
        from rover_pipeline.camera.lens import Lens

        lens = Lens.parse(camera, width, height).resized(*size)
        scene.record.log(entity, _pinhole(scene.rr, lens), static=True)
    picked = scene.picked(video)
    for first in range(0, len(picked), _BATCH):
        some = picked[first : first + _BATCH]
        jpegs = {at: _packed(channel, video, at, size) for at in some}
        there = [at for at in some if jpegs[at]]
        columns = scene.rr.EncodedImage.columns(
            blob=[jpegs[at] for at in there], media_type=["image/jpeg"] * len(there)
        )
        if there:
            scene.columns(entity, video.ts[there], columns)
    _done(scene, "camera", video)


def _packed(channel: Any, video: Samples, at: int, size: tuple[int, int]) -> bytes | None:
    """A picture as a JPEG: as it is stored, or at another size."""
    if size == (channel.spec.shape[1], channel.spec.shape[0]) and hasattr(channel, "jpeg"):
        stored: bytes = channel.jpeg(int(video.numbers[at]))
        return stored
    from rover_pipeline.camera.pictures import resize
    from rover_pipeline.format.channels.jpeg import encode

    found = video.read(at)
    return None if found is None else encode(resize(found["video.avi"], *size))


def _picture_size(width: int, height: int, wanted: int | None) -> tuple[int, int]:
    return (width, height) if wanted is None else (wanted, max(1, round(height * wanted / width)))


def _pinhole(rr: Any, lens: Any) -> Any:
    return rr.Pinhole(
        focal_length=[lens.fx, lens.fy],
        principal_point=[lens.cx, lens.cy],
        resolution=[lens.width, lens.height],
        camera_xyz=rr.ViewCoordinates.FLU,
        image_plane_distance=0.5,
    )


def _powers(scene: _Scene) -> None:
    for name, across in (("range_doppler", "doppler"), ("range_azimuth", "azimuth")):
        found = find(scene.trace, f"_radar_{name}", "power")
        if found is None:
            continue
        for at in scene.picked(found):
            if (sample := found.read(at)) is not None:
                tensor = scene.rr.TensorData(array=sample["power"], dim_names=(across, "range"))
                scene.columns(f"radar/{name}", found.ts[at : at + 1], scene.rr.Tensor.columns(data=[tensor]))
        _done(scene, f"_radar_{name}", found)


def _radar_points(scene: _Scene) -> None:
    found = find(scene.trace, "_radar_points", "xyz", "doppler", "count")
    if found is None:
        return
    pose = mount(scene.trace, "radar")
    scene.record.log(RADAR, scene.rr.Transform3D(translation=pose.translation, mat3x3=pose.rotation), static=True)
    for at in scene.picked(found):
        if (sample := found.read(at)) is not None:
            n = int(sample["count"])
            columns = scene.rr.Points3D.columns(
                positions=sample["xyz"][:n], colors=by_velocity(sample["doppler"][:n]), radii=np.full(n, 0.06)
            )
            scene.columns(f"{RADAR}/points", found.ts[at : at + 1], columns.partition([n]))
    _done(scene, "_radar_points", found)


def _scalars(scene: _Scene) -> None:
    """What is three numbers a sample: one curve each."""
    for sensor, channel, unit in (
        ("imu", "acc", "m_s2"),
        ("imu", "avel", "rad_s"),
        ("_imu_filtered", "acc", "m_s2"),
        ("_imu_filtered", "avel", "rad_s"),
        ("_radar_velocity", "vel", "m_s"),
        ("_odom", "vel", "m_s"),
    ):
        found = find(scene.trace, sensor, channel)
        if found is None or not len(found):
            continue
        values = found.all(channel).astype("f8")
        for axis, letter in enumerate("xyz"):
            entity = f"{sensor.removeprefix('_')}/{channel}_{unit}/{letter}"
            scene.columns(entity, found.ts, scene.rr.Scalars.columns(scalars=values[:, axis]))
        scene.shown.append(f"{sensor}/{channel}")


def _done(scene: _Scene, sensor: str, samples: Samples) -> None:
    scene.shown.append(sensor)
    scene.left_out += samples.left_out


_PARTS: tuple[Callable[[_Scene], None], ...] = (_trajectory, _points, _pictures, _powers, _radar_points, _scalars)


def _layout() -> Any:
    """How the viewer shows it first: space to the left, pictures to the right, curves below."""
    import rerun.blueprint as rrb

    colours = rrb.TensorScalarMapping(colormap="viridis", mag_filter="nearest")
    pictures = rrb.Vertical(
        rrb.Spatial2DView(origin=f"{CAMERA}/image", name="camera"),
        rrb.TensorView(origin="radar/range_doppler", name="range-Doppler, dB", scalar_mapping=colours),
        rrb.TensorView(origin="radar/range_azimuth", name="range-azimuth, dB", scalar_mapping=colours),
    )
    curves = rrb.Horizontal(
        rrb.TimeSeriesView(origin="imu", name="IMU"), rrb.TimeSeriesView(origin="odom", name="velocity, world")
    )
    space = rrb.Spatial3DView(origin=WORLD, name="rig")
    return rrb.Blueprint(rrb.Vertical(rrb.Horizontal(space, pictures, column_shares=[3, 2]), curves, row_shares=[3, 1]))
