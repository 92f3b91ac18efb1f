"""Virtual sensors made from the camera."""

from __future__ import annotations

import json

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.model import load
from rover_pipeline.camera.options import FramesOptions, ModelOptions
from rover_pipeline.camera.pictures import resize, undistort
from rover_pipeline.engine.step import Inspection
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.channels.jpeg import FACTORS, reduced
from rover_pipeline.format.channels.pictures import PictureChannel

_Shapes = dict[str, tuple[int, ...]]


def smaller(video: Channel, *, options: FramesOptions) -> Channel:
    """The video with pictures decoded at the least size that is not below that of the result."""
    if not isinstance(video, PictureChannel):
        return video
    width, height = options.size(video.spec.shape[1], video.spec.shape[0])
    fitting = [factor for factor in FACTORS if reduced(video.spec.shape, factor) >= (height, 0)]
    fitting = [factor for factor in fitting if reduced(video.spec.shape, factor)[1] >= width]
    return video.reduced(max(fitting, default=1))


def inspect_lens(
    video: np.ndarray, *, options: FramesOptions, shapes: _Shapes, camera: str | None = None
) -> Inspection:
    """The intrinsics of the resized pictures, beside them."""
    if camera is None:
        return Inspection({})
    lens = _lens(camera, shapes["video"])
    if options.undistort:
        lens = lens.undistorted()
    warnings = []
    if lens.is_distorted:
        warnings.append("pictures keep the distortion of their lens; straighten them by camera.frames.undistort: true")
    text = json.dumps(lens.resized(*options.size(lens.width, lens.height)).describe(), indent=2) + "\n"
    return Inspection({}, warnings, {"camera.json": text})


def frames(video: np.ndarray, *, options: FramesOptions, shapes: _Shapes, camera: str | None = None) -> np.ndarray:
    """Pictures at another size, whole.

    Args:
        video: u1 RGB, (frame, height, width, 3).
        shapes: of the pictures as they are stored.
        camera: `camera.json`, the lens.

    Returns:
        u1 RGB, (frame, height, width, 3).
    """
    stored = shapes["video"]
    width, height = options.size(stored[1], stored[0])
    if not options.undistort:
        return np.stack([resize(picture, width, height) for picture in video])
    if camera is None:
        raise ValueError("camera.frames.undistort needs the lens: camera/camera.json is not there")
    lens = _lens(camera, stored).resized(video.shape[2], video.shape[1])
    return np.stack([resize(undistort(picture, lens), width, height) for picture in video])


def inspect_model(image: np.ndarray, *, options: ModelOptions) -> Inspection:
    """What the labels mean, beside them."""
    files = {"classes.json": json.dumps(list(options.classes), indent=2) + "\n"} if options.classes else {}
    return Inspection({}, (), files)


def model(image: np.ndarray, *, options: ModelOptions) -> dict[str, np.ndarray]:
    """A model of the user's on each picture.

    Args:
        image: u1 RGB, (frame, height, width, 3).

    Returns:
        `labels` u1 (frame, height, width) or `image` u1 RGB (frame, height, width, 3), as the options say, at the size
        the model gives.
    """
    run = load(options)
    return {options.output: np.stack([run(picture) for picture in image])}


def _lens(camera: str, shape: tuple[int, ...]) -> Lens:

    return Lens.parse(camera, shape[1], shape[0])
