"""`meta.json`: the description of every channel of a sensor.

It is one JSON object, channel name -> description. The published reader accepts exactly the keys below and refuses any
other, so nothing private may be added here.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from rover_pipeline.errors import FormatError, did_you_mean, explain, naming, short
from rover_pipeline.format.files import is_plain, replace_file
from rover_pipeline.format.texts import read_json

META = "meta.json"
Format = Literal["raw", "lzma", "lzmaf", "mjpg", "npz", "jpg"]
FORMATS: tuple[str, ...] = get_args(Format)
TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "b1")

# Shapes are checked before memory is allocated for them, because a damaged meta.json must not stop the whole machine.
#: A sweep of 128 x 2048 points has 3 MB, a picture of 40 megapixels 120 MB. Reading takes three times this. Schedule.
MAX_SAMPLE_BYTES = 1 << 27
#: `_sync` has two for each sensor of the rig. Schedule.
MAX_CHANNELS = 1000
#: Older versions of numpy allow 32, and one is for the frames. Layout.
MAX_AXES = 31


class ChannelSpec(BaseModel):
    """Description of one channel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format  #: how samples are stored, one of `FORMATS`.
    type: str  #: numpy size-in-bytes code; data is little endian.
    shape: tuple[int, ...]  #: shape of one sample; empty for scalars.
    desc: str | None = None  #: free text that lists the axes.
    description: str | None = None  #: another spelling of `desc`, which real files have too.
    args: dict[str, Any] | None = None  #: keyword arguments for the published reader's channel constructor.

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        if value not in TYPES:
            raise ValueError(f"unknown type; known: {', '.join(TYPES)}")
        return value

    @field_validator("shape")
    @classmethod
    def _positive_shape(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 for size in value):
            raise ValueError("every size must be at least 1")
        if len(value) > MAX_AXES:
            raise ValueError(f"no more than {MAX_AXES} axes")
        return value

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.type).newbyteorder("<")

    @property
    def sample_bytes(self) -> int:
        """Bytes of one decoded sample."""
        return math.prod(self.shape) * int(self.type[1:])


def raw(type: str, shape: tuple[int, ...], desc: str) -> ChannelSpec:
    """A channel that is stored as it is."""
    return ChannelSpec(format="raw", type=type, shape=shape, desc=desc)


def spec_for(array: np.ndarray, desc: str, format: Format) -> ChannelSpec:
    """Description of a channel whose samples look like those of `array`, (frame, ...)."""
    type = f"{array.dtype.kind}{array.dtype.itemsize}"
    return ChannelSpec(format=format, type=type, shape=array.shape[1:], desc=desc)


def read_meta(sensor: Path) -> dict[str, ChannelSpec]:
    """Channel descriptions of the sensor in directory `sensor`. Raises FormatError where the file is missing,
    unreadable, not a JSON object, names a channel outside the sensor's directory, or describes an impossible one."""
    path = str(sensor / META)
    with naming(f"{path}: cannot be read", FileNotFoundError):
        content = read_json(sensor / META)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: must hold a JSON object, holds a {type(content).__name__}")
    if len(content) > MAX_CHANNELS:
        raise FormatError(f"{path}: lists {len(content):,} channels, more than the {MAX_CHANNELS} of any sensor")
    return {name: _parse(path, name, entry) for name, entry in content.items()}


def write_meta(sensor: Path, specs: dict[str, ChannelSpec]) -> None:
    """Write `meta.json` with one rename, so that a reader sees the old file, the new one, or none."""
    text = json.dumps({name: spec.model_dump(exclude_none=True) for name, spec in specs.items()}, indent=4)
    replace_file(sensor / META, text + "\n")


def _parse(path: str, name: str, entry: object) -> ChannelSpec:
    if name in (".", "..", META) or "/" in name or "\\" in name:
        raise FormatError(f"{path}: channel name {short(name)} leaves the sensor's directory or is reserved")
    if not is_plain(name):
        raise FormatError(f"{path}: channel name {short(name)} cannot be the name of a file")
    if not isinstance(entry, dict):
        raise FormatError(f"{path}: channel {name!r} must be an object, is a {type(entry).__name__}")
    given = entry.get("format")
    if given not in FORMATS:
        raise FormatError(
            f"{path}: channel {name!r} has unknown format {short(given)}; {did_you_mean(str(given), FORMATS)}"
        )
    try:
        spec = ChannelSpec.model_validate(entry)
    except ValidationError as error:
        raise FormatError(f"{path}: channel {name!r}: {explain(error)}") from error
    if spec.sample_bytes > MAX_SAMPLE_BYTES:
        raise FormatError(
            f"{path}: channel {name!r}: shape {list(spec.shape)} of {spec.type} claims {spec.sample_bytes:,} bytes "
            f"a sample, more than the {MAX_SAMPLE_BYTES:,} any sensor makes; correct the shape"
        )
    return spec
