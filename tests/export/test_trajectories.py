"""TUM and KITTI files as evo reads them: the pose error that evo computes is the one that we compute."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from evo.core import metrics, sync
from evo.tools import file_interface
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from tests.kit import small_trace, spec_of

COUNT = 40
INVALID = (0, 7, 8, 30)


def poses(seed: int, noise: float) -> dict[str, np.ndarray]:
    """Poses along a climbing left curve, with random errors."""
    rng = np.random.default_rng(seed)
    heading = np.linspace(0, 3, COUNT)
    pos = np.stack([4 * np.sin(heading), 4 - 4 * np.cos(heading), 0.1 * heading], -1) + rng.normal(0, noise, (COUNT, 3))
    rotation = Rotation.from_euler("z", heading[:, None]) * Rotation.from_rotvec(rng.normal(0, noise, (COUNT, 3)))
    return {"pos": pos, "rot": rotation.as_matrix()}


def write_poses(path: Path, arrays: dict[str, np.ndarray], ts: np.ndarray, invalid: tuple[int, ...] = ()) -> None:
    valid = np.ones(len(ts), "u1")
    valid[list(invalid)] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(array) for name, array in arrays.items()}}
    with SensorWriter(path, specs) as writer:
        writer.append(**{TS: ts, VALID: valid}, **arrays)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = small_trace(tmp_path_factory.mktemp("export") / "trace", COUNT, sensors=("radar",))
    ts = 1_700_000_000.123456 + 0.1 * np.arange(COUNT)
    write_poses(path / "_truth", poses(0, 0.0), ts)
    write_poses(path / "_odom", poses(1, 0.02), ts, INVALID)
    return path


def export_one(format: str, trace: Path, out: Path, **options: object) -> Path:
    assert export(format, [str(trace)], out, ExportOptions(**options)) == [out]  # type: ignore[arg-type]
    return out


def pose_errors(trace: Path, good: np.ndarray) -> tuple[float, float]:
    """RMS of the absolute pose error, without alignment: metres, and degrees."""
    odom, truth = ({name: Sensor(trace / s).channel(name).read() for name in ("pos", "rot")} for s in SENSORS)
    metres = np.linalg.norm(odom["pos"] - truth["pos"], axis=1)[good]
    angle = Rotation.from_matrix(np.swapaxes(truth["rot"], 1, 2) @ odom["rot"]).magnitude()[good]
    return float(np.sqrt(np.mean(metres**2))), float(np.degrees(np.sqrt(np.mean(angle**2))))


SENSORS = ("_odom", "_truth")
GOOD = np.setdiff1d(np.arange(COUNT), INVALID)


def ape(estimate: object, truth: object, relation: metrics.PoseRelation) -> float:
    metric = metrics.APE(relation)
    metric.process_data((truth, estimate))
    return float(metric.get_statistic(metrics.StatisticsType.rmse))


def test_evo_reads_tum_files_and_finds_our_error(trace: Path, tmp_path: Path) -> None:
    estimate = file_interface.read_tum_trajectory_file(export_one("tum", trace, tmp_path / "odom.tum"))
    truth = file_interface.read_tum_trajectory_file(export_one("tum", trace, tmp_path / "truth.tum", sensor="_truth"))
    assert estimate.check()[0] and (estimate.num_poses, truth.num_poses) == (len(GOOD), COUNT)
    np.testing.assert_allclose(estimate.timestamps, Sensor(trace / "_odom").channel(TS).read()[GOOD], rtol=0, atol=1e-6)
    truth, estimate = sync.associate_trajectories(copy.deepcopy(truth), estimate, max_diff=1e-4)
    metres, degrees = pose_errors(trace, GOOD)
    assert metres > 0.02 and degrees > 1
    assert ape(estimate, truth, metrics.PoseRelation.translation_part) == pytest.approx(metres, rel=1e-6)
    assert ape(estimate, truth, metrics.PoseRelation.rotation_angle_deg) == pytest.approx(degrees, rel=1e-5)


def test_evo_reads_kitti_files_and_finds_our_error(trace: Path, tmp_path: Path) -> None:
    estimate = file_interface.read_kitti_poses_file(export_one("kitti", trace, tmp_path / "odom.txt"))
    truth = file_interface.read_kitti_poses_file(export_one("kitti", trace, tmp_path / "truth.txt", sensor="_truth"))
    assert estimate.check()[0] and estimate.num_poses == len(GOOD)
    truth.reduce_to_ids(GOOD)
    metres, degrees = pose_errors(trace, GOOD)
    assert ape(estimate, truth, metrics.PoseRelation.translation_part) == pytest.approx(metres, rel=1e-6)
    assert ape(estimate, truth, metrics.PoseRelation.rotation_angle_deg) == pytest.approx(degrees, rel=1e-5)


def test_every_nth_sample_counts_samples_that_are_not_valid(trace: Path, tmp_path: Path) -> None:
    estimate = file_interface.read_tum_trajectory_file(export_one("tum", trace, tmp_path / "few.tum", every=10))
    np.testing.assert_allclose(
        estimate.timestamps, Sensor(trace / "_odom").channel(TS).read()[[10, 20]], rtol=0, atol=1e-6
    )


def test_sensors_that_are_missing_or_hold_no_poses_are_named(trace: Path, tmp_path: Path) -> None:
    for sensor, problem in (("_radar_pose", "_radar_pose: no such sensor"), ("radar", "radar: holds no poses")):
        with pytest.raises(FormatError, match=problem):
            export_one("tum", trace, tmp_path / "out.tum", sensor=sensor)
    assert list(tmp_path.iterdir()) == []


def test_a_trajectory_without_a_valid_pose_is_refused(trace: Path, tmp_path: Path) -> None:
    path = small_trace(tmp_path / "trace", 3, sensors=("radar",))
    arrays = {name: array[:3] for name, array in poses(0, 0.0).items()}
    write_poses(path / "_odom", arrays, 1_700_000_000.0 + np.arange(3), (0, 1, 2))
    with pytest.raises(FormatError, match="no pose of 3 can be exported"):
        export_one("kitti", path, tmp_path / "out.txt")
    assert not (tmp_path / "out.txt").exists()
