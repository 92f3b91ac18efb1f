"""Point clouds as PLY files."""

from __future__ import annotations

import io

import numpy as np
from plyfile import PlyData, PlyElement


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
