"""The frames of an instant are those nearest to it, and show every target at its true position."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from rover_pipeline.format.meta import read_meta, write_meta
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate, changed, prior_covariance
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.report.frames import draw_instants, draw_overlays
from rover_pipeline.report.read.contents import read_mounts
from rover_pipeline.report.read.sensors import read_sensors
from rover_pipeline.validation.mounts import Shown, shown_mounts
from rover_pipeline.validation.rig import sensor_mount
from tests.draw.test_pixels import decode
from tests.kit import START_S, small_trace, times
from tests.report.scene import lidar_times, sensor, walk

AZIMUTH = np.radians(np.linspace(-60, 60, 121))
RANGES = np.arange(0, 10.1, 0.1)
POLAR = {"azimuth": {"values": AZIMUTH.tolist()}, "range": {"values": RANGES.tolist()}}


def brightness(image: np.ndarray) -> np.ndarray:
    return image[..., :3].astype(int).sum(axis=-1)


def redness(image: np.ndarray) -> np.ndarray:
    """The lidar's colour map ends with red for near targets."""
    return image[..., 0].astype(int) - image[..., 2]


class Scene(NamedTuple):
    """A sample with one target.

    Attributes:
        sensor, channel: whose sample it is.
        values: a sample without the target; target: index of the target in it.
        value: of the target.
        position: row and column of the target in the image, as fractions of its size.
        axis: axis of the sample that is horizontal in the image.
        contrast: large where the target is.
    """

    sensor: str
    channel: str
    values: np.ndarray
    target: Any
    value: float
    position: tuple[float, float]
    axis: int
    contrast: Callable[[np.ndarray], np.ndarray] = brightness


#: A target at 30 degrees to the right and 8 m in the bird's-eye view.
_POLAR_TARGET = np.s_[88:93, 77:84]
_POLAR_POSITION = (1 - 0.8 * np.cos(np.radians(30)), 0.5 + 0.8 * 0.5 / (2 * np.sin(np.radians(60))))
SCENES = {
    "camera": Scene(
        "_camera_frames", "image", np.full((40, 64, 3), 30, "u1"), np.s_[4:12, 48:56], 255, (8 / 40, 52 / 64), 1
    ),
    "lidar": Scene(
        "_lidar_image", "rng", np.full((16, 64), 20_000, "u2"), np.s_[2:6, 48:56], 1000, (4 / 16, 52 / 64), 1, redness
    ),
    "range-Doppler": Scene(
        "_radar_range_doppler", "power", np.zeros((16, 32), "f4"), np.s_[10:14, 22:26], 60, (4 / 16, 24 / 32), 1
    ),
    "range-azimuth": Scene(
        "_radar_range_azimuth", "power", np.zeros((121, 101), "f4"), _POLAR_TARGET, 60, _POLAR_POSITION, 0
    ),
    "occupancy": Scene("_bev", "occupancy", np.zeros((121, 101), "u1"), _POLAR_TARGET, 1, _POLAR_POSITION, 0),
}


def draw(trace: Path, scene: Scene, sample: np.ndarray) -> np.ndarray:
    """The image of a sample, as the page shows it."""
    small_trace(trace, 4, invalid={})
    sensor(trace, scene.sensor, times(4), **{scene.channel: np.stack([sample] * 4)})
    (trace / scene.sensor / "axes.json").write_text(json.dumps(POLAR))
    records = {record.name: record for record in read_sensors(Trace(trace))}
    ((_, (frame,)),) = draw_instants(Trace(trace), records, START_S, instants=1, width=240)
    assert frame.image is not None
    return decode(frame.image)


@pytest.mark.parametrize("kind", SCENES)
def test_a_target_is_shown_at_its_position_and_a_mirrored_sample_as_a_mirrored_image(tmp_path: Path, kind: str) -> None:
    scene = SCENES[kind]
    sample = scene.values.copy()
    sample[scene.target] = scene.value
    image = draw(tmp_path / "trace", scene, sample)
    contrast = scene.contrast(image)
    rows, columns = np.nonzero(contrast > (contrast.max() + np.median(contrast)) / 2)
    assert 0 < len(rows) < 0.1 * contrast.size, "the target is small"
    assert np.ptp(contrast) > 100, "the target stands out"
    height, width = contrast.shape
    position = (rows.mean() + 0.5) / height, (columns.mean() + 0.5) / width
    np.testing.assert_allclose(position, scene.position, atol=0.02)
    mirrored = draw(tmp_path / "mirrored", scene, np.flip(sample, scene.axis))
    assert np.abs(mirrored[:, ::-1].astype(int) - image).mean() < 2
    assert np.abs(mirrored.astype(int) - image).max() > 60, "a mirrored image differs"


def test_pixels_without_a_range_are_black(tmp_path: Path) -> None:
    scene = SCENES["lidar"]
    for number, no_range in enumerate((0, 65535)):
        sample = np.tile(np.linspace(1000, 20_000, 64), (16, 1)).astype("u2")
        sample[:8, :32] = no_range
        image = brightness(draw(tmp_path / str(number), scene, sample))
        height, width = image.shape
        assert image[: height // 2 - 4, : width // 2 - 4].max() < 60
        assert image[height // 2 + 4 :].min() > 60 and image[:, width // 2 + 4 :].min() > 60


def test_instants_are_evenly_spaced_and_frames_are_the_nearest_ones(scene: Path) -> None:
    records = {record.name: record for record in read_sensors(Trace(scene))}
    instants = draw_instants(Trace(scene), records, START_S, instants=5, width=64)
    ts = lidar_times() - START_S
    for i, instant in enumerate(instants):
        middle = ts[0] + (i + 0.5) / 5 * (ts[-1] - ts[0])
        assert abs(instant.time - middle) == pytest.approx(np.abs(ts - middle).min(), abs=1e-6)
        frames = {frame.title: frame for frame in instant.frames}
        assert list(frames) == ["camera", "lidar", "range-Doppler", "range-azimuth", "occupancy"]
        assert frames["lidar"].offset_s == 0
        radar = records["_radar_range_doppler"].ts - START_S - instant.time
        assert frames["range-Doppler"].offset_s == pytest.approx(radar[np.abs(radar).argmin()], abs=1e-6)


def test_invalid_frames_are_marked_and_those_that_cannot_be_decoded_have_no_image(tmp_path: Path) -> None:
    trace = walk(tmp_path / "walk")
    valid = np.zeros(40, "u1")
    valid.tofile(trace / "_radar_range_azimuth" / "valid")
    data = (trace / "camera" / "video.avi").read_bytes()
    (trace / "camera" / "video.avi").write_bytes(data.replace(b"\xff\xd8", b"\0\0"))
    records = {record.name: record for record in read_sensors(Trace(trace))}
    (instant,) = draw_instants(Trace(trace), records, START_S, instants=1, width=64)
    frames = {frame.title: frame for frame in instant.frames}
    assert frames["range-azimuth"].invalid and not frames["lidar"].invalid
    assert frames["camera"].image is None and frames["lidar"].image is not None


def test_a_recording_whose_only_images_are_invalid_and_empty_has_none_to_look_at(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 4, sensors=("lidar",), invalid={})
    sensor(trace, "_bev", times(4), np.zeros(4, "u1"), occupancy=np.zeros((4, 16, 24), "u1"))
    records = {record.name: record for record in read_sensors(Trace(trace))}
    assert draw_instants(Trace(trace), records, START_S, instants=2, width=64) == []


def test_the_earlier_one_of_two_equally_near_samples_is_the_nearest() -> None:
    assert nearest_samples(np.array([0.0, 1, 2]), np.array([-5, 0.5, 1.4, 1.6, 9])).tolist() == [0, 0, 1, 2, 2]
    assert nearest_samples(np.array([7.0]), np.array([1.0, 9])).tolist() == [0, 0]


def test_the_anonymised_video_of_a_public_trace_is_shown(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "public", 6, sensors=("camera", "imu"), invalid={})
    shutil.copytree(trace / "camera", trace / "_camera")
    (trace / "camera" / "video.avi").unlink()
    only_ts = {name: spec for name, spec in read_meta(trace / "camera").items() if name == "ts"}
    write_meta(trace / "camera", only_ts)
    records = {record.name: record for record in read_sensors(Trace(trace))}
    instants = draw_instants(Trace(trace), records, START_S, instants=2, width=64)
    assert [[frame.title for frame in instant.frames] for instant in instants] == [["camera"], ["camera"]]
    assert all(frame.image for instant in instants for frame in instant.frames)


def test_a_sweep_lies_over_a_picture_of_each_camera(drive: Path, tmp_path: Path) -> None:
    (overlay,) = draw_overlays(Trace(drive), 96)
    assert overlay.title == "lidar on camera"
    assert overlay.image is not None
    drawn = decode(overlay.image)[..., :3].astype("i8")
    assert (np.ptp(drawn, axis=2) > 60).sum() > 20, "points have colours, the picture has none"
    shutil.copytree(drive, tmp_path / "alone", ignore=shutil.ignore_patterns("_odom"))
    assert draw_overlays(Trace(tmp_path / "alone"), 96) == []


def test_a_camera_whose_mount_contradicts_its_pictures_is_on_the_page(
    drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = np.append(np.radians([0, 0, 2.0]), np.zeros(4))

    def shown(trace: Path, camera: str, declared: Mount, trajectory: Trajectory) -> MountEstimate:
        sigma = np.append(np.radians([0.1] * 3), [0.01] * 3 + [0.05])
        return MountEstimate(changed(declared, error), np.diag(sigma**2), prior_covariance(declared))

    monkeypatch.setattr("rover_pipeline.validation.mounts.camera_mount", shown)
    assert dict(read_mounts(drive)[1])["camera"].startswith("yaw +2 ")


def test_points_that_are_not_finite_say_nothing_of_the_mount_of_a_radar(drive: Path, tmp_path: Path) -> None:
    shown = {}
    for name, spoilt in (("whole", False), ("spoilt", True)):
        trace = tmp_path / name
        shutil.copytree(drive, trace)
        ts = np.fromfile(trace / "radar/ts", "<f8")
        rng = np.random.default_rng(0)
        xyz, doppler = rng.normal(0, 3, (len(ts), 100, 3)).astype("f4"), rng.normal(0, 0.1, (len(ts), 100)).astype("f4")
        certain = np.ones(doppler.shape, "u1")
        certain[2, 4:6] = 0
        if spoilt:  # what is left out is what is not certain in the other one
            certain[2, 4:6] = 1
            xyz[2, 4, 1] = doppler[2, 5] = np.nan
        deviation, count = np.full((*doppler.shape, 2), 0.01, "f4"), np.full(len(ts), 100, "u2")
        points = {"xyz": xyz, "doppler": doppler, "count": count, "certain": certain, "deviation": deviation}
        points["spread"] = deviation
        sensor(trace, "_radar_points", ts, **points)
        sensor(trace, "_radar_velocity", ts, vel=np.zeros((len(ts), 3)))
        (found,) = (each for each in shown_mounts(trace) if each.sensor == "radar")
        shown[name] = found.estimate
    np.testing.assert_array_equal(shown["spoilt"].covariance, shown["whole"].covariance)


def test_a_name_in_a_file_of_results_is_no_path(drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rover_pipeline.validation.mounts.read_provenance", lambda path: {"sensors": {"imu": "../imu"}})
    monkeypatch.setattr("rover_pipeline.validation.rig.made_with", lambda trace, name: {})
    trace = tmp_path / "trace"
    shutil.copytree(drive, trace, ignore=shutil.ignore_patterns("_odom"))
    shutil.copytree(trace / "imu", tmp_path / "imu")
    for name in ("_radar_odom", "_radar_points", "_radar_velocity"):
        shutil.rmtree(trace / name, ignore_errors=True)
        sensor(trace, name, times(4), pos=np.zeros((4, 3)))
    read: list[Path] = []
    monkeypatch.setattr("rover_pipeline.validation.rig.whole_sensor", lambda path, *names: read.append(path))
    assert [*shown_mounts(trace)] == [] and read == []


def test_a_radar_whose_mount_contradicts_the_imu_is_on_the_page_of_a_recording_without_a_lidar(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(trace: Path, sensor: str, brief: bool) -> Shown:
        assert brief
        declared = sensor_mount(trace, sensor)
        found = changed(declared, np.append(np.radians([0, 0, 6.0]), np.zeros(4)))
        return Shown(sensor, "radar", declared, MountEstimate(found, 1e-4 * np.eye(7), prior_covariance(declared)), {})

    monkeypatch.setattr("rover_pipeline.validation.mounts._beside_imu", shown)
    trace = tmp_path / "alone"
    shutil.copytree(drive, trace, ignore=shutil.ignore_patterns("_odom"))
    assert read_mounts(trace)[1] == [], "there is no motion to test it by"
    sensor(trace, "_radar_odom", times(4), pos=np.zeros((4, 3)))
    assert dict(read_mounts(trace)[1])["radar"].startswith("yaw +6 ")
