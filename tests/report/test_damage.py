"""A trace has a page whatever is damaged in it, because this is when the page is needed most."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.errors import FormatError, require_damage
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import report_files
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import PAGE, SUMMARY
from tests.conftest import with_truth_as_odometry

Damage = Callable[[np.random.Generator, bytes], bytes]


def _cut(rng: np.random.Generator, data: bytes) -> bytes:
    return data[: int(rng.integers(0, len(data) + 1))]


def _scatter(rng: np.random.Generator, data: bytes) -> bytes:
    changed = np.frombuffer(data, "u1").copy()
    changed[rng.integers(0, max(1, len(data)), min(len(data), 30))] = rng.integers(0, 256, min(len(data), 30))
    return changed.tobytes()


def _grow(rng: np.random.Generator, data: bytes) -> bytes:
    return data + rng.bytes(25)


def _blank(rng: np.random.Generator, data: bytes) -> bytes:
    return bytes(len(data))


def _other_json(rng: np.random.Generator, data: bytes) -> bytes:
    return [b"[]", b"{}", b"3", b"null", data.replace(b"1", b"null"), data.replace(b"{", b"[")][rng.integers(6)]


@pytest.fixture(scope="module")
def walk(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated recording with the truth as its `_odom`, to which no other test adds anything."""
    return with_truth_as_odometry(tiny, tmp_path_factory.mktemp("walk") / "trace")


@pytest.mark.parametrize("seed", range(12))
def test_the_page_of_a_damaged_trace_tells_the_damage(scene: Path, walk: Path, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = tmp_path / "damaged"
    shutil.copytree(scene if seed % 2 else walk, trace)
    paths = sorted(path for path in trace.rglob("*") if path.is_file())
    for path in rng.choice(np.array(paths, object), 6, replace=False):
        kinds = [_cut, _scatter, _grow, _blank, *([_other_json] * 3 if path.suffix in (".json", ".yaml") else [])]
        path.write_bytes(kinds[rng.integers(len(kinds))](rng, path.read_bytes()))
    files = report_files(trace, PageOptions(outputs=("report",), instants=1, picture_width=64))
    summary = Summary.model_validate_json(files[SUMMARY])
    assert summary.verdict != "good" and summary.findings


def _of_another_year(trace: Path) -> None:
    ts = np.fromfile(trace / "camera/ts", "<f8")
    (ts + 3e7).tofile(trace / "camera/ts")


def _no_picture(trace: Path) -> None:
    (trace / "camera/video.avi").write_bytes((trace / "camera/video.avi").read_bytes()[:300])


def _shape_is_a_number(trace: Path) -> None:
    (trace / "radar/radar.json").write_text('{"shape": 0.1, "range_resolution": 0.05}')


def _no_rotation(trace: Path) -> None:
    (trace / "_odom/rot").write_bytes(bytes((trace / "_odom/rot").stat().st_size))


def _no_motion(trace: Path) -> None:
    (trace / "_odom/pos").write_bytes(b"\x64" * (trace / "_odom/pos").stat().st_size)


def _no_layout(trace: Path) -> None:
    (trace / "lidar/lidar.json").write_text("[]")


@pytest.mark.parametrize(
    "damage", [_of_another_year, _no_picture, _shape_is_a_number, _no_rotation, _no_motion, _no_layout]
)
def test_a_trace_whose_mounts_cannot_be_compared_has_a_page(
    walk: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    trace = tmp_path / "damaged"
    shutil.copytree(walk, trace)
    damage(trace)
    files = report_files(trace, PageOptions(outputs=("report",), instants=1, picture_width=64))
    assert Summary.model_validate_json(files[SUMMARY]).findings


def test_implausibly_large_values_are_left_out(scene: Path, tmp_path: Path) -> None:
    trace = tmp_path / "damaged"
    shutil.copytree(scene, trace)
    for channel, kind in (("lidar/ts", "f8"), ("_odom/pos", "f8"), ("_radar_pose/vel", "f8"), ("_sync/radar_dt", "f4")):
        values = np.fromfile(trace / channel, kind)
        values[7] = 1e300 if kind == "f8" else 1e38
        values.tofile(trace / channel)
    files = report_files(trace, PageOptions(outputs=("report",), instants=0))
    summary = Summary.model_validate_json(files[SUMMARY])
    assert summary.duration_s < 10
    assert summary.motion is not None and summary.motion.distance_m < 20
    assert summary.radar_speed is not None and summary.radar_speed.max_speed_mps == pytest.approx(2)
    assert summary.sync[0].max_ms is not None and summary.sync[0].max_ms < 1000


def test_text_that_is_half_a_character_is_shown_as_an_escape(scene: Path, tmp_path: Path) -> None:
    trace = tmp_path / "damaged"
    shutil.copytree(scene, trace)
    path = trace / "_odom" / PROVENANCE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"packages": {"numpy": "\udc80"}}))
    files = report_files(trace, PageOptions(outputs=("report",), instants=0))
    assert rb"\udc80" in files[PAGE]


def test_an_error_of_the_disk_is_no_damage_of_the_recording() -> None:
    for number in (errno.EIO, errno.ESTALE, errno.ENOSPC):
        passing = FormatError("ts: cannot be read")
        passing.__cause__ = OSError(number, os.strerror(number))
        with pytest.raises(FormatError, match="ts: cannot be read"):
            require_damage(passing)
    require_damage(FormatError("ts: holds no samples"))
    require_damage(FileNotFoundError(errno.ENOENT, "No such file or directory"))
