"""A recording opens by name, tells what it lacks and how to make it, and costs nothing before it is read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline import reading
from rover_pipeline.errors import FormatError, RoverError, UnknownNameError
from rover_pipeline.format.trace import link_trace
from tests.kit import small_trace
from tests.reading.rig import write_rig


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_rig(tmp_path_factory.mktemp("trace") / "walk")
    (path / "_map").mkdir()
    (path / "_map" / "map.ply").write_text("ply\n")
    (path / "radar" / "radar.json").write_text('{"range_resolution": 0.05}')
    return path


def test_names_stand_for_raw_or_virtual_sensors_and_channels_with_or_without_a_suffix(trace: Path) -> None:
    opened = rp.open(trace)
    assert opened["odom"] is opened["_odom"] and opened["camera"].name == "camera"
    assert list(opened) == ["camera", "lidar", "radar", "_bev", "_odom", "_power", "_sync"] and len(opened) == 7
    assert "bev" in opened and "lidar" in opened and "map" not in opened and "../walk" not in opened
    assert opened["_odom"].pos is opened["odom"]["pos"] and "pos" in opened["odom"]
    sample = opened["odom"][5]
    assert sample.pos[0] == opened["odom"].pos[5, 0] and len(opened["odom"][2:4].pos) == 2
    assert len(list(opened["odom"])) == len(opened["odom"]) == len(opened["odom"].pos)


def test_sidecars_configuration_provenance_and_products_are_within_reach(trace: Path) -> None:
    opened = rp.open(trace)
    assert opened["radar"].sidecars == ("radar.json",) and opened["radar"].sidecar()["range_resolution"] == 0.05
    assert opened.config == {"lidar": {"type": "lidar"}} and opened["radar"].provenance is None
    assert opened.products == ("_map",) and opened.product("map", "map.ply").read_text() == "ply\n"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda trace: trace["odmo"], "did you mean '_odom'"),
        (lambda trace: trace["radar_points"], "rover-pipeline run .* --outputs radar_points"),
        (lambda trace: trace["map"], r"trace.product\('map'\)"),
        (lambda trace: trace["../walk/_odom"], "has no sensor"),
        (lambda trace: trace["odom"].posi, "did you mean 'pos'"),
        (lambda trace: trace["odom"]["posi"], "did you mean 'pos'"),
        (lambda trace: trace["radar"].sidecar("rader.json"), "did you mean 'radar.json'"),
        (lambda trace: trace["camera"].sidecar(), "it has none"),
        (lambda trace: trace.product("map", "map.pli"), "did you mean 'map.ply'"),
        (lambda trace: trace.product("mop"), "has no sensor 'mop'"),
    ],
)
def test_an_unknown_name_is_an_error_of_one_line_with_the_nearest_or_the_remedy(
    trace: Path, ask: object, message: str
) -> None:
    with pytest.raises(UnknownNameError, match=message) as caught:
        ask(rp.open(trace))  # type: ignore[operator]
    assert isinstance(caught.value, KeyError) and isinstance(caught.value, RoverError)
    assert "\n" not in str(caught.value) and str(trace) in str(caught.value)


def test_attributes_that_are_no_channels_are_absent(trace: Path) -> None:
    sensor = rp.open(trace)["_odom"]
    assert not hasattr(sensor, "nothing") and not hasattr(sensor, "_repr_html_") and hasattr(sensor, "pos")
    assert "pos" in dir(sensor)


def test_what_is_no_recording_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such directory"):
        rp.open(tmp_path / "none")
    with pytest.raises(FormatError, match="is no trace"):
        rp.open(tmp_path)


def test_a_recording_that_was_cut_off_is_an_error_until_truncate_is_asked_for(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "walk")
    os.truncate(trace / "_odom" / "pos", 25 * 24 + 3)
    with pytest.raises(FormatError, match=r"_odom/pos: .*truncate=True"):
        rp.open(trace)["odom"].pos[0]
    assert len(rp.open(trace)["odom"]["ts"]) == 30  # the others can be read
    sensor = rp.open(trace, truncate=True)["odom"]
    assert len(sensor) == len(sensor.pos) == len(sensor.valid) == len(sensor.ts) == 25
    assert len(sensor.pos[:]) == 25


def test_times_out_of_order_are_an_error_and_can_still_be_looked_at(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "walk")
    path = trace / "radar" / "ts"
    path.write_bytes(np.roll(np.fromfile(path), 1).tobytes())
    radar = rp.open(trace)["radar"]
    with pytest.raises(FormatError, match="radar/ts: sample 1"):
        _ = radar.ts
    assert len(radar["ts"][:]) == len(radar)


def test_results_in_another_tree_are_opened_with_the_raw_sensors(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "raw" / "walk")
    link_trace(trace, tmp_path / "results" / "walk")
    shutil.copytree(trace / "_odom", tmp_path / "results" / "walk" / "_filtered")
    opened = rp.open(trace, output_root=tmp_path / "results")
    assert {"lidar", "_filtered"} <= set(opened) and "_filtered" not in rp.open(trace)
    assert len(rp.open(tmp_path / "results" / "walk").synced("lidar", "filtered")) == len(opened["lidar"])
    (tmp_path / "empty").mkdir()
    assert rp.open(trace, output_root=tmp_path / "empty").path == trace
    with pytest.raises(FormatError, match=r"output_root: .*no such directory"):
        rp.open(trace, output_root=tmp_path / "nowhere")


def test_pictures_of_a_published_recording_are_channels_of_the_camera(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 4, sensors=("camera",))
    shutil.copytree(trace / "camera", trace / "_camera")
    (trace / "camera" / "video.avi").unlink()
    assert (rp.open(trace)["camera"].video[2] == rp.open(trace)["_camera"].video[2]).all()
    meta = json.loads((trace / "camera" / "meta.json").read_text())
    del meta["video.avi"]
    (trace / "camera" / "meta.json").write_text(json.dumps(meta))
    assert "video.avi" in rp.open(trace)["camera"] and len(rp.open(trace)["camera"]["video.avi"]) == 4
    (trace / "_camera" / "ts").write_bytes((np.fromfile(trace / "_camera" / "ts") + 1).tobytes())
    with pytest.raises(FormatError, match="other times"):
        _ = rp.open(trace)["camera"].video


def test_importing_the_package_and_opening_a_recording_load_no_library_that_is_not_needed(trace: Path) -> None:
    script = (
        "import sys, rover_pipeline as rp; first = set(sys.modules);"
        f"rp.open({str(trace)!r})['_odom'].pos[3];"
        "heavy = {'cv2', 'scipy', 'numba', 'matplotlib', 'dask', 'ouster', 'threadpoolctl'} & set(sys.modules);"
        "print('numpy' in first or 'pydantic' in first, *heavy)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_what_is_promised_is_exported() -> None:
    assert {"open", "open_many", "Trace", "Sensor", "Channel"} <= set(rp.__all__) == set(dir(rp))
    assert {*rp.__all__} - {"__version__"} <= {*vars(reading)}, "type checkers need the names in both places"
    assert all(getattr(rp, name) is not None for name in rp.__all__)
    with pytest.raises(AttributeError):
        _ = rp.nothing  # type: ignore[attr-defined]
