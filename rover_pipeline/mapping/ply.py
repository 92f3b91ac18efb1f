"""Point clouds as PLY files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement

from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import opened_file


def ply(xyz: np.ndarray, comments: tuple[str, ...] = (), **properties: np.ndarray) -> bytes:
    """A binary little-endian PLY of points.

    Args:
        xyz: (N, 3), m; stored as f4.
        comments: lines of its header.
        properties: further values of the points, (N,) each, stored in their own types.
    """
    columns = dict(zip("xyz", xyz.T.astype("f4"), strict=True)) | properties
    types = [(name, values.dtype) for name, values in columns.items()]
    vertices = np.rec.fromarrays(columns.values(), types)
    file = io.BytesIO()
    PlyData([PlyElement.describe(vertices, "vertex")], byte_order="<", comments=list(comments)).write(file)
    return file.getvalue()


def read_ply(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The points of a PLY, (N, 3), m, in the type that they are stored in, and their further values by name, (N,).

    Raises:
        OSError: it cannot be read.
        FormatError: it is no cloud of points.
    """
    with opened_file(path) as file:
        try:
            vertices = PlyData.read(file)["vertex"].data
            fields = {name: np.asarray(vertices[name]) for name in vertices.dtype.names}
            return np.stack([fields.pop(axis) for axis in "xyz"], -1), fields
        except OSError:
            raise
        except Exception as error:  # plyfile raises whatever a damaged header leads to
            raise FormatError(f"{path}: is no cloud of points: {type(error).__name__} {error}") from error
