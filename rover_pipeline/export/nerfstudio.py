"""Pictures with poses, as nerfstudio's data parser reads them.

    transforms.json     lens, poses, splits and the name of the seed cloud
    images/000123.jpeg  pictures, called by their number in the recording
    masks/mask.png      0 where an undistorted picture holds nothing, if there is such a place
    seed.ply            points of the map, with grey from their reflectivity as colour

Poses take a camera with the axes right-up-back (OpenGL) to the world of `_odom`, front-left-up with z upward, in
metres. The principal point is measured from the corner of the picture, as in COLMAP: our (0, 0) is the middle of the
first pixel, which is (0.5, 0.5) there (nerfstudio, Data conventions, and `Cameras.get_image_coords`). Several
recordings have a folder each, because each has a world of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.pictures import undistort
from rover_pipeline.datasets.options import NerfstudioOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob, Recording
from rover_pipeline.export.points import read_map
from rover_pipeline.format.channels.jpeg import PictureChannel, encode
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES
from rover_pipeline.format.names import below
from rover_pipeline.format.texts import read_json
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.mapping.grid import encoded
from rover_pipeline.mapping.ply import ply, read_ply
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.report.read.rig import camera_lens, whole_sensor

TRANSFORMS = "transforms.json"
#: Its columns are the axes of an OpenGL camera, right, up and back, in front-left-up.
FLU_FROM_OPENGL = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
#: From the middle of a pixel to its corner.
_HALF = 0.5
_PART = 128
_SPLITS = ("train", "val", "test")
_MODELS = ("OPENCV", "OPENCV_FISHEYE", "PINHOLE")


def write(job: ExportJob) -> None:
    """Write a scene for each recording."""
    scenes = [_Scene(recording, job) for recording in job.recordings]
    splits = job.split([scene.course() for scene in scenes])
    for scene, split in zip(scenes, splits, strict=True):
        scene.write(split)


class _Scene:
    """A recording and the folder of its scene."""

    def __init__(self, recording: Recording, job: ExportJob) -> None:
        self._options: NerfstudioOptions = job.options
        self._recording, self._job = recording, job
        self._folder = job.folder / recording.name if len(job.recordings) > 1 else job.folder
        self._recorded_lens = camera_lens(recording.path)
        self._camera = recording.sensor("camera", "video.avi")
        self._pictures = self._camera.channel("video.avi")
        pose = whole_sensor(recording.path / "_camera_pose", "pos", "rot")
        self._ts, self._pos, self._rot = pose["ts"], pose["pos"], pose["rot"]
        count = min(len(self._ts), self._camera.length(truncate=True, channels=("video.avi",)))
        good = self._camera.valid(count).astype(bool) & pose["valid"][:count].astype(bool)
        good &= np.isfinite(self._pos[:count]).all(1) & np.isfinite(self._rot[:count]).all((1, 2))
        self._chosen = np.flatnonzero(good)
        self._chosen = self._chosen[self._chosen % self._options.every == 0]
        if not len(self._chosen):
            raise FormatError(
                f"{recording.path}: none of {count} pictures has a valid pose in _camera_pose, or every is too large"
            )

    def course(self) -> Course:
        """The pictures that are to be split."""
        return Course(self._recording.name, self._ts[self._chosen], self._pos[self._chosen])

    def write(self, splits: np.ndarray) -> None:
        """Write pictures, mask, seed cloud and `transforms.json`."""
        (self._folder / "images").mkdir(parents=True, exist_ok=True)
        self._job.in_parts(self._recording.name, self._chosen.tolist(), self._write_picture, _PART, "picture")
        names = [self._name(number) for number in self._chosen.tolist()]
        frames = [
            {"file_path": name, "transform_matrix": self._matrix(number), "timestamp": float(self._ts[number])}
            for name, number in zip(names, self._chosen.tolist(), strict=True)
        ]
        if mask := self._write_mask():
            frames = [{**frame, "mask_path": mask} for frame in frames]
        content: dict[str, Any] = {**self._describe_lens(), **self._split_names(names, splits)}
        if self._options.points:
            self._write_seed(self._folder / "seed.ply")
            content["ply_file_path"] = "seed.ply"
        text = json.dumps({**content, "frames": frames}, indent=1) + "\n"
        (self._folder / TRANSFORMS).write_text(text, encoding="utf-8")

    @staticmethod
    def _name(number: int) -> str:
        return f"images/{number:06d}.jpeg"

    def _write_picture(self, number: int) -> list[Path]:
        """The recorded JPEG itself, unless it has to be undistorted."""
        path = self._folder / self._name(number)
        if self._options.undistort:
            picture = self._pictures.read(number, number + 1)[0]
            path.write_bytes(encode(undistort(picture, self._recorded_lens)))
        elif isinstance(self._pictures, PictureChannel):
            path.write_bytes(self._pictures.jpeg(number))
        else:
            path.write_bytes(encode(self._pictures.read(number, number + 1)[0]))
        return [path]

    def _matrix(self, number: int) -> list[list[float]]:
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = matmul(self._rot[number], FLU_FROM_OPENGL), self._pos[number]
        return [[float(value) for value in row] for row in matrix]

    @property
    def _lens(self) -> Lens:
        return self._recorded_lens.undistorted() if self._options.undistort else self._recorded_lens

    def _describe_lens(self) -> dict[str, Any]:
        lens = self._lens
        model = "OPENCV_FISHEYE" if lens.is_fisheye else "OPENCV" if lens.is_distorted else "PINHOLE"
        if model == "OPENCV" and lens.k[3]:
            self._job.note("the lens has a k4, which splatfacto refuses for OPENCV: use undistort: true for it")
        numbers = {"fl_x": lens.fx, "fl_y": lens.fy, "cx": lens.cx + _HALF, "cy": lens.cy + _HALF}
        numbers |= {f"k{at}": value for at, value in enumerate(lens.k, 1)} if model != "PINHOLE" else {}
        numbers |= {"p1": lens.p[0], "p2": lens.p[1]} if model == "OPENCV" else {}
        return {"camera_model": model, "w": lens.width, "h": lens.height, **numbers}

    def _split_names(self, names: list[str], splits: np.ndarray) -> dict[str, list[str]]:
        """The lists of the splits. nerfstudio wants all three or none: then it chooses by itself."""
        pairs = list(zip(names, splits.tolist(), strict=True))
        listed = {split: [name for name, at in pairs if at == code] for code, split in enumerate(SPLITS)}
        validation, test = listed["validation"] or listed["test"], listed["test"] or listed["validation"]
        if not listed["train"] or not test:
            return {}
        return {"train_filenames": listed["train"], "val_filenames": validation, "test_filenames": test}

    def _write_mask(self) -> str | None:
        if not self._options.undistort:
            return None
        white = np.full((self._lens.height, self._lens.width, 3), 255, "u1")
        seen = undistort(white, self._recorded_lens)[..., 0]
        if seen.min() == 255:
            return None
        # A pixel that is mixed with black at the rim holds no colour of the world.
        (self._folder / "masks").mkdir(exist_ok=True)
        mask = encoded(".png", np.where(seen == 255, seen, 0).astype("u1"))
        (self._folder / "masks" / "mask.png").write_bytes(mask)
        return "masks/mask.png"

    def _write_seed(self, path: Path) -> None:
        """Every n-th point of the map. The map has no colours; reflectivity looks as bright as it is."""
        points = read_map(self._recording.path)
        step = max(1, -(-len(points.xyz) // self._options.points))
        xyz = points.xyz[::step]
        brightness = points.fields.get("intensity", points.fields.get("rfl"))
        grey = np.full(len(xyz), 128, "u1")
        if brightness is not None and len(xyz):
            values = brightness[::step].astype("f8")
            grey = np.clip(255 * values / max(float(np.percentile(values, 99)), 1e-6), 0, 255).astype("u1")
        path.write_bytes(ply(xyz, ("world of _odom, front-left-up, m",), red=grey, green=grey, blue=grey))


def describe(folder: Path) -> dict[str, object]:
    """Pictures, lens and splits of each scene."""
    scenes = {}
    for path in _scenes(folder):
        content = read_json(path)
        splits = [f"{key} {len(content[f'{key}_filenames'])}" for key in _SPLITS if f"{key}_filenames" in content]
        parts = (f"{len(content['frames'])} pictures", str(content.get("camera_model")), *splits)
        scenes[path.parent.name] = ", ".join(parts)
    return {"scenes": scenes}


def _scenes(folder: Path) -> list[Path]:
    return sorted(folder.glob(TRANSFORMS)) or sorted(folder.glob(f"*/{TRANSFORMS}"))


def problems(folder: Path) -> Iterator[str]:
    """Breaches of what nerfstudio's parser expects, for each scene."""
    paths = _scenes(folder)
    if not paths:
        yield f"{folder}: has no {TRANSFORMS}; export it again"
    for path in paths:
        try:
            content = read_json(path)
            frames = content["frames"]
            names = [str(frame["file_path"]) for frame in frames]
            matrices = np.array([frame["transform_matrix"] for frame in frames], "f8")
            numbers = np.array([content[key] for key in ("fl_x", "fl_y", "cx", "cy", "w", "h")], "f8")
        except (FormatError, KeyError, TypeError, ValueError) as error:
            yield f"{path}: is no list of frames with poses and a lens: {type(error).__name__} {error}; export it again"
            continue
        yield from _content_problems(path, content, names, numbers)
        yield from _pose_problems(path, names, matrices)
        yield from _picture_problems(path, names, int(numbers[4]), int(numbers[5]))
        yield from _seed_problems(path, content, matrices)


def _content_problems(path: Path, content: dict[str, Any], names: list[str], numbers: np.ndarray) -> Iterator[str]:
    if content.get("camera_model") not in _MODELS:
        yield f"{path}: camera_model is {content.get('camera_model')!r}, known are {', '.join(_MODELS)}"
    if not np.isfinite(numbers).all() or numbers[:2].min() <= 0:
        yield f"{path}: the lens has numbers that are not finite, or no focal length"
    elif not (0 < numbers[2] < numbers[4] and 0 < numbers[3] < numbers[5]):
        yield f"{path}: the principal point {numbers[2]:.1f}, {numbers[3]:.1f} is outside of the picture"
    seen: set[str] = set()
    for key in ("train_filenames", "val_filenames", "test_filenames"):
        listed = content.get(key, [])
        if unknown := sorted(set(listed) - set(names)):
            yield f"{path}: {key} names {unknown[0]}, which is no frame"
        if key == "train_filenames":
            seen = set(listed)
        elif both := sorted(seen & set(listed)):
            yield f"{path}: {both[0]} is in train_filenames and in {key}"


def _pose_problems(path: Path, names: list[str], matrices: np.ndarray) -> Iterator[str]:
    if matrices.shape != (len(names), 4, 4) or not len(names):
        yield f"{path}: must have a 4x4 transform_matrix for each of at least one frame"
        return
    rotation = matrices[:, :3, :3]
    bad = np.flatnonzero((obliqueness(rotation) > 1e-5) | ~np.isfinite(matrices).all((1, 2)))
    if len(bad):
        yield f"{path}: the pose of {names[bad[0]]} is no rotation with a position"
    elif np.median(rotation[:, 2, 1]) < 0:
        yield f"{path}: most cameras are upside down: are the poses those of an OpenGL camera, right-up-back?"


def _picture_problems(path: Path, names: list[str], width: int, height: int) -> Iterator[str]:
    for name in names:
        try:
            target = below(path.parent, name)
        except FormatError as error:
            yield f"{path}: {error}"
            continue
        data = np.frombuffer(read_bounded(target, MAX_SAMPLE_BYTES, "any picture") if target.is_file() else b"", "u1")
        picture = cv2.imdecode(data, cv2.IMREAD_REDUCED_GRAYSCALE_8) if len(data) else None
        if picture is None:
            yield f"{target}: is missing or no picture; export it again"
        elif picture.shape != (-(-height // 8), -(-width // 8)):
            yield f"{target}: is not of {width}x{height} pixels, as {TRANSFORMS} says"


def _seed_problems(path: Path, content: dict[str, Any], matrices: np.ndarray) -> Iterator[str]:
    name = content.get("ply_file_path")
    if name is None:
        return
    try:
        xyz, fields = read_ply(below(path.parent, name))
    except (FormatError, OSError) as error:
        yield f"{path.parent / str(name)}: is no cloud of points: {error}; export it again"
        return
    if not {"red", "green", "blue"} <= set(fields):
        yield f"{path.parent / str(name)}: has no colours, which nerfstudio needs"
    positions = matrices[:, :3, 3] if matrices.ndim == 3 else np.zeros((0, 3))
    if len(xyz) and len(positions) and np.abs(np.median(xyz, 0) - np.median(positions, 0)).max() > 1000:
        yield f"{path.parent / str(name)}: is more than 1 km away from the cameras: is it in another world?"
