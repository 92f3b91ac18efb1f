"""rslearn datasets of a simulated drive: walls, the rig's way and objects lie where they are in the world."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.output import DatasetOutput, tree_files
from rover_pipeline.export.rslearn.dataset import describe
from rover_pipeline.export.samples import range_projector
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.export.rules import problems
from tests.export.street import object_channels, write_sensor

rasterio = pytest.importorskip("rasterio", reason="rasterio is not installed: pip install 'rover-pipeline[rslearn]'")
SETTINGS = {"splits": {"by": "recording"}, "options": {"slice_s": 1.0, "every": 2, "tile_px": 128}}


@pytest.fixture(scope="module")
def recording(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drive with a radar product and with objects."""
    trace = tmp_path_factory.mktemp("rslearn") / "drive"
    shutil.copytree(drive, trace)
    for name in ("_radar_range_azimuth", "_radar_pose"):
        if not (trace / name).exists():
            run_step(find_step(name), trace, name, Request())
    ts = Sensor(trace / "lidar").channel("ts").read()
    shutil.rmtree(trace / "_objects", ignore_errors=True)
    write_sensor(trace / "_objects", ts, np.ones(len(ts), "u1"), object_channels(ts))
    return trace


@pytest.fixture(scope="module")
def exported(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_dataset("rslearn", [str(recording)], tmp_path_factory.mktemp("rslearn") / "set", settings=SETTINGS)


def windows(folder: Path, number: int = 0) -> list[Path]:
    return sorted(folder.glob(f"windows/*/{number:05d}_*"))


def sampled(folder: Path, layer: str, band: str, points: np.ndarray) -> np.ndarray:
    """Values of a layer of the first slice at places in the world, by rasterio's own arithmetic; NaN outside of it."""
    found = np.full(len(points), np.nan)
    for window in windows(folder):
        with rasterio.open(window / "layers" / layer / band / "geotiff.tif") as file:
            box = file.bounds
            inside = (points[:, 0] > box.left) & (points[:, 0] < box.right)
            inside &= (points[:, 1] > box.bottom) & (points[:, 1] < box.top)
            found[inside] = [float(value[0]) for value in file.sample(points[inside, :2])]
    return found


@pytest.fixture(scope="module")
def wall_points(recording: Path) -> np.ndarray:
    """Points of the first sweep 0.6 to 1.5 m above the floor, in the world, by ouster-sdk and the truth."""
    project, odom = range_projector(recording / "lidar"), Sensor(recording / "_odom")
    xyz = project(Sensor(recording / "lidar").channel("rng").read(0, 1)[0]).reshape(-1, 3)
    xyz = xyz[np.isfinite(xyz).all(1) & (np.linalg.norm(xyz, axis=1) < 20)]
    pos, rot = odom.channel("pos").read(0, 1)[0], odom.channel("rot").read(0, 1)[0]
    points = xyz @ rot.T + pos
    above = points[:, 2] - np.percentile(points[:, 2], 1)
    return np.asarray(points[(above > 0.6) & (above < 1.5)])


def test_walls_are_occupied_where_they_are_and_not_where_a_mirror_would_put_them(
    exported: Path, wall_points: np.ndarray
) -> None:
    share = np.mean(sampled(exported, "occupancy", "occupancy", wall_points) % 255 > 40)
    assert len(wall_points) > 300 and share > 0.8
    for turn in ((1, -1), (-1, 1), (-1, -1)):
        mirrored = sampled(exported, "occupancy", "occupancy", wall_points[:, :2] * turn)
        assert np.mean(np.nan_to_num(mirrored) % 255 > 40) < 0.5
    swapped = sampled(exported, "occupancy", "occupancy", wall_points[:, 1::-1])
    assert np.mean(np.nan_to_num(swapped) % 255 > 40) < 0.5


def test_heights_of_walls_reach_the_top_and_radar_power_is_seen_ahead(
    exported: Path, recording: Path, wall_points: np.ndarray
) -> None:
    heights = sampled(exported, "height", "height", wall_points)
    assert np.nanmedian(heights) > 1.2 and np.nanmax(heights) <= 1.8
    pose = Sensor(recording / "_radar_pose")
    at = int(np.argmax(pose.channel("valid").read()))
    pos, rot = pose.channel("pos").read(at, at + 1)[0], pose.channel("rot").read(at, at + 1)[0]
    ahead = sampled(exported, "radar_power", "power", (pos + 1.5 * rot[:, 0])[None])
    behind = sampled(exported, "radar_power", "power", (pos - 1.5 * rot[:, 0])[None])
    assert ahead[0] > -100 and not behind[0] > -100


def test_the_way_of_the_rig_is_that_of_the_truth_at_its_times(exported: Path, recording: Path) -> None:
    odom = Sensor(recording / "_odom")
    ts, pos = odom.channel("ts").read(), odom.channel("pos").read()
    content = json.loads((windows(exported)[0] / "layers" / "trajectory" / "data.geojson").read_text())
    (feature,) = content["features"]
    line = np.array(feature["geometry"]["coordinates"])
    times = np.array([datetime.fromisoformat(each).timestamp() for each in feature["properties"]["times"]])
    wanted = np.stack([np.interp(times, ts, pos[:, axis]) for axis in (0, 1)], 1)
    assert len(line) > 3 and np.abs(line - wanted).max() < 0.02
    tracks = json.loads((windows(exported)[0] / "layers" / "tracks" / "data.geojson").read_text())
    assert {each["properties"]["label"] for each in tracks["features"]} == {"car", "pedestrian", "other"}


def test_a_dataset_is_described_and_follows_the_rules(exported: Path) -> None:
    figures = describe(exported)
    assert figures["windows_of_split"] == {"train": figures["windows"]}
    assert figures["layers"] == ["height", "occupancy", "radar_power", "tracks", "trajectory"]
    assert list(problems("rslearn", exported)) == []
    for window in exported.glob("windows/*/*"):
        last = max(window.rglob("*"), key=lambda path: path.stat().st_mtime_ns * path.is_file())
        assert last.name == "completed"


def break_bounds(window: Path) -> None:
    content = json.loads((window / "metadata.json").read_text())
    content["bounds"] = [each + 1 for each in content["bounds"]]
    (window / "metadata.json").write_text(json.dumps(content))


def break_type(window: Path) -> None:
    shutil.copy(window / "layers/height/height/geotiff.tif", window / "layers/occupancy/occupancy/geotiff.tif")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_bounds, "grid is not that of the window"),
        (break_type, "1 bands of float32, not 1 of uint8"),
        (lambda window: (window / "layers/height/height/geotiff.tif").write_bytes(b"II*\0"), "cannot be read"),
        (lambda window: (window / "layers/tracks/data.geojson").write_text('{"features": []}'), "no FeatureCollection"),
        (lambda window: (window / "metadata.json").write_text("{}"), "must give bounds"),
        (lambda window: [path.unlink() for path in window.glob("layers/*/completed")], "no layer is complete"),
    ],
)
def test_a_broken_rule_is_named(damage: Any, message: str, exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "set")
    damage(windows(tmp_path / "set")[0])
    assert any(message in problem for problem in problems("rslearn", tmp_path / "set"))


def test_an_interrupted_export_continues_and_gives_the_same_bytes_with_any_number_of_threads(
    recording: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = DatasetOutput.part
    made: list[str] = []

    def interrupted(output: DatasetOutput, key: str, make: Any) -> bool:
        if made:
            raise KeyboardInterrupt
        made.append(key)
        return part(output, key, make)

    monkeypatch.setattr(DatasetOutput, "part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_dataset("rslearn", [str(recording)], tmp_path / "out", settings=SETTINGS)
    monkeypatch.setattr(DatasetOutput, "part", part)
    out = export_dataset("rslearn", [str(recording)], tmp_path / "out", settings=SETTINGS, threads=3)
    first, second = ({name: (each / name).read_bytes() for name in tree_files(each)} for each in (exported, out))
    assert first == second and len(first) > 10


def test_what_is_missing_is_named_and_can_be_left_out(recording: Path, tmp_path: Path) -> None:
    trace = tmp_path / "drive"
    shutil.copytree(recording, trace)
    shutil.rmtree(trace / "_objects")
    shutil.rmtree(trace / "_radar_pose")
    with pytest.raises(FormatError, match=r"_radar_pose.*rover-pipeline run .* --outputs radar_pose"):
        export_dataset("rslearn", [str(trace)], tmp_path / "out", settings=SETTINGS)
    options = {**SETTINGS["options"], "radar": False, "objects": False, "slice_s": 9.0}  # type: ignore[dict-item]
    out = export_dataset("rslearn", [str(trace)], tmp_path / "out", settings={**SETTINGS, "options": options})
    assert describe(out)["layers"] == ["height", "occupancy", "trajectory"]
