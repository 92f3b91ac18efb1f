"""Section `camera` of the configuration."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from rover_pipeline.options import Options


class FramesOptions(Options):
    """Pictures at another size (`_camera_frames`)."""

    width: int | None = Field(480, ge=1, le=16384, description="Pixels; null = by `height`, in proportion.")
    height: int | None = Field(
        270, ge=1, le=16384, description="Pixels; null = by `width`, in proportion. Nothing is cropped."
    )
    format: Literal["raw", "jpg", "mjpg"] = Field(
        "raw",
        description="raw = fastest to read; jpg = a folder of JPEGs; mjpg = a video. Both of quality 95.",
    )
    undistort: bool = Field(
        False,
        description="Straighten what the lens bends, by k and p of camera.json: OpenCV's model, k[3] times r^8. Pixels "
        "outside the camera's view are black.",
    )

    def size(self, width: int, height: int) -> tuple[int, int]:
        """(width, height) that pictures of a given size get, pixels."""
        if self.width is None and self.height is None:
            return width, height
        if self.width is None:
            assert self.height is not None
            return max(1, round(self.height * width / height)), self.height
        if self.height is None:
            return self.width, max(1, round(self.width * height / width))
        return self.width, self.height


class ModelOptions(Options):
    """A model of your own, run on `_camera_frames` (`_camera_model`, extra `model`)."""

    path: str | None = Field(
        None,
        description="An ONNX file that takes one picture and gives labels or a picture; null = no `_camera_model`.",
    )
    digest: str | None = Field(
        None, description="BLAKE2b of that file. Filled in; give it to insist on one version of the model."
    )
    layout: Literal["nchw", "nhwc"] = Field(
        "nchw", description="Axes of the model's pictures: n = 1 picture, c = colours or classes."
    )
    input: Literal["unit", "counts"] = Field(
        "unit", description="Values the model takes, and gives as a picture: unit = 0 to 1, counts = 0 to 255. RGB."
    )
    mean: tuple[float, float, float] = Field(
        (0.0, 0.0, 0.0), description="Subtracted from the red, green and blue values."
    )
    std: tuple[float, float, float] = Field((1.0, 1.0, 1.0), description="The values are then divided by these.")
    output: Literal["labels", "image"] = Field(
        "labels",
        description="labels = classes as integers, or a score for each class, of which the highest counts; image = an "
        "RGB picture.",
    )
    classes: tuple[str, ...] = Field(
        (), description="Names of the labels 0, 1, ...; kept in classes.json beside the result."
    )

    @model_validator(mode="before")
    @classmethod
    def _digested(cls, values: Any) -> Any:
        """A changed model is another request: what was made with the old one is made again."""
        if not isinstance(values, Mapping) or not isinstance(path := values.get("path"), str):
            return values
        path = os.path.abspath(os.path.expanduser(path))
        try:
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror or error}") from error
        if values.get("digest") not in (None, "", found):
            raise ValueError(f"{path}: has the digest {found}, not {values['digest']}: it is another model")
        return {**values, "path": path, "digest": found}

    @model_validator(mode="after")
    def _divisible(self) -> ModelOptions:
        if not all(self.std):
            raise ValueError("camera.model.std: nothing is divided by zero")
        return self


class CameraOptions(Options):
    """Camera processing."""

    frames: FramesOptions = Field(FramesOptions(), description="Pictures at another size (`_camera_frames`).")
    model: ModelOptions = Field(
        ModelOptions(), description="A model of your own, run on `_camera_frames` (`_camera_model`, extra `model`)."
    )
