"""Pictures with poses, as nerfstudio's data parser reads them.

    transforms.json     lens, poses, splits and the name of the seed cloud
    images/000123.jpeg  pictures, called by their number in the recording; of a further camera images/CAMERA_000123.jpeg
    masks/mask.png      0 where an undistorted picture holds nothing, if there is such a place; masks/CAMERA_mask.png
    seed.ply            points of the map, with grey from their reflectivity as colour

Poses take a camera with the axes right-up-back (OpenGL) to the world of `_odom`, turned so that z is up, in metres. The
principal point is measured from the corner of the picture, as in COLMAP: our (0, 0) is the middle of the first pixel,
which is (0.5, 0.5) there (nerfstudio, Data conventions, and `Cameras.get_image_coords`). Several recordings have a
folder each, because each has a world of its own. The lens of one camera is that of the file; with several each frame
has its own, and the file has only the model, because the parser takes what the file has for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.camera.pictures import encode_picture, undistort
from rover_pipeline.datasets.options import NerfstudioOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.errors import FormatError, naming
from rover_pipeline.export.contents import Json
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.objects import world_up
from rover_pipeline.export.pictures import Cloud, Picture
from rover_pipeline.export.points import read_map
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.channels.jpeg import PictureChannel, encode
from rover_pipeline.format.files import below
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import read_sensor_poses

#: Its columns are the axes of an OpenGL camera, right, up and back, in front-left-up. Layout.
FLU_FROM_OPENGL = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
_LENS = ("fl_x", "fl_y", "cx", "cy", "w", "h")
#: The lists of the splits: nerfstudio wants all three or none.
_LISTS = ("train_filenames", "val_filenames", "test_filenames")


class _Transforms(Json):
    """A lens and frames with poses."""

    def decode(self, data: bytes) -> dict[str, Any]:
        content = super().decode(data)
        with naming("is no list of frames with poses and a lens", KeyError, TypeError, ValueError, made=ValueError):
            names = [str(frame["file_path"]) for frame in content["frames"]]
            poses = np.array([frame["transform_matrix"] for frame in content["frames"]], "f8")
            lenses = [{**content, **frame} for frame in content["frames"]]
            lens = np.array([[each[key] for key in _LENS] for each in lenses], "f8").reshape(-1, len(_LENS))
        if poses.shape != (len(names), 4, 4) or not len(names):
            raise ValueError("must have a 4x4 transform_matrix for each of at least one frame")
        return {**content, "names": names, "poses": poses, "lens": lens}


#: The files of a dataset. Layout.
LAYOUT = Layout(
    transforms=File(
        "[{recording}/]transforms.json",
        _Transforms("frames", indent=1),
        {
            "camera_model must be OPENCV, OPENCV_FISHEYE or PINHOLE": lambda content: (
                content.get("camera_model") in ("OPENCV", "OPENCV_FISHEYE", "PINHOLE")
            ),
            "the lens has numbers that are not finite, or no focal length": lambda content: (
                np.isfinite(content["lens"]).all() and content["lens"][:, :2].min() > 0
            ),
            "the principal point is outside of the picture": lambda content: (
                (content["lens"][:, 2:4] > 0).all() and (content["lens"][:, 2:4] < content["lens"][:, 4:]).all()
            ),
            "the pose of frame {at} is no rotation with a position": lambda content: (
                (obliqueness(content["poses"][:, :3, :3]) <= 1e-5) & np.isfinite(content["poses"]).all((1, 2))
            ),
            "most cameras are upside down: are the poses those of an OpenGL camera, right-up-back?": lambda content: (
                not np.median(content["poses"][:, 2, 1]) < 0
            ),
            "the lists of the splits name what is no frame": lambda content: (
                {name for key in _LISTS for name in content.get(key, [])} <= {*content["names"]}
            ),
            "a frame is in train_filenames and in another list": lambda content: {
                *content.get(_LISTS[0], [])
            }.isdisjoint(name for key in _LISTS[1:] for name in content.get(key, [])),
        },
        keep=lambda content: content,
    ),
    pictures=File(
        "[{recording}/]images/[{camera}_]{number:06d}.jpeg",
        Picture(cv2.IMREAD_REDUCED_GRAYSCALE_8),
        optional=True,
        keep=lambda picture: picture.shape,
    ),
    mask=File("[{recording}/]masks/[{camera}_]mask.png", Picture(), optional=True),
    seed=File(
        "[{recording}/]seed.ply",
        Cloud(),
        {"has no colours, which nerfstudio needs": lambda cloud: {"red", "green", "blue"} <= set(cloud[1])},
        optional=True,
        keep=lambda cloud: np.median(cloud[0], 0) if len(cloud[0]) else None,
    ),
)


def write(job: ExportJob) -> None:
    """Write a scene for each recording."""
    scenes = [_cameras(recording, job) for recording in job.recordings]
    splits = iter(job.split([camera.course() for cameras in scenes for camera in cameras]))
    for recording, cameras in zip(job.recordings, scenes, strict=True):
        _write_scene(job, recording, cameras, np.concatenate([next(splits) for _ in cameras]))


class _Camera:
    """A camera of a recording, with the `key` of its files, None of the main one, the `model` of its lens, and a
    `mask`, u1 (row, column), 255 where a picture holds something."""

    def __init__(self, view: Recording, job: ExportJob, is_main: bool) -> None:
        options: NerfstudioOptions = job.options
        self._view, self._job, self._undistort = view, job, options.undistort
        self.key = None if is_main else view.called("camera")
        self._keys = {"recording": job.key(view), "camera": self.key}
        self._prefix = f"{self.key}_" if self.key else ""
        self._recorded_lens = view.lens()
        self._lens = self._recorded_lens.undistorted() if options.undistort else self._recorded_lens
        self._camera = view.sensor("camera", "video.avi")
        self._pictures = self._camera.channel("video.avi")
        self._ts, self._poses, valid = read_sensor_poses(view.folder("_camera_pose"))
        self._level = levelling(world_up(view.path))
        count = min(len(self._ts), self._camera.length(truncate=True, channels=("video.avi",)))
        good = self._camera.valid(count).astype(bool) & (valid & self._poses.finite)[:count]
        self._chosen = np.flatnonzero(good & (np.arange(count) % options.every == 0))
        if not len(self._chosen):
            raise FormatError(
                f"{view.path}: no valid pose in {view.called('_camera_pose')} for its {counted(count, 'picture')}, or "
                "every is too large"
            )
        lens = self._lens
        white = np.full((lens.height, lens.width, 3), 255, "u1")
        self.mask = (undistort(white, self._recorded_lens) if options.undistort else white)[..., 0]
        self.model = "OPENCV_FISHEYE" if lens.is_fisheye else "OPENCV" if lens.is_distorted else "PINHOLE"

    def course(self) -> Course:
        """The pictures that are to be split."""
        return Course(self._view.name, self._ts[self._chosen], self._poses.pos[self._chosen])

    def write(self, masked: bool) -> list[dict[str, Any]]:
        """Write pictures and, if wanted, the mask. Returns the frames."""
        part = " ".join(filter(None, (self._view.name, self.key)))
        self._job.in_parts(part, self._chosen.tolist(), self._write_picture, "picture")
        rot, pos = self._poses.select(self._chosen).rotated(self._level)
        poses = Poses(matmul(rot, FLU_FROM_OPENGL), pos).matrices.tolist()
        frames = [
            {"file_path": f"images/{self._prefix}{at:06d}.jpeg", "transform_matrix": pose, "timestamp": time}
            for at, pose, time in zip(self._chosen.tolist(), poses, self._ts[self._chosen].tolist(), strict=True)
        ]
        if masked:
            # A pixel that is mixed with black at the rim holds no colour of the world.
            mask = encode_picture(".png", np.where(self.mask == 255, self.mask, 0).astype("u1"))
            self._job.save("mask", mask, **self._keys)
            frames = [{**frame, "mask_path": f"masks/{self._prefix}mask.png"} for frame in frames]
        return frames

    def _write_picture(self, number: int) -> list[Path]:
        """The recorded JPEG itself, unless it has to be undistorted."""
        if isinstance(self._pictures, PictureChannel) and not self._undistort:
            jpeg = self._pictures.jpeg(number)
        else:
            picture = self._pictures.sample(number)
            jpeg = encode(undistort(picture, self._recorded_lens) if self._undistort else picture)
        return [self._job.save("pictures", jpeg, number=number, **self._keys)]

    def describe_lens(self) -> dict[str, Any]:
        """Size and numbers of the lens."""
        lens, model = self._lens, self.model
        if model == "OPENCV" and lens.k[3]:
            self._job.note("the lens has a k4, which splatfacto refuses for OPENCV: use undistort: true for it")
        numbers = {"fl_x": lens.fx, "fl_y": lens.fy, "cx": lens.cx + 0.5, "cy": lens.cy + 0.5}
        numbers |= {f"k{at}": value for at, value in enumerate(lens.k, 1)} if model != "PINHOLE" else {}
        numbers |= {"p1": lens.p[0], "p2": lens.p[1]} if model == "OPENCV" else {}
        return {"w": lens.width, "h": lens.height, **numbers}


def _cameras(recording: Recording, job: ExportJob) -> list[_Camera]:
    """The cameras of a recording, the main one first. All have lenses of one model, for a file has one."""
    found = [_Camera(view, job, view is recording) for view in job.views(recording, "camera")]
    for each in found:
        if each.model != found[0].model:
            job.note(
                f"{recording.path}: {each.key} is not in the dataset, which has one model of lenses: it has "
                f"{each.model}, the main camera {found[0].model}; with undistort: true all have the same"
            )
    return [each for each in found if each.model == found[0].model]


def _write_scene(job: ExportJob, recording: Recording, cameras: list[_Camera], splits: np.ndarray) -> None:
    """Write pictures, masks, seed cloud and `transforms.json`. `splits`: of the pictures of all cameras."""
    masked = any(camera.mask.min() < 255 for camera in cameras)  # the parser wants one of all frames or none
    frames = [camera.write(masked) for camera in cameras]
    lenses = [camera.describe_lens() for camera in cameras]
    content: dict[str, Any] = {"camera_model": cameras[0].model}
    if len(lenses) == 1:
        content |= lenses[0]
    else:
        frames = [[{**each, **lens} for each in part] for part, lens in zip(frames, lenses, strict=True)]
    content |= _split_names([frame["file_path"] for frame in chain(*frames)], splits)
    if job.options.points:
        job.save("seed", _seed(recording, job.options.points), recording=job.key(recording))
        content["ply_file_path"] = "seed.ply"
    job.save("transforms", {**content, "frames": [*chain(*frames)]}, recording=job.key(recording))


def _split_names(names: list[str], splits: np.ndarray) -> dict[str, list[str]]:
    """The lists of the splits. nerfstudio wants all three or none: then it chooses by itself."""
    pairs = list(zip(names, splits.tolist(), strict=True))
    train, validation, test = ([name for name, at in pairs if at == code] for code in range(len(SPLITS)))
    if not train or not (validation or test):
        return {}
    return dict(zip(_LISTS, (train, validation or test, test or validation), strict=True))


def _seed(recording: Recording, points: int) -> tuple[np.ndarray, str, dict[str, np.ndarray]]:
    """Every n-th point of the map. The map has no colours; reflectivity looks as bright as it is."""
    xyz, fields = read_map(recording.path)
    step = max(1, -(-len(xyz) // points))
    xyz = matmul(xyz[::step].astype("f8"), levelling(world_up(recording.path)).T)
    brightness = fields.get("intensity", fields.get("rfl"))
    grey = np.full(len(xyz), 128, "u1")
    if brightness is not None and len(xyz):
        values = brightness[::step].astype("f8")
        grey = np.clip(255 * values / max(float(np.percentile(values, 99)), 1e-6), 0, 255).astype("u1")
    return xyz, "world of _odom, turned so that z is up, m", {"red": grey, "green": grey, "blue": grey}


def describe(folder: Path) -> dict[str, object]:
    """Pictures, lens and splits of each scene."""
    scenes = {}
    for scene in LAYOUT.kept(folder, "transforms")["transforms"]:
        splits = [f"{key.partition('_')[0]} {len(scene.kept[key])}" for key in _LISTS if key in scene.kept]
        parts = (counted(len(scene.kept["frames"]), "picture"), str(scene.kept.get("camera_model")), *splits)
        scenes[scene.path.parent.name] = ", ".join(parts)
    return {"scenes": scenes}


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Pictures that are missing or of another size than `transforms.json` says, and seeds in another world."""
    kept = {each.path: each.kept for name in ("pictures", "seed") for each in found[name]}
    for scene in (each for each in found["transforms"] if each.kept):
        for name, (width, height) in zip(scene.kept["names"], scene.kept["lens"][:, 4:].astype(int), strict=True):
            try:
                target = below(scene.path.parent, name)
                # Others call their pictures as they like.
                shape = kept[target] if target in kept else LAYOUT["pictures"].content.read(target).shape
            except (FormatError, OSError, ValueError) as error:
                yield f"{scene.path}: {name} cannot be read: {error}"
                continue
            if shape is not None and shape != (-(-height // 8), -(-width // 8)):
                yield f"{target}: is not of {width}x{height} pixels, as {scene.path.name} says"
        if name := scene.kept.get("ply_file_path"):
            seed, middle = scene.path.parent / str(name), np.median(scene.kept["poses"][:, :3, 3], 0)
            if seed not in kept and not seed.is_file():
                yield f"{seed}: is missing"
            elif kept.get(seed) is not None and np.abs(kept[seed] - middle).max() > 1000:
                yield f"{seed}: is more than 1 km away from the cameras: is it in another world?"
