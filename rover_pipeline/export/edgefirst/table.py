"""Files of EdgeFirst samples, as bytes, and the Arrow table: a row for each box, and one for a sample without any."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image
from PIL.ExifTags import IFD, Base

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.errors import MissingExtraError
from rover_pipeline.format.files import regular_size

#: Version of the format's text that the table follows. The client reads it, and its `Binary` masks, as it is.
SCHEMA = "2026.04"
#: The names that the splits have here.
GROUPS = ("train", "val", "test")
#: Columns of the table: types by their names in Arrow, `[N]` of them, or one of a few texts. Layout.
COLUMNS = {
    "name": "string",
    "frame": "uint32",
    "object_id": "string",
    "label": "category",
    "label_index": "uint64",
    "group": "category",
    "box2d": "float[4]",
    "box3d": "float[6]",
    "size": "uint32[2]",
    "pose": "float[3]",
    "timestamp": "double",
}
_BATCH = 4096  # Schedule.
#: Names of tracks are made from it and from the recording, so that they are the same in every export.
_TRACKS = uuid.UUID("6f1f5b0e-6a55-4d1e-9a53-0e2f6f1f7d11")
#: PNGs of noise hardly get smaller by more than the fastest compression. Schedule.
_PNG = (cv2.IMWRITE_PNG_COMPRESSION, 1)
#: Marker of a Huffman table. Some cameras leave the standard one out of the JPEGs of a video.
_DHT = b"\xff\xc4"


class Row(NamedTuple):
    """A box, or a sample without one.

    Attributes:
        pose: yaw, pitch, roll of the lidar in the world, degrees.
        box2d: centre and size in the picture, 0 to 1; box3d: centre and extents along x, y and z of the lidar, m.
    """

    name: str
    frame: int
    group: str
    size: tuple[int, int]
    pose: tuple[float, float, float]
    timestamp: float
    object_id: str | None = None
    label: str | None = None
    label_index: int | None = None
    box2d: tuple[float, ...] | None = None
    box3d: tuple[float, ...] | None = None


def track_id(recording: str, track: int) -> str:
    """The name of a track, unique among all datasets."""
    return str(uuid.uuid5(_TRACKS, f"{recording}/{track}"))


def write_table(path: Path, rows: Iterable[Row], classes: Sequence[str], about: Mapping[str, Any]) -> int:
    """Write the table in batches, so that memory stays small. Returns the number of rows.

    Args:
        classes: names of all classes, in the order of `label_index`.
        about: what a reader must know of the files; it goes to the key `rover_pipeline` of the schema.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    pa = arrow()
    labels, groups = pa.array(list(classes), pa.string()), pa.array(GROUPS, pa.string())
    metadata = {
        "schema_version": SCHEMA,
        "labels": json.dumps(list(classes)),
        "category_metadata": json.dumps({name: {"id": number} for number, name in enumerate(classes)}),
        "rover_pipeline": json.dumps(about),
    }
    schema = pa.schema([pa.field(name, _type(kind)) for name, kind in COLUMNS.items()], metadata)
    names = {"label": list(classes), "group": list(GROUPS)}
    position = {column: {name: at for at, name in enumerate(each)} for column, each in names.items()}
    total = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in _batches(rows):
            arrays = []
            for name, kind in COLUMNS.items():
                values = [getattr(row, name) for row in batch]
                if name in position:  # all batches of a file must share a dictionary
                    indices = [None if value is None else position[name][value] for value in values]
                    dictionary = labels if name == "label" else groups
                    arrays.append(pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionary))
                else:
                    arrays.append(pa.array(values, _type(kind)))
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            total += len(batch)
    return total


def _type(text: str) -> Any:
    """The type of Arrow that a text of `COLUMNS` stands for."""
    pa = arrow()
    if text == "category":
        return pa.dictionary(pa.int32(), pa.string())
    name, _, size = text.removesuffix("]").partition("[")
    return pa.list_(pa.type_for_alias(name), int(size)) if size else pa.type_for_alias(name)


def type_text(type: Any) -> str:
    """What a type of Arrow is, in the words of `COLUMNS`."""
    types = arrow().types
    if types.is_dictionary(type):
        return "category"
    if types.is_fixed_size_list(type):
        return f"{type.value_type}[{type.list_size}]"
    return str(type).removeprefix("large_")


def read_table(path: Path) -> Any:
    """The table, by pyarrow. Raises MissingExtraError; pyarrow's errors where it is none."""
    pa = arrow()
    regular_size(path)
    with pa.OSFile(str(path)) as file:  # a mapped file that somebody cuts off would end the process
        return pa.ipc.open_file(file).read_all()


def arrow() -> Any:
    """pyarrow. Raises MissingExtraError when it is not installed."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtraError("export edgefirst", "edgefirst") from error
    return pyarrow


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def png16(image: np.ndarray) -> bytes:
    """A greyscale PNG of u2 (height, width). PNG stores the larger byte first, OpenCV sees to that."""
    return encode_picture(".png", image, _PNG)


def has_huffman_table(jpeg: bytes) -> bool:
    """Whether a JPEG is complete in itself."""
    return _DHT in jpeg[: jpeg.find(b"\xff\xda")]


def with_exif(jpeg: bytes, time: float, description: str) -> bytes:
    """A JPEG with its time in EXIF, in UTC with microseconds. Its picture is not encoded anew.

    (CIPA DC-008, Exif 2.32: APP1 comes right after SOI.)

    Args:
        time: seconds since the epoch.
        description: ASCII.
    """
    when = datetime.fromtimestamp(time, UTC)
    stamp = when.strftime("%Y:%m:%d %H:%M:%S")
    taken = {Base.DateTimeOriginal: stamp, Base.OffsetTimeOriginal: "+00:00"}
    taken[Base.SubsecTimeOriginal] = f"{when.microsecond:06d}"
    exif = Image.Exif()
    exif.endian = "<"
    exif.update({Base.ImageDescription: description, Base.Software: "rover_pipeline", Base.DateTime: stamp})
    exif[IFD.Exif] = taken
    segment = exif.tobytes()
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]
