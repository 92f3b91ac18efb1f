"""Options of the section `camera`. The Snakefile reads this module, so it imports neither NumPy nor OpenCV."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from rover_pipeline.errors import FormatError, describe
from rover_pipeline.format.files import opened_file
from rover_pipeline.options import Options


class LensOptions(Options):
    """The model of the lens, for whatever reads `camera.json`."""

    lens: Literal["fisheye", "brown"] | None = Field(
        None,
        description="Model of the lens that k and p of camera.json are of: `fisheye` = OpenCV's, of Kannala and "
        "Brandt, `brown` = Brown's radial and tangential distortion. null = the one that camera.json names in a key "
        "`model` (or `camera_model`, `distortion_model`); without a name, fisheye for four k without p, as in the "
        "published recordings, and else brown. Four zeros are taken for a pinhole, with a warning. A contradiction is "
        "an error.",
    )


class FramesSection(Options):
    """Pictures at another size (`_camera_frames`)."""

    width: int | None = Field(480, ge=1, le=16384, description="Width, pixels; null = in proportion to `height`.")
    height: int | None = Field(
        270, ge=1, le=16384, description="Height, pixels; null = in proportion to `width`. Nothing is cropped."
    )
    format: Literal["raw", "jpg", "mjpg"] = Field(
        "raw",
        description="raw = uncompressed, fastest to read; jpg = a folder of JPEGs; mjpg = a video of JPEGs. JPEG "
        "quality is 95.",
    )
    undistort: bool = Field(
        False,
        description="Remove the distortion of the lens given by camera.json (`camera.lens`; the k[3] of brown "
        "multiplies r^8). Focal lengths stay, so the picture of a fisheye loses its rim. Pixels outside of the "
        "camera's view are black.",
    )

    def size(self, width: int, height: int) -> tuple[int, int]:
        """(width, height) of the result for pictures of a given size, pixels."""
        if self.width and self.height:
            return self.width, self.height
        if self.width:
            return self.width, max(1, round(self.width * height / width))
        if self.height:
            return max(1, round(self.height * width / height)), self.height
        return width, height


class ModelOptions(Options):
    """Your own model, applied to `_camera_frames` (`_camera_model`, extra `model`)."""

    path: str | None = Field(
        None,
        description="ONNX file of a model from one picture to labels or a picture; null = no `_camera_model`.",
    )
    digest: str | None = Field(
        None, description="BLAKE2b digest of that file, filled in; give it to accept only one version of the model."
    )
    layout: Literal["nchw", "nhwc"] = Field(
        "nchw", description="Axes of the model's input and output: n = 1 picture, c = colours or classes."
    )
    input: Literal["unit", "counts"] = Field(
        "unit",
        description="Range of the model's RGB values, of an output picture too: unit = 0 to 1, counts = 0 to 255.",
    )
    mean: tuple[float, float, float] = Field(
        (0.0, 0.0, 0.0), description="Means that are subtracted from the red, green and blue values."
    )
    std: tuple[float, float, float] = Field((1.0, 1.0, 1.0), description="Divisors of the values, after the mean.")
    output: Literal["labels", "image"] = Field(
        "labels",
        description="labels = classes as integers, or a score for each class, from which the class of the highest "
        "score is taken; image = an RGB picture.",
    )
    classes: tuple[str, ...] = Field(
        (), description="Names of the labels 0, 1, ...; written to classes.json beside the result."
    )

    @model_validator(mode="before")
    @classmethod
    def _digested(cls, values: Any) -> Any:
        """Fill in the digest of the file: with a changed model the options differ, so results are computed again."""
        if not isinstance(values, Mapping) or not isinstance(path := values.get("path"), str):
            return values
        path = os.path.abspath(os.path.expanduser(path))
        try:
            with opened_file(Path(path)) as file:
                digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        except (OSError, FormatError) as error:
            raise ValueError(describe(error)) from error
        if values.get("digest") not in (None, "", digest):
            raise ValueError(f"{path}: has the digest {digest}, not {values['digest']}: it is another model")
        return {**values, "path": path, "digest": digest}

    @model_validator(mode="after")
    def _divisible(self) -> ModelOptions:
        if not all(self.std):
            raise ValueError("camera.model.std: must not be zero")
        return self


class FramesOptions(LensOptions, FramesSection):
    """Options of the step `_camera_frames`."""


class CameraOptions(LensOptions):
    """Camera processing."""

    frames: FramesSection = FramesSection()
    model: ModelOptions = ModelOptions()
