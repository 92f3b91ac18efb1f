"""Lidar points as PLY files."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.export import ExportOptions
from rover_pipeline.export.points import Points, write_points


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Binary little-endian PLY, a vertex a return, with `intensity` and the other fields of the lidar."""
    write_points(trace, out, options, ".ply", _write)


def _write(path: Path, points: Points, remarks: tuple[str, ...]) -> None:
    from rover_pipeline.mapping.ply import ply

    path.write_bytes(ply(points.xyz, remarks, **points.fields))
