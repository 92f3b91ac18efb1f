"""Sweeps and maps as point cloud files, read back by plyfile and pypcd4."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ouster.sdk import core
from plyfile import PlyData
from pypcd4 import PointCloud

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.mapping.ply import ply
from tests.kit import small_trace, spec_of, times


def read_ply(path: Path) -> dict[str, np.ndarray]:
    vertices = PlyData.read(str(path))["vertex"].data
    return {name: np.asarray(vertices[name]) for name in vertices.dtype.names}


def read_pcd(path: Path) -> dict[str, np.ndarray]:
    cloud = PointCloud.from_path(path)
    return {name: cloud.pc_data[name] for name in cloud.fields}


READ = {"ply": read_ply, "pcd": read_pcd}
FORMATS = pytest.mark.parametrize("format", READ)


def export_one(format: str, trace: Path, out: Path, **options: object) -> list[Path]:
    assert export(format, [str(trace)], out, ExportOptions(**options)) == [out]  # type: ignore[arg-type]
    return sorted(out.iterdir()) if out.is_dir() else [out]


@FORMATS
def test_sweeps_are_what_the_sdk_projects_from_the_raw_ranges(format: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 5, invalid={"lidar": (1,)})
    files = export_one(format, trace, tmp_path / "out", threads=2)
    assert [file.name for file in files] == [f"{number:06d}.{format}" for number in (0, 2, 3, 4)]
    lidar = Sensor(trace / "lidar")
    rng, rfl, nir = (lidar.channel(name).read()[3] for name in ("rng", "rfl", "nir"))
    info = core.SensorInfo((trace / "lidar" / "lidar.json").read_text())
    hit = (rng > 0) & (rng < 65535)
    expected = core.XYZLut(info)(rng.astype("u4"))[hit]
    cloud = READ[format](files[2])
    np.testing.assert_allclose(np.stack([cloud[axis] for axis in "xyz"], -1), expected, atol=1e-4)
    np.testing.assert_array_equal(cloud["intensity"], rfl[hit])
    np.testing.assert_array_equal(cloud["nir"], nir[hit])


@FORMATS
def test_lidar_points_are_exported_when_the_trace_has_them(format: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 4)
    rng = np.random.default_rng(0)
    xyz, rfl = rng.normal(size=(4, 8, 32, 3)).astype("f4"), rng.integers(0, 256, (4, 8, 32)).astype("u1")
    xyz[:, 2:4] = np.nan
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "xyz": spec_of(xyz), "rfl": spec_of(rfl)}
    with SensorWriter(trace / "_lidar_points", specs) as writer:
        writer.append(**{TS: times(4), VALID: np.array([1, 1, 0, 1], "u1")}, xyz=xyz, rfl=rfl)
    files = export_one(format, trace, tmp_path / "out", every=3)
    assert [file.stem for file in files] == ["000000", "000003"]
    cloud, kept = READ[format](files[1]), [0, 1, 4, 5, 6, 7]
    np.testing.assert_array_equal(np.stack([cloud[axis] for axis in "xyz"], -1), xyz[3, kept].reshape(-1, 3))
    np.testing.assert_array_equal(cloud["intensity"], rfl[3, kept].ravel())


@FORMATS
def test_the_map_becomes_one_file(format: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    xyz, count = np.arange(30, dtype="f4").reshape(10, 3), np.arange(10, dtype="u4")
    (trace / "_map").mkdir()
    (trace / "_map" / "map.ply").write_bytes(ply(xyz, intensity=np.linspace(0, 255, 10, dtype="f4"), count=count))
    (file,) = export_one(format, trace, tmp_path / "map", sensor="_map")
    cloud = READ[format](file)
    np.testing.assert_array_equal(np.stack([cloud[axis] for axis in "xyz"], -1), xyz)
    np.testing.assert_array_equal(cloud["count"], count)


def test_traces_without_points_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2, sensors=("radar",))
    with pytest.raises(FormatError, match="trace/lidar: no such sensor"):
        export_one("ply", trace, tmp_path / "out")
    with pytest.raises(FormatError, match=r"_map/map.ply: is missing; run the workflow"):
        export_one("pcd", trace, tmp_path / "out", sensor="_map")
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace"]


def test_a_sidecar_of_another_lidar_is_named(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    sidecar = trace / "lidar" / "lidar.json"
    content = json.loads(sidecar.read_text())
    content["lidar_data_format"]["columns_per_frame"] = 64
    sidecar.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="lidar/rng: cannot be projected"):
        export_one("ply", trace, tmp_path / "out")
