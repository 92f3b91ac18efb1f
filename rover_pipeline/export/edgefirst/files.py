"""Files of EdgeFirst samples: pictures with EXIF, PNGs and point clouds, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime

import cv2
import numpy as np

#: PNGs of noise hardly get smaller by more than the fastest compression.
_PNG = (cv2.IMWRITE_PNG_COMPRESSION, 1)
#: Marker of a Huffman table. Some cameras leave the standard one out of the JPEGs of a video.
_DHT = b"\xff\xc4"
_ASCII, _LONG = 2, 4


def png16(image: np.ndarray) -> bytes:
    """A greyscale PNG of u2 (height, width). PNG stores the larger byte first, OpenCV sees to that."""
    done, data = cv2.imencode(".png", image, _PNG)
    if not done:
        raise ValueError("OpenCV could not encode the PNG")
    return data.tobytes()


def grey_jpeg(image: np.ndarray) -> bytes:
    """A greyscale JPEG of u1 (height, width)."""
    done, data = cv2.imencode(".jpeg", image, (cv2.IMWRITE_JPEG_QUALITY, 95))
    if not done:
        raise ValueError("OpenCV could not encode the JPEG")
    return data.tobytes()


def has_huffman_table(jpeg: bytes) -> bool:
    """Whether a JPEG is complete in itself."""
    return _DHT in jpeg[: jpeg.find(b"\xff\xda")]


def with_exif(jpeg: bytes, time: float, description: str) -> bytes:
    """A JPEG with its time in EXIF, in UTC with microseconds. Its picture is not encoded anew.

    (CIPA DC-008, Exif 2.32: APP1 comes right after SOI, and holds a TIFF of IFD0 and the Exif IFD.)

    Args:
        time: seconds since the epoch.
        description: ASCII.
    """
    when = datetime.fromtimestamp(time, UTC)
    stamp = when.strftime("%Y:%m:%d %H:%M:%S")
    main = [(0x010E, description), (0x0131, "rover_pipeline"), (0x0132, stamp)]
    exif = [(0x9003, stamp), (0x9011, "+00:00"), (0x9291, f"{when.microsecond:06d}")]
    start = 8 + _ifd_size([*main, (0x8769, "")])
    first = _ifd(main, 8, pointer=(0x8769, start))
    tiff = b"II*\0" + struct.pack("<I", 8) + first + _ifd(exif, start)
    segment = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]


def _ifd_size(entries: Sequence[tuple[int, str]]) -> int:
    """Bytes of a directory with its values behind it."""
    return 2 + 12 * len(entries) + 4 + sum(len(_value(text)) for _, text in entries if text)


def _value(text: str) -> bytes:
    """The bytes of a text behind a directory: padded to an even number, and more than the 4 that are stored inside."""
    data = text.encode("ascii", "replace") + b"\0"
    return data.ljust(5, b"\0") + b"\0" * (max(len(data), 5) % 2)


def _ifd(entries: Sequence[tuple[int, str]], start: int, pointer: tuple[int, int] | None = None) -> bytes:
    """A directory of texts, and of a pointer to another directory, at an offset of the TIFF."""
    count = len(entries) + (pointer is not None)
    offset = start + 2 + 12 * count + 4
    records, values = b"", b""
    for tag, text in entries:
        size = max(len(text.encode("ascii", "replace")) + 1, 5)
        records += struct.pack("<HHII", tag, _ASCII, size, offset + len(values))
        values += _value(text)
    if pointer is not None:
        records += struct.pack("<HHII", pointer[0], _LONG, 1, pointer[1])
    return struct.pack("<H", count) + records + struct.pack("<I", 0) + values


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
