"""Pictures and clouds of points as files of datasets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.export.contents import Content
from rover_pipeline.format.channels.jpeg import png_size
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES
from rover_pipeline.mapping.ply import ply, read_ply


class Picture(Content):
    """A JPEG or PNG, written as the bytes that it has already, and read with flags of OpenCV's `IMREAD_`."""

    def __init__(self, flags: int = cv2.IMREAD_UNCHANGED) -> None:
        self._flags = flags

    def decode(self, data: bytes) -> np.ndarray:
        # OpenCV would take the memory that the header of a PNG asks for, before it sees that the pixels are missing.
        height, width = png_size(data) or (0, 0)
        if height * width > MAX_SAMPLE_BYTES:
            raise ValueError(f"is no picture: it claims {width}x{height} pixels")
        picture = cv2.imdecode(np.frombuffer(data, "u1"), self._flags) if data else None
        if picture is None:
            raise ValueError("is no picture")
        return picture


class Cloud(Content):
    """A PLY of points: f4 (N, 3), m, and further values by name, (N,)."""

    def encode(self, value: tuple[np.ndarray, str, dict[str, np.ndarray]]) -> bytes:
        """`value`: points, a comment for the header, and the further values."""
        xyz, comment, fields = value
        return ply(xyz, (comment,), **fields)

    def read(self, path: Path) -> Any:
        return read_ply(path)


class Pcd(Content):
    """A binary PCD 0.7 of f4 fields, little endian. Further fields after those that are named are allowed."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def encode(self, value: Mapping[str, np.ndarray]) -> bytes:
        """`value`: name of each field -> (N,). Points that are not finite are left out."""
        table = np.column_stack(list(value.values())).astype("<f4")
        table = table[np.isfinite(table).all(1)]
        header = [
            "# .PCD v0.7 - Point Cloud Data file format",
            "VERSION 0.7",
            f"FIELDS {' '.join(value)}",
            f"SIZE {' '.join('4' for _ in value)}",
            f"TYPE {' '.join('F' for _ in value)}",
            f"COUNT {' '.join('1' for _ in value)}",
            f"WIDTH {len(table)}",
            "HEIGHT 1",
            "VIEWPOINT 0 0 0 1 0 0 0",
            f"POINTS {len(table)}",
            "DATA binary",
        ]
        return ("\n".join(header) + "\n").encode() + table.tobytes()

    def decode(self, data: bytes) -> dict[str, np.ndarray]:
        header, mark, body = data.partition(b"DATA binary\n")
        lines = dict(line.split(" ", 1) for line in header.decode("ascii", "replace").splitlines() if " " in line)
        fields = tuple(lines.get("FIELDS", "").split())
        is_f4 = {*lines.get("SIZE", "").split()} == {"4"} and {*lines.get("TYPE", "").split()} == {"F"}
        count = int(lines["POINTS"]) if lines.get("POINTS", "").isdigit() else -1
        if not mark or not is_f4 or len(body) != 4 * len(fields) * count:
            raise ValueError("is no binary PCD of f4 fields")
        if fields[: len(self.fields)] != self.fields:
            raise ValueError(f"its fields are {' '.join(fields)}, must begin with {' '.join(self.fields)}")
        table = np.frombuffer(body, "<f4").reshape(-1, len(fields))
        if not np.isfinite(table).all():
            raise ValueError("holds values that are not finite, which readers fail on")
        return dict(zip(fields, table.T, strict=True))
