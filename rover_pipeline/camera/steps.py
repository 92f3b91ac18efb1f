"""Virtual sensors made from the camera."""

from __future__ import annotations

import json

import numpy as np

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.camera.model import load
from rover_pipeline.camera.options import FramesOptions, ModelOptions
from rover_pipeline.camera.pictures import resize, undistort
from rover_pipeline.engine.step import Inspection
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.channels.jpeg import FACTORS, PictureChannel, reduced

_Shapes = dict[str, tuple[int, ...]]


def smaller(video: Channel, *, options: FramesOptions) -> Channel:
    """The video with pictures decoded at the smallest size that is not below that of the result."""
    if not isinstance(video, PictureChannel):
        return video
    stored = video.spec.shape
    width, height = options.size(stored[1], stored[0])
    fitting = [each for each in FACTORS if np.all(np.greater_equal(reduced(stored, each)[:2], (height, width)))]
    return video.reduced(max(fitting, default=1))


def inspect_lens(
    video: np.ndarray, *, options: FramesOptions, shapes: _Shapes, camera: str | None = None
) -> Inspection:
    """The intrinsics of the resized pictures, beside them."""
    if camera is None:
        return Inspection({})
    height, width, _ = shapes["video"]
    lens, model_from, doubts = read_intrinsics(camera, width, height, options.lens)
    measured, warnings = {"lens": lens.model, "lens_from": model_from}, [*doubts]
    if options.undistort:
        lens = lens.undistorted()
    if lens.is_distorted:
        warnings.append("pictures keep the distortion of their lens; straighten them by camera.frames.undistort: true")
    text = json.dumps(lens.resized(*options.size(lens.width, lens.height)).describe(), indent=2) + "\n"
    return Inspection(measured, warnings, {"camera.json": text})


def frames(video: np.ndarray, *, options: FramesOptions, shapes: _Shapes, camera: str | None = None) -> np.ndarray:
    """Pictures at another size, whole.

    Args:
        video: u1 RGB, (frame, height, width, 3).
        shapes: of the pictures as they are stored.
        camera: `camera.json`, the lens.

    Returns:
        u1 RGB, (frame, height, width, 3).
    """
    stored_height, stored_width, _ = shapes["video"]
    width, height = options.size(stored_width, stored_height)
    if not options.undistort:
        return np.stack([resize(picture, width, height) for picture in video])
    if camera is None:
        raise ValueError("camera.frames.undistort needs the lens: camera/camera.json is not there")
    recorded = read_intrinsics(camera, stored_width, stored_height, options.lens).lens
    lens = recorded.resized(video.shape[2], video.shape[1])
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
        `labels` u1 (frame, height, width) or `image` u1 RGB (frame, height, width, 3), at the size the model gives.
    """
    run = load(options)
    return {options.output: np.stack([run(picture) for picture in image])}
