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
    types = [(axis, "<f4") for axis in "xyz"]
    types += [(name, values.dtype.newbyteorder("<").str) for name, values in properties.items()]
    vertices = np.empty(len(xyz), types)
    for n, axis in enumerate("xyz"):
        vertices[axis] = xyz[:, n]
    for name, values in properties.items():
        vertices[name] = values
    element = PlyElement.describe(vertices, "vertex")
    file = io.BytesIO()
    PlyData([element], byte_order="<", comments=list(comments)).write(file)
    return file.getvalue()
