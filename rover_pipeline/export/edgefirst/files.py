"""Files of EdgeFirst samples: pictures with EXIF, PNGs and point clouds, as bytes."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import cv2
import numpy as np
from PIL import Image
from PIL.ExifTags import IFD, Base

from rover_pipeline.mapping.grid import encoded

#: PNGs of noise hardly get smaller by more than the fastest compression.
_PNG = (cv2.IMWRITE_PNG_COMPRESSION, 1)
#: Marker of a Huffman table. Some cameras leave the standard one out of the JPEGs of a video.
_DHT = b"\xff\xc4"


def png16(image: np.ndarray) -> bytes:
    """A greyscale PNG of u2 (height, width). PNG stores the larger byte first, OpenCV sees to that."""
    return encoded(".png", image, _PNG)


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


def pcd(fields: dict[str, np.ndarray]) -> bytes:
    """A binary PCD 0.7 of f4 fields, little endian, (N,) each; points that are not finite are left out."""
    table = np.column_stack(list(fields.values())).astype("<f4")
    table = table[np.isfinite(table).all(1)]
    count = len(table)
    header = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(fields)}",
        f"SIZE {' '.join('4' for _ in fields)}",
        f"TYPE {' '.join('F' for _ in fields)}",
        f"COUNT {' '.join('1' for _ in fields)}",
        f"WIDTH {count}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {count}",
        "DATA binary",
    ]
    return ("\n".join(header) + "\n").encode() + table.tobytes()
