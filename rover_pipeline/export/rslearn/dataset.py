"""The rslearn dataset of some recordings: a group for each, a window for each slice of time and tile of the ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.datasets.options import RslearnOptions
from rover_pipeline.datasets.splits import Course
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.objects import ObjectReader, Objects
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.rslearn import windows
from rover_pipeline.export.rslearn.layout import LAYOUT, describe, relations
from rover_pipeline.export.sweeps import RawSweeps
from rover_pipeline.format.axes import AXES, read_axes
from rover_pipeline.format.sensor import Sensor as Folder
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.mapping.floor import Floor, find_floor, levelling
from rover_pipeline.mapping.grid import Extent, LocalGrid
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.sweeps import max_distance, placed, spread_sweeps
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import lidar_clock, read_trajectory, whole_sensor

# What is known of the ground of one recording: its sweeps, radar frames and objects, in a world whose z is up.


class Slice(NamedTuple):
    """A slice of time.

    Attributes:
        number: of the slice in its recording.
        numbers: i8 (sweep,), the sweeps with a known pose in it.
        split: number of its split.
    """

    number: int
    numbers: np.ndarray
    split: int


def cut_slices(ts: np.ndarray, numbers: np.ndarray, splits: np.ndarray, seconds: float) -> list[Slice]:
    """Slices of time. A slice has one split.

    Args:
        ts: f8 (N,), times of all sweeps, s.
        numbers: i8 (M,), ascending, of the sweeps that may be used; splits: (M,), of these; negative = none.
        seconds: length of a slice.
    """
    block = np.floor((ts[numbers] - ts[numbers[0]]) / seconds).astype("i8")
    changes = np.flatnonzero(np.diff(block) | np.diff(splits.astype("i8"))) + 1
    parts = [part for part in np.split(np.arange(len(numbers)), changes) if splits[part[0]] >= 0]
    return [Slice(number, numbers[part], int(splits[part[0]])) for number, part in enumerate(parts)]


class Ground:
    """The ground of one recording.

    Attributes:
        ts: f8 (N,), times of all sweeps, s, as recorded.
        pos: f8 (N, 3), m, of the lidar, z up.
        numbers: i8 (M,), sweeps that are valid and have a known pose.
        floor: below the lidar; its `up` is in the world of `_odom`.
    """

    def __init__(
        self, trace: Path | Recording, options: RslearnOptions, radars: Mapping[str, Recording] | None = None
    ) -> None:
        """
        Args:
            radars: layer of power -> the recording as the radar of it sees it.
        """
        recording = Recording.of(trace)
        path, self._options = recording.path, options
        shared = ("min_range", "max_range", "z_min", "z_max")
        self._map = MapOptions(**{name: getattr(options, name) for name in shared})
        self._sweeps = RawSweeps(recording, intensity=False)
        motion = self._sweeps.reader.motion(self._sweeps.odometry, self._sweeps.options.times)
        self.ts = self._sweeps.ts
        self.numbers = self._sweeps.known(motion.trajectory.valid)
        self.floor = self._find_floor(motion)
        self._up = levelling(self.floor.up)
        self._motion = motion.rotated(self._up)
        self.pos = self._motion.trajectory.states.pos
        self._radars = {name: _Radar(view, self._up, options) for name, view in (radars or {}).items()}
        self._objects = ObjectReader(path) if options.objects else None
        self._object_ts = None
        if self._objects is not None:
            self._object_ts = lidar_clock(path, self._objects.ts, read_trajectory(path))

    def times(self, part: Slice) -> np.ndarray:
        """Times of the sweeps of a slice without the jitter of their arrival, f8 (sweep,), s."""
        return self._motion.trajectory.ts[part.numbers]

    def rasters(self, part: Slice, threads: int) -> tuple[Extent, dict[str, np.ndarray]]:
        """The rasters of a slice by layer, (row, column) with row 0 at the smallest y.

        Sweeps that cannot be decoded are left out.
        """
        options = self._options
        chosen = part.numbers[:: options.every]
        poses = {at: self._motion.columns(at, self._sweeps.reader.columns) for at in chosen.tolist()}
        positions = np.concatenate([each.pos[:, :2] for each in poses.values()])
        extent = Extent.around(positions, max_distance(self._map), options.resolution)
        band = np.array([0.0, options.z_min, options.z_max]) - self.floor.height
        grid = LocalGrid(extent, band)

        def points(number: int) -> tuple[np.ndarray, np.ndarray] | None:
            try:
                sweep = self._sweeps.places(number)
            except SampleError:
                return None
            cloud = placed(sweep, poses[number], self._map.min_range, self._map.max_range)
            return cloud, self._sweeps.reader.sectors(sweep)

        for number, found in zip(
            poses, ordered_map(points, list(poses), threads=threads, held=2 * threads), strict=True
        ):
            if found is not None:
                grid.add(found[0], poses[number].pos, found[1])
        counts = grid.counts(extent)
        layers = {
            "occupancy": windows.occupancy(counts, extent),
            "height": windows.height(counts, extent, options.z_max),
        }
        for name, radar in self._radars.items():
            layers[name] = radar.power(extent, self.ts[part.numbers[0]], self.ts[part.numbers[-1]])
        return extent, layers

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of the objects, in the order of their probabilities; none where none are asked for."""
        return self._objects.classes if self._objects is not None else ()

    def objects(self, part: Slice) -> Objects | None:
        """The objects during a slice, z up, at times without jitter; None where they are not asked for."""
        if self._objects is None or self._object_ts is None:
            return None
        start, stop = np.searchsorted(self._objects.ts, self.ts[part.numbers[[0, -1]]]).tolist()
        found = self._objects.read(start, stop + 1 if stop < len(self._objects.ts) else stop, self._object_ts)
        ahead = matmul(np.stack([np.cos(found.yaw), np.sin(found.yaw), 0 * found.yaw], 1), self._up.T)
        yaw = np.arctan2(ahead[:, 1], ahead[:, 0])
        return found._replace(centre=matmul(found.centre, self._up.T), vel=matmul(found.vel, self._up.T), yaw=yaw)

    def _find_floor(self, motion: SweepMotion) -> Floor:
        """The floor from some of the sweeps."""
        sweeps = []
        for number in spread_sweeps(self.numbers):
            poses = motion.columns(number, self._sweeps.reader.columns)
            try:
                sweep = self._sweeps.places(number)
            except SampleError:
                continue
            points = placed(sweep, poses, self._map.min_range, self._map.max_range)
            sweeps.append((points - poses.pos).reshape(-1, 3))
        return find_floor(sweeps)


class _Radar:
    """The radar's frames, with their poses in a world whose z is up."""

    def __init__(self, recording: Recording, up: np.ndarray, options: RslearnOptions) -> None:
        self._sensor, pose = Folder(recording.folder("_radar_range_azimuth")), recording.folder("_radar_pose")
        poses = whole_sensor(pose, "pos", "rot")
        count = self._sensor.length(channels=("power",))
        self._ts = self._sensor.times(count)
        if not np.array_equal(self._ts, poses["ts"]):
            raise FormatError(f"{pose}: its ts differs from that of {self._sensor.name}; make both again")
        self._pos, self._rot = matmul(poses["pos"], up.T), matmul(up, poses["rot"])
        valid = self._sensor.valid(count).astype(bool) & poses["valid"].astype(bool)
        self._valid = valid & np.isfinite(self._pos).all(1) & np.isfinite(self._rot).all((1, 2))
        self._options = options
        axes = read_axes(self._sensor.path)
        values = [axes[name].values for name in ("azimuth", "range") if name in axes]
        bins = [each for each in values if each is not None]
        if len(bins) != 2:
            path = self._sensor.path / AXES
            raise FormatError(f"{path}: gives no azimuth and range of the bins; radar.json must give range_resolution")
        self._azimuth, self._range = bins

    def power(self, extent: Extent, begin: float, end: float) -> np.ndarray:
        """Mean power of the frames from one time to another, s, as `RadarPower.mean` gives it."""
        options = self._options
        mean = windows.RadarPower(
            extent, self._azimuth, self._range, options.max_range, np.radians(options.max_azimuth_deg)
        )
        start, stop = np.searchsorted(self._ts, [begin, end], side="left").tolist()
        for at in range(start, min(stop + 1, len(self._ts))):
            if self._valid[at] and self._ts[at] <= end and at % options.every == 0:
                try:
                    mean.add(self._sensor.channel("power").read(at, at + 1)[0], self._pos[at], self._rot[at])
                except SampleError:
                    continue
        return mean.mean()


__all__ = ["LAYOUT", "describe", "relations", "write"]


def write(job: ExportJob) -> None:
    """Write `config.json` and `windows/RECORDING/SLICE_TILE/`.

    The coordinates are metres along x and y of each recording's world of `_odom`, turned so that z is up. Which place
    of the earth its origin is, nobody knows unless `latitude` and `longitude` say so.

    Raises:
        FormatError: a recording lacks something, or nothing of the ground was observed.
    """
    options: RslearnOptions = job.options
    radars = [_radars(job, recording) for recording in job.recordings]
    layers = _layers(options, dict.fromkeys(name for each in radars for name in each))
    crs = windows.ground_crs(options.latitude, options.longitude)
    if (options.latitude, options.longitude) == (0, 0):
        job.note(
            "positions are metres from where each recording begins; the place on the earth, 0 N 0 E, is fictitious"
        )
    grounds = [Ground(recording, options, each) for recording, each in zip(job.recordings, radars, strict=True)]
    courses = [
        Course(recording.name, ground.ts[ground.numbers], ground.pos[ground.numbers])
        for recording, ground in zip(job.recordings, grounds, strict=True)
    ]
    for course, ground, split in zip(courses, grounds, job.split(courses), strict=True):
        if not ground.floor.is_plane:
            job.note(f"{course.name}: no floor was found; heights are above its lowest points")
        slices = cut_slices(ground.ts, ground.numbers, split, options.slice_s)
        with progress(f"export {course.name}", len(slices), "slice") as advance:
            for part in slices:
                make = partial(_write_slice, job, ground, course.name, part, layers, crs)
                job.part(f"{course.name} {part.number}", make)
                advance(1)
    if not any(job.folder.glob("windows/*/*/metadata.json")):
        raise FormatError("export rslearn: no tile of the ground was observed enough; lower min_share or tile_px")
    job.save("config", windows.config(layers))


def _radars(job: ExportJob, recording: Recording) -> dict[str, Recording]:
    """Layer of power -> the recording as the radar of it sees it."""
    views = job.views(recording, "radar") if job.options.radar else []
    return {"radar_power" if view is recording else windows.power_layer(view.called("radar")): view for view in views}


def _layers(options: RslearnOptions, radars: Iterable[str]) -> list[str]:
    names = [name for name in windows.RASTERS if name != "radar_power"] + list(radars)
    return names + [name for name in windows.VECTORS if name != "tracks" or options.objects]


def _write_slice(job: ExportJob, ground: Ground, group: str, part: Slice, layers: list[str], crs: str) -> list[Path]:
    """Write the windows of a slice. Returns the paths of their files, of which `completed` is the last in each."""
    options: RslearnOptions = job.options
    extent, rasters = ground.rasters(part, job.threads)
    observed = rasters["occupancy"] != windows.RASTERS["occupancy"][2]
    times = ground.times(part)
    vectors = {
        "trajectory": windows.collection([windows.path_feature(times, ground.pos[part.numbers], {"kind": "rig"})], crs)
    }
    objects = ground.objects(part)
    if objects is not None:
        vectors["tracks"] = windows.collection(windows.track_features(objects, ground.classes), crs)
    about = {"recording": group, "slice": part.number, "split": windows.SPLIT_NAMES[part.split]}
    files: list[Path] = []
    for tile in windows.tiles_of(observed, extent, options.tile_px, options.min_share):
        keys = {"group": group, "window": windows.window_name(part.number, tile)}
        files.append(job.save("windows", windows.metadata(tile, crs, times[0], times[-1], about), **keys))
        made = [name for name in layers if name in vectors or name in rasters]  # a recording may lack a radar
        for name in made:
            if name in vectors:
                files.append(job.save("vectors", vectors[name], layer=name, **keys))
            else:
                band, _, unknown = windows.raster_of(name)
                tiff = windows.geotiff(tile.cut(rasters[name], extent, unknown), tile, crs, unknown)
                files.append(job.save("rasters", tiff, layer=name, bands=band, **keys))
        files += [job.save("completed", b"", layer=name, **keys) for name in made]  # the last of all
    return files
