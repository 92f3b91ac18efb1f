"""The rslearn dataset of some recordings: a group for each, a window for each slice of time and tile of the ground."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.datasets.options import RslearnOptions
from rover_pipeline.datasets.splits import SHORT_SPLITS, Course
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, SampleError, naming
from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.objects import ObjectReader
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.rslearn import windows
from rover_pipeline.export.sweeps import RawSweeps
from rover_pipeline.format.descriptions import AXES
from rover_pipeline.format.sensor import Sensor as Folder
from rover_pipeline.format.sensor import read_axes
from rover_pipeline.format.texts import read_text
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lookup import optional
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.mapping.grid import Extent, LocalGrid
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.sweeps import max_distance, placed, spread_floor
from rover_pipeline.validation.rig import lidar_clock, read_sensor_poses, read_trajectory

# What is known of the ground of one recording: its sweeps, radar frames and objects, in a world whose z is up.


class Slice(NamedTuple):
    """A slice of time: its number in its recording, the sweeps with a known pose in it, i8 (sweep,), and the number of
    its split."""

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
        ts: f8 (N,), times of all sweeps, s, as recorded; times: the same without the jitter of their arrival.
        pos: f8 (N, 3), m, of the lidar, z up; place: the same in the world of `_odom`, by which all formats are split.
        numbers: i8 (M,), sweeps that are valid and have a known pose.
        notes: what the user should know of the sweeps.
        floor: below the lidar; its `up` is in the world of `_odom`.
    """

    def __init__(self, recording: Recording, options: RslearnOptions, radars: Mapping[str, Recording]) -> None:
        """`radars`: layer of power -> the recording as the radar of it sees it."""
        path, self._options = recording.path, options
        shared = ("min_range", "max_range", "z_min", "z_max")
        self._map = MapOptions(**{name: getattr(options, name) for name in shared})
        self._sweeps = RawSweeps(recording, intensity=False)
        motion = self._sweeps.reader.motion(self._sweeps.odometry, self._sweeps.options.times)
        self.ts, self.notes = self._sweeps.ts, self._sweeps.reader.notes
        self.numbers = self._sweeps.known(motion.trajectory.valid)
        limits = options.min_range, options.max_range
        up = read_text(recording.file("_odom/up.json")) if recording.has("_odom/up.json") else None
        self.floor = spread_floor(self._sweeps.stored, self._sweeps.reader, motion, self.numbers, limits, up)
        self._up = levelling(self.floor.up)
        self._motion, self.times = motion.rotated(self._up), motion.trajectory.ts
        self.pos, self.place = self._motion.trajectory.states.pos, motion.trajectory.states.pos
        self._radars = {name: _Radar(view, self._up, options) for name, view in radars.items()}
        self._objects = ObjectReader(path) if options.objects else None
        if self._objects is not None:
            self._object_ts = lidar_clock(path, self._objects.ts, read_trajectory(path))

    def rasters(self, part: Slice, threads: int) -> tuple[Extent, dict[str, np.ndarray]]:
        """The rasters of a slice by layer, (row, column) with row 0 at the smallest y, without sweeps that cannot be
        decoded."""
        options = self._options
        chosen = part.numbers[:: options.every]
        poses = {at: self._motion.columns(at, self._sweeps.reader.columns) for at in chosen.tolist()}
        positions = np.concatenate([each.pos[:, :2] for each in poses.values()])
        extent = Extent.around(positions, max_distance(self._map), options.resolution)
        band = np.array([0.0, options.z_min, options.z_max]) - self.floor.height
        grid = LocalGrid(extent, band)

        clouds = ordered_map(lambda at: self._points(at, poses[at]), list(poses), threads=threads, held=2 * threads)
        for number, found in zip(poses, clouds, strict=True):
            if found is not None:
                grid.add(found[0], poses[number].pos, found[1])
        cells = grid.counts(extent)
        layers = {"occupancy": windows.occupancy(cells, extent), "height": windows.height(cells, extent, options.z_max)}
        for name, radar in self._radars.items():
            layers[name] = radar.power(extent, self.ts[part.numbers[0]], self.ts[part.numbers[-1]])
        return extent, layers

    def tracks(self, part: Slice) -> list[dict[str, Any]] | None:
        """The tracks of objects during a slice, z up, at times without jitter; None where they are not asked for."""
        if self._objects is None:
            return None
        start, stop = np.searchsorted(self._objects.ts, self.ts[part.numbers[[0, -1]]]).tolist()
        found = self._objects.read(start, min(stop + 1, len(self._objects.ts)), self._object_ts)
        return windows.track_features(found.levelled(self._objects.up, self._up), self._objects.classes)

    def _points(self, number: int, poses: Poses) -> tuple[np.ndarray, np.ndarray] | None:
        """The points of a sweep, whose columns have some poses, and their sectors; None when it cannot be decoded."""
        if (stored := self._sweeps.stored(number)) is None:
            return None
        sweep = self._sweeps.reader.sweep(stored)
        cloud = placed(sweep, poses, self._map.min_range, self._map.max_range)
        return cloud, self._sweeps.reader.sectors(sweep)


class _Radar:
    """The radar's frames, with their poses in a world whose z is up."""

    def __init__(self, recording: Recording, up: np.ndarray, options: RslearnOptions) -> None:
        self._sensor, pose = Folder(recording.folder("_radar_range_azimuth")), recording.folder("_radar_pose")
        stamps, poses, valid = read_sensor_poses(pose)
        count = self._sensor.length(channels=("power",))
        self._ts = self._sensor.times(count) + recording.mount("radar").time_offset  # by the clock of the lidar
        if not np.array_equal(self._sensor.times(count), stamps):
            raise FormatError(f"{pose}: its ts differs from that of {self._sensor.name}; make both again")
        self._rot, self._pos = poses.rotated(up)
        self._valid = self._sensor.valid(count).astype(bool) & valid & poses.finite
        self._options = options
        axes = read_axes(self._sensor.path)
        values = [axes[name].values for name in ("azimuth", "range") if name in axes]
        bins = [each for each in values if each is not None]
        if len(bins) != 2:
            path = self._sensor.path / AXES
            raise FormatError(f"{path}: gives no azimuth and range of the bins; radar.json must give range_resolution")
        self._azimuth, self._range = bins

    def power(self, extent: Extent, begin: float, end: float) -> np.ndarray:
        """Mean power of the frames from one time to another, s, as `radar_power` gives it."""
        options, frames = self._options, self._frames(begin, end)
        widest = np.radians(options.max_azimuth_deg)
        return windows.radar_power(extent, self._azimuth, self._range, frames, options.max_range, widest)

    def _frames(self, begin: float, end: float) -> Iterator[windows.Frame]:
        for at in np.flatnonzero(self._valid & (self._ts >= begin) & (self._ts <= end)).tolist():
            if at % self._options.every == 0:
                with suppress(SampleError):
                    yield self._sensor.channel("power").sample(at), self._pos[at], self._rot[at]


def write(job: ExportJob) -> None:
    """Write `config.json` and `windows/RECORDING/SLICE_TILE/`.

    The coordinates are metres along x and y of each recording's world of `_odom`, turned so that z is up. Which place
    of the earth its origin is, nobody knows unless `latitude` and `longitude` say so. Raises FormatError where a
    recording lacks something, or nothing of the ground was observed.
    """
    options: RslearnOptions = job.options
    radars = [_radars(job, recording) for recording in job.recordings]
    layers = [name for name in windows.RASTERS if name != "radar_power"]
    layers += dict.fromkeys(name for each in radars for name in each)
    layers += [name for name in windows.VECTORS if name != "tracks" or options.objects]
    crs = windows.ground_crs(options.latitude, options.longitude)
    if (options.latitude, options.longitude) == (0, 0):
        job.note(
            "positions are metres from where each recording begins; the place on the earth, 0 N 0 E, is fictitious"
        )
    grounds = [Ground(recording, options, each) for recording, each in zip(job.recordings, radars, strict=True)]
    courses = [
        Course(recording.name, ground.ts[ground.numbers], ground.place[ground.numbers])
        for recording, ground in zip(job.recordings, grounds, strict=True)
    ]
    for course, ground, split in zip(courses, grounds, job.split(courses), strict=True):
        for note in ground.notes:
            job.note(f"{course.name}: {note}")
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
    return {"radar_power" if view is recording else f"{view.called('radar')}_power": view for view in views}


def _write_slice(job: ExportJob, ground: Ground, group: str, part: Slice, layers: list[str], crs: str) -> list[Path]:
    """Write the windows of a slice. Returns the paths of their files, of which `completed` is the last in each."""
    options: RslearnOptions = job.options
    extent, rasters = ground.rasters(part, job.threads)
    observed = rasters["occupancy"] != windows.RASTERS["occupancy"][2]
    times = ground.times[part.numbers]
    path = windows.path_feature(times, ground.pos[part.numbers], {"kind": "rig"})
    vectors = {"trajectory": windows.collection([path], crs)}
    if (tracks := ground.tracks(part)) is not None:
        vectors["tracks"] = windows.collection(tracks, crs)
    about = {"recording": group, "slice": part.number, "split": SHORT_SPLITS[part.split]}
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


# The files of a dataset, and the rules that rslearn relies on.


class _Raster(Content):
    """A GeoTIFF: its values (band, row, column), types, transform, value of unknown pixels, and crs."""

    def read(self, path: Path) -> dict[str, Any]:
        rasterio = optional("rasterio", "check of an rslearn dataset", "rslearn")
        wrong = naming("cannot be read", OSError, rasterio.errors.RasterioError, made=ValueError)
        with wrong, rasterio.open(path) as file:
            return {
                "values": file.read(),
                "types": set(file.dtypes),
                "transform": tuple(file.transform)[:6],
                "nodata": file.nodata,
                "crs": file.crs,
            }


def _grid(metadata: dict[str, Any]) -> tuple[list[int], float, float]:
    """Bounds of a window, left, top, right and bottom, pixels, and the size of a pixel along x and y."""
    (left, top, right, bottom), projection = metadata["bounds"], metadata["projection"]
    size = projection["x_resolution"], projection["y_resolution"]
    whole = all(type(each) is int for each in metadata["bounds"])
    if not (whole and left < right and top < bottom and projection["crs"] and 0 not in size):
        raise ValueError("no grid")
    return [left, top, right, bottom], *size


def _has_ordered_times(metadata: dict[str, Any]) -> bool:
    """Whether the times of a window, which it need not have, are two in their order, with their offset from UTC."""
    times = [datetime.fromisoformat(each) for each in metadata.get("time_range") or ()]
    return not times or (len(times) == 2 and all(each.tzinfo for each in times) and times[0] <= times[1])


def _coordinates(values: Any) -> list[float]:
    """All numbers of the coordinates of a feature."""
    return [each for value in values for each in _coordinates(value)] if isinstance(values, list) else [float(values)]


#: The files of a dataset. Layout.
_WINDOW = "windows/{group}/{window}/"
_LAYER = f"{_WINDOW}layers/{{layer}}/"
LAYOUT = Layout(
    config=File(
        "config.json",
        Json("layers"),
        {"names no layers": lambda content: isinstance(content["layers"], dict) and len(content["layers"]) > 0},
        keep=lambda content: content["layers"],
    ),
    windows=File(
        f"{_WINDOW}metadata.json",
        Json(),
        {
            "must give bounds of four integers and a projection with crs, x_resolution, y_resolution": (
                lambda metadata: len(_grid(metadata)) > 0
            ),
            "time_range must be two ordered times with their offset from UTC": _has_ordered_times,
        },
        keep=lambda metadata: {**metadata, "grid": _grid(metadata)},
    ),
    vectors=File(
        f"{_LAYER}data.geojson",
        Json(indent=None),
        {
            "is no FeatureCollection": lambda content: (
                content.get("type") == "FeatureCollection" and isinstance(content.get("features"), list)
            ),
            "names no crs, so that its metres would be read as degrees": lambda content: (
                content.get("properties") or content.get("crs")
            ),
            "a feature has no finite coordinates": lambda content: all(
                len(numbers) > 0 and np.isfinite(numbers).all()
                for numbers in (_coordinates(each["geometry"]["coordinates"]) for each in content["features"])
            ),
        },
        optional=True,
    ),
    rasters=File(
        f"{_LAYER}{{bands}}/geotiff.tif",
        _Raster(),
        {
            "has no crs": lambda raster: raster["crs"],
            "holds pixels that are not finite; they must have the value of nodata": lambda raster: np.isfinite(
                raster["values"]
            ),
        },
        optional=True,
        keep=lambda raster: {**raster, "values": raster["values"].shape},
    ),
    completed=File(f"{_LAYER}completed", Content()),
)


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when a description is missing or damaged."""
    found = LAYOUT.kept(folder, "config", "windows")
    windows = [each.kept for each in found["windows"]]
    times = [each.get("time_range") or [] for each in windows]
    return {
        "windows": len(windows),
        "layers": sorted(name for each in found["config"] for name in each.kept),
        "windows_of_group": dict(Counter(str(each.keys["group"]) for each in found["windows"])),
        "windows_of_split": dict(Counter(str((each.get("options") or {}).get("split")) for each in windows)),
        "begin": min((each[0] for each in times if each), default=None),
        "end": max((each[1] for each in times if len(each) > 1), default=None),
    }


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Windows without a complete layer, layers that lack a file or are not declared, and grids of another window."""
    layers = next((each.kept for each in found["config"] if isinstance(each.kept, dict)), {})
    rasters = {each.path: each.kept for each in found["rasters"]}
    vectors = {each.path for each in found["vectors"]}
    complete: dict[Path, list[str]] = {}
    for each in found["completed"]:
        complete.setdefault(each.path.parents[2], []).append(str(each.keys["layer"]))
    for window in found["windows"]:
        place = window.path.parent
        if place not in complete:
            yield f"{place}: no layer is complete"
        for name in complete.get(place, ()):
            path, layer = place / "layers" / name, layers.get(name)
            if layer is None:
                yield f"{place}: layer {name} is not in config.json"
            elif layer.get("type") == "vector":
                if path / "data.geojson" not in vectors:
                    yield f"{path / 'data.geojson'}: is missing"
            else:
                for bands in layer.get("band_sets", []):
                    names = bands.get("bands") or [f"B{at}" for at in range(int(bands.get("num_bands", 0)))]
                    raster = path / "_".join(names) / "geotiff.tif"
                    if raster not in rasters:
                        yield f"{raster}: is missing"
                    elif rasters[raster] and window.kept:
                        yield from _grid_problems(raster, rasters[raster], bands, len(names), *window.kept["grid"])
    for place in sorted(complete.keys() - {window.path.parent for window in found["windows"]}):
        yield f"{place / 'metadata.json'}: is missing"
    for name in sorted(set(layers) - {name for names in complete.values() for name in names}):
        yield f"{folder}: the layer {name} is complete in no window"


def _grid_problems(
    path: Path, raster: dict[str, Any], bands: dict[str, Any], count: int, bounds: list[int], x: float, y: float
) -> Iterator[str]:
    """A raster must have the grid of its window exactly, or rslearn blends its pixels without a word."""
    wanted = (x, 0, bounds[0] * x, 0, y, bounds[1] * y)
    shape = (bounds[3] - bounds[1], bounds[2] - bounds[0])
    if raster["values"][1:] != shape or not np.allclose(raster["transform"], wanted, atol=1e-9):
        yield f"{path}: its grid is not that of the window, {bounds}"
    if raster["values"][0] != count or raster["types"] != {bands.get("dtype")}:
        types = ", ".join(sorted(raster["types"]))
        yield f"{path}: has {raster['values'][0]} bands of {types}, not {count} of {bands.get('dtype')}"
    if "nodata_value" in bands and raster["nodata"] != bands["nodata_value"]:
        yield f"{path}: its nodata is {raster['nodata']}, not {bands['nodata_value']}"
