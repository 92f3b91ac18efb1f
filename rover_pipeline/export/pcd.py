"""Lidar points as PCD files, written by pypcd4."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.points import Points, write_points


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write binary PCD 0.7: a point for each return, with `intensity` and the lidar's other channels."""
    try:
        import pypcd4  # noqa: F401 - fails here when it is missing, before the first sweep is read
    except ImportError as error:
        raise MissingExtraError("export pcd", "pcd") from error
    write_points(trace, out, options, ".pcd", _write_file)


def _write_file(path: Path, points: Points, comments: tuple[str, ...]) -> None:
    from pypcd4 import Encoding, PointCloud

    columns = [*points.xyz.astype(np.float32).T, *points.fields.values()]
    names = ["x", "y", "z", *points.fields]
    types = [column.dtype.newbyteorder("=").type for column in columns]
    # pypcd4 cannot write comments into the header.
    PointCloud.from_points(columns, names, types).save(path, encoding=Encoding.BINARY)
