"""Writes an EdgeFirst dataset."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.datasets.options import EdgefirstOptions
from rover_pipeline.datasets.splits import SHORT_SPLITS, Course
from rover_pipeline.engine.progress import progress
from rover_pipeline.engine.task import PREPARED
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.edgefirst import layout
from rover_pipeline.export.objects import OBJECTS, ObjectReader, enclosing, in_picture
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.sweeps import PosedSweeps
from rover_pipeline.format.channels.jpeg import PictureChannel, encode
from rover_pipeline.format.files import opened_file
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import parse_json, read_text
from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.axes import resolutions
from rover_pipeline.radar.frames import make_transform
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.spectrum import RangeDoppler, decibel
from rover_pipeline.validation.rig import made_with, read_sensor_poses

# The radar's files of EdgeFirst samples: the complex range-Doppler cube, and points with power, noise and RCS.
#
# The cube is `[sequence, rx, range, doppler]` of complex int16. DRVEGRD radars send two sequences of chirps. Ours are
# those of the first two transmitters, whose chirps alternate (TDM), or both halves of the chirps of a single one.

#: Added to int16, so that a PNG, which has no sign, can hold it. Layout.
OFFSET = 32768
#: PNGs of noise hardly get smaller by more than the fastest compression. Schedule.
_PNG = (cv2.IMWRITE_PNG_COMPRESSION, 1)
#: Maximum stored amplitude of the frames that the scale of cubes is found from: 12 dB below the limit of int16, against
#: clipping in the others. Tuned: by hand.
_AMPLITUDE = 8192.0


class RadarFrames:
    """The frames of a radar as EdgeFirst's files have them. Can be shared by threads. `valid`, bool (N,): those that
    can be trusted; `scale`: stored value of an amplitude of one ADC count."""

    def __init__(self, recording: Recording, has_points: bool = True) -> None:
        """`has_points`: whether their points are exported, by the poses of the radar where they are known."""
        folder, points = recording.folder("radar"), recording.folder("_radar_points")
        self._radar = Sensor(folder)
        self._iq = self._radar.channel("iq")
        shape = self._radar.specs["iq"].shape
        path = recording.file("radar/radar.json")
        sidecar = read_text(path)
        made = made_with(recording.path, points.name)
        known = {key: value for key, value in made.items() if key in PointsOptions.model_fields}
        self._options = PointsOptions.parse(known, "radar.points")
        found = resolutions(sidecar)
        if not found or not all(found):
            raise FormatError(f"{path}: gives no resolutions above zero, so that points have no cells")
        self._metres, self._mps = found
        real = int(parse_json(sidecar, "radar.json")["shape"][-1]) == shape[-1]
        self._transform = make_transform(shape, self._options, real)
        self._halves: RangeDoppler | None = None
        if shape[1] == 1:
            if shape[0] % 2:
                raise FormatError(f"{folder}: one transmitter and {shape[0]} chirps make no two sequences")
            self._halves = make_transform((shape[0] // 2, *shape[1:]), self._options, real)
        self.mount = recording.mount("radar")
        count = self._radar.length(truncate=True, channels=("iq",))
        self.valid = self._radar.valid(count).astype(bool)
        self._points = Sensor(points) if points.is_dir() else None
        if self._points is not None:
            good = self._points.valid(self._points.length()).astype(bool)
            self.valid[: len(good)] &= good[:count]
        self._poses: Poses | None = None
        if has_points and ((poses := recording.folder("_radar_pose")) / META).exists():
            _, self._poses, has_pose = read_sensor_poses(poses)
            self.valid[: len(has_pose)] &= (has_pose & self._poses.finite)[:count]
            self.valid[len(has_pose) :] = False
        self.scale = self._find_scale()

    def _find_scale(self) -> float:
        """A power of two, so that the stored values of any frame are easily undone.

        The first frame may be quiet, and louder ones would be clipped: so many over the whole recording are looked at.
        """
        good = np.flatnonzero(self.valid)
        largest = 0.0
        for at in np.unique(good[np.linspace(0, len(good) - 1, PREPARED).astype(int)]) if len(good) else ():
            spectrum, _ = self.read(int(at))
            largest = max(largest, float(np.abs(spectrum.view("f4")).max()))
        return float(2.0 ** np.floor(np.log2(_AMPLITUDE / largest))) if largest > 0 else 1.0

    def read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Spectrum of the two sequences, c8 (2, rx, doppler, range), zero Doppler in the middle, and the mean power
        over the antennas, f4 (doppler, range), dB re one squared ADC count."""
        frame = self._iq.sample(number)
        spectrum, power = self._transform.spectrum_and_power(frame)
        if self._halves is not None:
            half = len(frame) // 2
            parts = [self._halves.spectrum_and_power(part)[0][0].copy() for part in (frame[:half], frame[half:])]
            spectrum = np.stack(parts)
        return np.fft.fftshift(spectrum[:2], axes=2), decibel(power)

    def image(self, spectrum: np.ndarray) -> np.ndarray:
        """The cube as u2 (2 * range, rx * doppler * 2): `[s R + r, a 2 D + 2 d + c]` holds part c, real first, of
        sequence s, antenna a, range r and Doppler d, plus 32768."""
        cells = np.ascontiguousarray(spectrum.transpose(0, 3, 1, 2)).view("f4")
        stored = np.clip(np.rint(cells * self.scale), -OFFSET, OFFSET - 1) + OFFSET
        return stored.astype("u2").reshape(2 * spectrum.shape[3], -1)

    def points(self, number: int, power: np.ndarray, lidar: Poses) -> dict[str, np.ndarray]:
        """Points of a frame, whose power is f4 (doppler, range), dB: `x y z` m in the lidar's frame at its pose
        `lidar`, `speed` m/s, `power`, `noise` and `rcs` in dB, f4 (N,)."""
        assert self._points is not None
        read = {name: self._points.channel(name).sample(number) for name in ("xyz", "doppler", "snr")}
        count = int(self._points.channel("count").sample(number))
        xyz, speed, snr = (read[name][:count].astype("f8") for name in ("xyz", "doppler", "snr"))
        distance = np.linalg.norm(xyz, axis=1)
        row = np.rint(speed / self._mps).astype(int) + len(power) // 2
        column = np.clip(np.rint(distance / self._metres).astype(int), 0, power.shape[1] - 1)
        level = power[row % len(power), column].astype("f8")
        if self._poses is None:
            moved = matmul(xyz, self.mount.rotation.T) + self.mount.translation
        else:  # the rig has moved between both
            rot, pos = self._poses.select(number)
            moved = matmul(matmul(xyz, rot.T) + pos - lidar.pos, lidar.rot)
        rcs = level + 40 * np.log10(np.maximum(distance, self._metres))
        x, y, z = moved.T
        return {"x": x, "y": y, "z": z, "speed": speed, "power": level, "noise": level - snr, "rcs": rcs}

    def describe(self) -> dict[str, object]:
        """What a reader must know of the cube and of the points."""
        transform = self._halves or self._transform
        instant = "the instant of the radar" if self._poses is None else "the time stamp of the sweep"
        return {
            "scale": self.scale,
            "layout": "pixel [s R + r, a 2 D + 2 d + c] = value + 32768; c = 0 real, 1 imaginary; value = amplitude in "
            "ADC counts (divided by the coherent gain) times scale",
            "sequences": "first and second transmitter, TDM, not phase-compensated"
            if self._halves is None
            else "first and second half of the chirps",
            "doppler": "zero velocity at bin D / 2, larger bins recede",
            "doppler_bins": transform.doppler_bins,
            "range_bins": transform.range_bins,
            "range_resolution_m": self._metres,
            "doppler_resolution_mps": self._mps * (1 if self._halves is None else 2),
            "points": f"x y z m in the lidar frame, front-left-up, at {instant}; speed m/s, radial, positive recedes; "
            "power dB re one squared ADC count; noise = power - SNR, dB; rcs = power + 40 log10(range / 1 m), dB, not "
            "calibrated",
        }


_DATED = re.compile(r".*_\d{8}_\d{6}")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # Layout.


def write(job: ExportJob) -> None:
    """Write the files, the table and the archive."""
    layout.arrow()  # before hours of work, not after them
    if "camera.jpeg" not in job.options.files:
        job.note("files has no camera.jpeg: readers of the format find no samples")
    sequences = [Sequence(recording, job.options) for recording in job.recordings]
    for sequence in sequences:
        for note in sequence.notes:
            job.note(f"{sequence.recording.path}: {note}")
    splits = job.split([each.course() for each in sequences])
    # In the order in which recordings name them.
    classes = list(dict.fromkeys(name for each in sequences if each.objects for name in each.objects.classes))
    for sequence, split in zip(sequences, splits, strict=True):
        sequence.choose(split)
        if not len(sequence.chosen):
            job.note(
                f"{sequence.recording.path}: no sample is left: nothing of it has all of {', '.join(sequence.kinds)}"
            )
            continue
        job.in_parts(sequence.name, sequence.chosen.tolist(), partial(sequence.write, job), "sample")
    if not any(len(each.chosen) for each in sequences):
        raise FormatError(
            f"{job.recordings[0].path}: no sample has all of {', '.join(job.options.files)}; leave some out by `files`"
        )
    about = {each.name: each.describe() for each in sequences if len(each.chosen)}
    for sequence in sequences:
        if sequence.objects is None and job.options.annotations:
            job.note(f"{sequence.recording.path}: has no _objects: its samples have no boxes")
    job.save("sensors", about)
    rows = (row for each in sequences for row in each.rows(classes))
    layout.write_table(job.layout.path(job.folder, "table"), rows, classes, {"sequences": about})
    if job.options.zip:
        container, archive = job.folder / job.folder.name, job.layout.path(job.folder, "archive")
        job.part("zip", lambda: [_archive(container, archive)])


def _kinds(recording: Recording, options: EdgefirstOptions, has_points: bool) -> tuple[list[str], list[str]]:
    """The files that sensors of the recording's kinds give, and notes about the others."""
    left: dict[str, str] = {}
    if has_points:
        left |= dict.fromkeys(("lidar.png", "lidar.jpeg"), "the lidar is points and has no range image (lidar/rng)")
    elif "lidar.jpeg" in options.files:
        recording.require("lidar/rfl", "edgefirst")
    if recording.has("radar/xyz") and not recording.has("radar/iq"):
        left |= dict.fromkeys(("radar.png", "radar.pcd"), "the radar is points and has no samples (radar/iq)")
    elif {"radar.png", "radar.pcd"} & {*options.files}:
        recording.require("radar/iq", "edgefirst")
        recording.require("radar/radar.json", "edgefirst")
    reasons: dict[str, list[str]] = {}
    for kind in options.files:
        if kind in left:
            reasons.setdefault(left[kind], []).append(kind)
    notes = [f"{' and '.join(kinds)} are left out: {reason}" for reason, kinds in reasons.items()]
    return [kind for kind in options.files if kind not in left], notes


class Sequence:
    """A recording as a sequence of samples. Threads can share it.

    Attributes:
        name: of the sequence.
        kinds: suffixes of the files of each sample; notes: why some of those asked for are left out.
        chosen: numbers of the sweeps that are exported, once `choose` was called.
    """

    def __init__(self, recording: Recording, options: EdgefirstOptions) -> None:
        trace = recording.path
        self.recording = recording
        self._sweeps = PosedSweeps(recording)
        self.kinds, notes = _kinds(recording, options, self._sweeps.has_points)
        self.notes = [*notes, *self._sweeps.reader.notes]
        ts = self._sweeps.ts
        start = datetime.fromtimestamp(ts[0], UTC).strftime("%Y%m%d_%H%M%S")
        self.name = recording.name if _DATED.fullmatch(recording.name) else f"{recording.name}_{start}"
        self._camera = recording.sensor("camera", "video.avi")
        self._pictures = self._camera.channel("video.avi")
        height, width, _ = self._camera.specs["video.avi"].shape
        self.size = (int(width), int(height))
        self._camera_ts = self._camera.times(self._camera.length(truncate=True, channels=("video.avi",)))
        depth = Sensor(recording.folder("_camera_depth")) if "depth.png" in self.kinds else None
        self._depth = depth.channel("depth") if depth else None
        self._radar = (
            RadarFrames(recording, "radar.pcd" in self.kinds) if {"radar.png", "radar.pcd"} & {*self.kinds} else None
        )
        self._picture_of = self._nearest("camera", self._camera.valid(len(self._camera_ts)).astype(bool))
        if depth is not None:
            good = depth.valid(depth.length()).astype(bool)
            self._picture_of = np.where(good[np.minimum(self._picture_of, len(good) - 1)], self._picture_of, -1)
        self._picture_later = Sensor(trace / "_sync").channel(f"{recording.called('camera')}_dt").read_whole()
        self._frame_of = self._nearest("radar", self._radar.valid) if self._radar is not None else None
        self.objects = ObjectReader(trace) if options.annotations and (trace / OBJECTS / META).exists() else None
        self._lens = recording.lens() if recording.has("camera/camera.json") else None
        self._camera_poses: Poses | None = None
        if ((poses := recording.folder("_camera_pose")) / META).exists():
            _, self._camera_poses, valid = read_sensor_poses(poses)
            self._camera_poses.pos[~valid] = np.nan
        self.chosen = np.zeros(0, "i8")
        self._groups: list[str] = []
        # The sweeps for which all files can be made.
        self._candidates = self._sweeps.good[self._sweeps.good % options.every == 0]
        for nearest in (self._picture_of, self._frame_of):
            if nearest is not None:
                self._candidates = self._candidates[nearest[self._candidates] >= 0]

    def _nearest(self, sensor: str, good: np.ndarray) -> np.ndarray:
        """The sample of a sensor nearest to each sweep, i8 (N,); -1 where there is none that can be trusted."""
        sync, sensor = Sensor(self.recording.path / "_sync"), self.recording.called(sensor)
        count = sync.length(channels=(sensor,))
        if not np.array_equal(sync.times(count), self._sweeps.ts[:count]) or count != len(self._sweeps.ts):
            raise FormatError(f"{sync.path}: is not at the lidar's times; set sync.reference: lidar and make it again")
        nearest = sync.channel(sensor).read_whole(count).astype("i8")
        nearest[nearest >= len(good)] = -1
        return np.where((nearest >= 0) & good[nearest], nearest, -1)

    def course(self) -> Course:
        """The samples that are to be split."""
        at = self._candidates
        return Course(self.recording.name, self._sweeps.ts[at], self._sweeps.poses.pos[at])

    def choose(self, splits: np.ndarray) -> None:
        """Take the samples that are in a split."""
        inside = splits >= 0
        self.chosen = self._candidates[inside]
        self._groups = [SHORT_SPLITS[code] for code in splits[inside]]

    def write(self, job: ExportJob, number: int) -> list[Path]:
        """Write the files of one sample; returns their paths."""
        data: dict[str, Any] = {}
        picture = int(self._picture_of[number])
        if "camera.jpeg" in self.kinds:
            data["camera.jpeg"] = self._jpeg(picture)
        if self._depth is not None:
            data["depth.png"] = encode_picture(".png", self._depth.sample(picture), _PNG)
        if {"lidar.pcd", "lidar.png", "lidar.jpeg"} & {*self.kinds}:
            data |= self._lidar_files(number)
        if self._radar is not None and self._frame_of is not None:
            frame = int(self._frame_of[number])
            spectrum, power = self._radar.read(frame)
            if "radar.png" in self.kinds:
                data["radar.png"] = encode_picture(".png", self._radar.image(spectrum), _PNG)
            if "radar.pcd" in self.kinds:
                data["radar.pcd"] = self._radar.points(frame, power, self._sweeps.poses.select(number))
        return [job.save(kind, data[kind], sequence=self.name, frame=number) for kind in self.kinds]

    def _jpeg(self, picture: int) -> bytes:
        """The recorded JPEG itself where it can stand alone."""
        jpeg = self._pictures.jpeg(picture) if isinstance(self._pictures, PictureChannel) else b""
        # Some cameras leave the standard Huffman table (DHT) out of the JPEGs of a video.
        if b"\xff\xc4" not in jpeg[: jpeg.find(b"\xff\xda")]:
            jpeg = encode(self._pictures.sample(picture))
        return layout.with_exif(jpeg, float(self._camera_ts[picture]), f"{self.recording.name} camera sample {picture}")

    def _lidar_files(self, number: int) -> dict[str, Any]:
        images = self._sweeps.images(number)
        data: dict[str, Any] = {}
        if "lidar.pcd" in self.kinds:
            sweep = self._sweeps.deskewed(number, images)
            intensity = np.zeros(len(sweep.xyz)) if sweep.rfl is None else sweep.rfl
            x, y, z = sweep.xyz.T
            data["lidar.pcd"] = {"x": x, "y": y, "z": z, "intensity": intensity}
        if {"lidar.png", "lidar.jpeg"} & {*self.kinds}:
            aligned = self._sweeps.destaggered(images)
            data["lidar.png"] = encode_picture(".png", aligned["rng"], _PNG)
            if "lidar.jpeg" in self.kinds:
                data["lidar.jpeg"] = encode_picture(".jpeg", aligned["rfl"], (cv2.IMWRITE_JPEG_QUALITY, 95))
        return data

    def rows(self, classes: list[str]) -> Iterator[dict[str, Any]]:
        """The rows of the table, in order."""
        angles = from_matrix(self._sweeps.poses.rot[self.chosen]).as_euler("ZYX", degrees=True)
        for number, group, pose in zip(self.chosen.tolist(), self._groups, map(tuple, angles.tolist()), strict=True):
            sample = {"name": self.name, "frame": number, "group": group, "size": self.size, "pose": pose}
            sample |= {"timestamp": float(self._sweeps.ts[number])}
            yield from [sample | box for box in self._boxes(number, classes)] or [sample]

    def _boxes(self, number: int, classes: list[str]) -> Iterator[dict[str, Any]]:
        """The columns of each object of a sample."""
        if self.objects is None or number >= len(self.objects.valid):
            return
        up, level = self.objects.up, levelling(self.objects.up)
        boxes = self.objects.read(number, number + 1, self.objects.ts).levelled(up, level)
        picture = int(self._picture_of[number])
        lidar = self._sweeps.poses.select(number).rotated(level)
        around = enclosing(boxes, lidar)
        flat = np.full((len(around), 4), np.nan)
        if self._lens is not None and self._camera_poses is not None:
            camera = self._camera_poses.select(picture).rotated(level)
            if np.isfinite(camera.pos).all():
                later = float(self._picture_later[number])
                flat = in_picture(boxes.moved(later), self._lens, camera)
        for at in range(len(around)):
            label = self.objects.classes[int(np.argmax(boxes.probability[at]))]
            yield {
                "object_id": layout.track_id(self.recording.name, int(boxes.track[at])),
                "label": label,
                "label_index": classes.index(label),
                "box2d": _relative(flat[at], self.size),
                "box3d": tuple(around[at].tolist()),
            }

    def describe(self) -> dict[str, Any]:
        """What a reader must know of the files of this sequence."""
        mounts = {
            name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist(), "from": mount.source}
            for name in ("camera", "radar")
            for mount in [self.recording.mount(name)]
        }
        return {
            "recording": self.recording.name,
            "extrinsics, lidar from sensor, front-left-up, m": mounts,
            "camera": None if self._lens is None else self._lens.describe(),
            "depth": "mm along the camera's axis, 0 = none; the picture's field of view at another size",
            "lidar": "png: mm, 0 = none; pcd: m at the sweep's time stamp, intensity = reflectivity 0 to 255"
            if not self._sweeps.has_points
            else "pcd: m at the sweep's time stamp, intensity = 0 to 255, the full intensity of lidar.json",
            "radar": None if self._radar is None else self._radar.describe(),
            "pose": "yaw, pitch, roll, degrees, intrinsic z-y-x, of the lidar in the world of the recording's odometry",
            "box3d": "centre and extents of the smallest box along the lidar's axes, m",
        }


def _relative(box: np.ndarray, size: tuple[int, int]) -> tuple[float, ...] | None:
    """Centre and size of a box, from 0 to 1; None where there is none. `box`: left, top, right, bottom, pixels."""
    if not np.isfinite(box).all():
        return None
    left, top, right, bottom = box / np.array([*size, *size])
    return ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)


def _archive(container: Path, path: Path) -> Path:
    """A ZIP (ZIP64 where it has to be) of a folder: stored, because its files are compressed; in the order of names."""
    listed = sorted(each for each in container.rglob("*") if each.is_file())
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        progress("archive", len(listed), "file") as advance,
    ):
        for each in listed:
            entry = zipfile.ZipInfo(each.relative_to(container).as_posix(), _ZIP_TIME)
            entry.external_attr = 0o644 << 16
            with opened_file(each) as source:
                archive.writestr(entry, source.read())
            advance(1)
    return path
