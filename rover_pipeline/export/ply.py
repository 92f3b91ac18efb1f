"""Lidar points as PLY files."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.export import ExportOptions
from rover_pipeline.export.points import Points, write_points
from rover_pipeline.mapping.ply import ply


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write binary little-endian PLY: a vertex for each return, with `intensity` and the lidar's other channels."""
    write_points(trace, out, options, ".ply", _write_file)


def _write_file(path: Path, points: Points, comments: tuple[str, ...]) -> None:
    path.write_bytes(ply(points.xyz, comments, **points.fields))
