"""Point clouds in the formats of other programs, written by these or by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement
from pypcd4 import Encoding, PointCloud

FIELDS = ("x", "y", "z", "intensity", "ring", "time")


def table(count: int = 300, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of a cloud: what every format can hold."""
    random = np.random.default_rng(seed)
    xyz = random.normal(0, 10, (count, 3)).astype("f4")
    return {
        **dict(zip("xyz", xyz.T, strict=True)),
        "intensity": random.uniform(0, 255, count).astype("f4"),
        "ring": random.integers(0, 64, count).astype("u2"),
        "time": np.linspace(0, 0.1, count).astype("f4"),
    }


def write_bin(path: Path, columns: dict[str, np.ndarray]) -> None:
    np.stack([columns[name].astype("f4") for name in FIELDS], -1).tofile(path)


def write_npz(path: Path, columns: dict[str, np.ndarray]) -> None:
    xyz = np.stack([columns[axis] for axis in "xyz"], -1)
    np.savez(path, xyz=xyz, intensity=columns["intensity"], ring=columns["ring"], time=columns["time"])


def pcd_writer(encoding: Encoding):  # type: ignore[no-untyped-def]
    def write(path: Path, columns: dict[str, np.ndarray]) -> None:
        values = [columns[name] for name in FIELDS]
        cloud = PointCloud.from_points(values, list(FIELDS), [each.dtype.type for each in values])
        cloud.save(path, encoding=encoding)

    return write


def ply_writer(text: bool, order: str = "="):  # type: ignore[no-untyped-def]
    def write(path: Path, columns: dict[str, np.ndarray]) -> None:
        vertices = np.empty(len(columns["x"]), [(name, columns[name].dtype) for name in FIELDS])
        for name in FIELDS:
            vertices[name] = columns[name]
        PlyData([PlyElement.describe(vertices, "vertex")], text=text, byte_order=order).write(str(path))

    return write


#: Name of a format -> suffix and function that writes a file of it.
FORMATS = {
    "bin": (".bin", write_bin),
    "npz": (".npz", write_npz),
    "pcd ascii": (".pcd", pcd_writer(Encoding.ASCII)),
    "pcd binary": (".pcd", pcd_writer(Encoding.BINARY)),
    "pcd compressed": (".pcd", pcd_writer(Encoding.BINARY_COMPRESSED)),
    "ply ascii": (".ply", ply_writer(True)),
    "ply little": (".ply", ply_writer(False, "<")),
    "ply big": (".ply", ply_writer(False, ">")),
}
