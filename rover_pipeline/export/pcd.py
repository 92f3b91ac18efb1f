"""Lidar points as PCD files, by pypcd4."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.points import Points, write_points


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Binary PCD 0.7, a point a return, with `intensity` and the other fields of the lidar."""
    try:
        import pypcd4  # noqa: F401 - before the first sweep is read
    except ImportError as error:
        raise MissingExtraError("export pcd", "pcd") from error
    write_points(trace, out, options, ".pcd", _write)


def _write(path: Path, points: Points, remarks: tuple[str, ...]) -> None:
    from pypcd4 import Encoding, PointCloud

    columns = [*points.xyz.astype(np.float32).T, *points.fields.values()]
    names = ["x", "y", "z", *points.fields]
    types = [column.dtype.newbyteorder("=").type for column in columns]
    # The header of a PCD has no place for remarks that pypcd4 would write.
    PointCloud.from_points(columns, names, types).save(path, encoding=Encoding.BINARY)
