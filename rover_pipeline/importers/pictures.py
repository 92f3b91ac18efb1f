"""Pictures as the sensor `camera`: files that are JPEG are stored as they are, others are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from imagecodecs import png_decode

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, naming
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.channels.jpeg import decode, frame_size, png_size
from rover_pipeline.format.files import read_bounded, replace_file
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec
from rover_pipeline.format.sensor import SensorWriter
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.origin import named, write_config
from rover_pipeline.importers.times import files_of, given_text, times_of_files

#: Files of pictures that OpenCV decodes.
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".webp")
_MAX_BYTES = 1 << 28  # Schedule.


def import_pictures(
    folder: Path,
    out: Path,
    *,
    times: Path | None = None,
    rate: float | None = None,
    start: float | None = None,
    intrinsics: Path | None = None,
    name: str | None = None,
) -> int:
    """Write a camera of the trace `out` from a folder of pictures, and return their number.

    The arguments are those of the command, as `table.py` describes them. Raises FormatError where a picture cannot be
    read or has another size, there are none, or the intrinsics are not theirs, and ConfigError where the name is none
    of a camera.
    """
    camera = named(name, "camera")
    files = picture_files(folder)
    stamps, source, _, warned = times_of_files(files, times, rate, start)
    beside = folder / "camera.json"
    intrinsics = intrinsics or (beside if beside.is_file() else None)
    with imported_trace(out) as trace:
        height, width = write_pictures(trace / camera, files, stamps)
        notes = [f"times of pictures are by {source}", *warned]
        if intrinsics is None:
            notes.append("nothing gives the intrinsics of the camera (--intrinsics camera.json)")
        else:
            _write_intrinsics(trace / camera, intrinsics, width, height)
        write_config(
            trace,
            {camera: {"type": "camera", "args": {"width": width, "height": height}}},
            command="import pictures",
            sources=[folder, *(each for each in (times, intrinsics) if each)],
            options={name: value for name, value in (("rate", rate), ("start", start)) if value},
            notes=notes,
            said_of=folder,
        )
    return len(files)


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of their names. Raises FormatError where there are none."""
    return files_of(folder, SUFFIXES, "pictures")


def write_pictures(camera: Path, files: Sequence[Path], stamps: np.ndarray) -> tuple[int, int]:
    """Write the sensor `camera`, a sample for each file, and return height and width of the pictures.

    `stamps`: f8 (file,), s, increasing. Raises FormatError where a picture cannot be read, or has another size than the
    first one.
    """
    encoded = (picture for _, picture in worked_ahead(read_jpeg, files))
    with progress(f"import pictures {files[0].parent.name}", len(files), "picture") as advance:
        first, shape = next(encoded)
        video = ChannelSpec(format="mjpg", type="u1", shape=(*shape, 3), desc="Pictures, RGB. [row, column, colour]")
        with SensorWriter(camera, {"video.avi": video}) as writer:
            for number, stamp in enumerate(stamps.tolist()):
                data, size = (first, shape) if number == 0 else next(encoded)
                if size != shape:
                    raise FormatError(
                        f"{files[number]}: has {size[1]}x{size[0]} pixels, the pictures before it {shape[1]}x{shape[0]}"
                    )
                writer.append(ts=stamp, **{"video.avi": data})
                advance(1)
    return shape


def read_jpeg(path: Path) -> tuple[bytes, tuple[int, int]]:
    """A picture as a JPEG, of the very bytes of the file if it is one, and its height and width. Raises FormatError
    where the file cannot be read, or is no whole picture."""
    with naming(f"{path}: cannot be read", OSError):
        data = read_bounded(path, _MAX_BYTES, "any picture")
    with naming(f"{path}: is no whole picture", ValueError, RuntimeError, MemoryError, cv2.error, limit=160):
        if data.startswith(b"\xff\xd8"):
            return _whole_jpeg(data)
        picture = _png(data) if data.startswith(b"\x89PNG") else _other(data)
    return encode_sample("mjpg", picture), picture.shape[:2]


def _png(data: bytes) -> np.ndarray:
    """A PNG as u1 RGB, (height, width, 3). OpenCV would print its damage, and fill what is missing. Raises ValueError
    or RuntimeError where it is damaged, or larger than any camera's."""
    height, width = png_size(data) or (0, 0)
    if not 0 < 8 * width * height <= 4 * MAX_SAMPLE_BYTES:
        raise ValueError(f"a picture of {width}x{height} pixels is none of a camera")
    image = png_decode(data)
    if image.dtype == np.uint16:
        image = (image >> 8).astype("u1")
    image = image.reshape(*image.shape[:2], -1)
    # One channel is grey, two are grey with transparency, four are colours with transparency.
    return np.ascontiguousarray(np.repeat(image[..., :1], 3, 2) if image.shape[2] < 3 else image[..., :3])


def _other(data: bytes) -> np.ndarray:
    """A picture of another format as u1 RGB, (height, width, 3). Raises ValueError unless it can be decoded."""
    picture = cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_COLOR)
    if picture is None or picture.nbytes > MAX_SAMPLE_BYTES:
        raise ValueError("it cannot be decoded, or is larger than any camera's")
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


def _whole_jpeg(data: bytes) -> tuple[bytes, tuple[int, int]]:
    """A JPEG without what stands after its end, and its height and width. Raises ValueError unless it is whole."""
    end = data.rfind(b"\xff\xd9")
    size = frame_size(data)
    if end < 0 or size is None or 3 * size[0] * size[1] > MAX_SAMPLE_BYTES or min(size) < 1:
        raise ValueError("it has no end, or no size that a camera can have")
    whole = data[: end + 2]
    # An eighth of the size shows all damage that can be seen from the data, at a fraction of the time.
    decode(whole, (*size, 3), 8)
    return whole, size


def _write_intrinsics(camera: Path, path: Path, width: int, height: int) -> None:
    text = given_text(path)
    with naming(path, ValueError):
        read_intrinsics(text, width, height)
    replace_file(camera / "camera.json", text)
