"""Several lidars in one trajectory and one map: better than the better one alone, and never worse for a wrong one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.step import OPTIONAL
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from rover_pipeline.workflow.flow import Flow
from tests.odometry.truth import errors, state_of

OTHER = "_lidar_rear_image"


def make(trace: Path, *products: str) -> None:
    for product in products:
        run_step(find_step(product), trace, product, Request(), threads=2)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lidars of a car and its IMU, with the image of each."""
    whole, trace = tmp_path_factory.mktemp("simulated") / "car", tmp_path_factory.mktemp("two") / "car"
    simulate(whole, preset="car", seed=5, duration=4.0, threads=2)
    for name in ("lidar_top", "lidar_rear", "imu", "_truth"):
        shutil.copytree(whole / name, trace / name)
    shutil.copy(whole / "config.yaml", trace)
    shutil.rmtree(whole)
    for product in ("_lidar_top_image", OTHER):
        run_step(find_step("_lidar_image"), trace, product, Request())
    make(trace, "_odom", "_map")
    return trace


@pytest.fixture(scope="module")
def alone(both: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("alone") / "car"
    shutil.copytree(both, trace, ignore=shutil.ignore_patterns("lidar_rear", OTHER, "_odom", "_map"))
    make(trace, "_odom", "_map")
    return trace


def error(trace: Path) -> tuple[float, float]:
    """Root mean square error of positions, m, and mean NEES of the poses after the first one."""
    found, truth = state_of(trace / "_odom"), state_of(trace / "_truth")
    cov = Sensor(trace / "_odom").channel("cov").read().astype("f8")
    assert Sensor(trace / "_odom").channel("valid").read().all()
    nees = []
    for number in range(5, len(found.pos)):
        way, true_way = (each.rot[0].T @ (each.pos[number] - each.pos[0]) for each in (found, truth))
        turn, true_turn = (each.rot[0].T @ each.rot[number] for each in (found, truth))
        wrong = np.concatenate([turn.T @ (way - true_way), Rotation.from_matrix(true_turn.T @ turn).as_rotvec()])
        nees.append(wrong @ np.linalg.solve(cov[number], wrong) / 6)
    return errors(found, truth).pos, float(np.mean(nees))


def mount_of(trace: Path) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the other lidar's mount, and the error of the declared one, as `_odom` has measured them."""
    provenance = read_provenance(trace / "_odom")
    assert provenance is not None
    found = provenance["measured"]["lidars"]["mounts"]["lidar_rear"]
    return np.array(found["covariance"]), np.array(found["error"])


def test_two_lidars_together_are_nearer_the_truth_than_one_and_say_so(both: Path, alone: Path) -> None:
    (together, nees), (one, _) = error(both), error(alone)
    assert together < 0.7 * one and 0.1 < nees < 4
    provenance = read_provenance(both / "_odom")
    assert provenance is not None
    lidars = provenance["measured"]["lidars"]
    assert lidars["used"] == ["lidar_rear"] and not lidars["left_out"]
    covariance, wrong = mount_of(both)
    assert wrong @ np.linalg.solve(covariance, wrong) < 7 * 4, "the declared mount is the true one"


def test_the_map_of_two_lidars_sees_more_and_has_the_same_floor(both: Path, alone: Path) -> None:
    found, one = (read_provenance(each / "_map")["measured"] for each in (both, alone))  # type: ignore[index]
    assert found["points"] > 1.1 * one["points"] and found["free_cells"] > one["free_cells"]
    assert found["occupied_cells"] < 1.3 * one["occupied_cells"], "the floor below the other lidar is no obstacle"
    assert abs(found["lidar_height_m"] - one["lidar_height_m"]) < 2e-3


def test_cells_and_points_are_of_each_lidar_where_it_is_when_it_measures(both: Path, tmp_path: Path) -> None:
    trace, lidars = tmp_path / "car", tmp_path / "car/_odom/lidars.json"
    shutil.copytree(both, trace)
    of: dict[str, dict[str, Any]] = {
        "_bev": {"origin": "lidar", "azimuth": (-180, 180)},
        "_lidar_points": {"compensate": True},
    }

    def made(product: str, channel: str, step: str = "") -> np.ndarray:
        step = step or product
        run_step(find_step(step), trace, product, Request(options=of[step]))
        return Sensor(trace / product).channel(channel).read_whole()

    cells = made("_bev", "occupancy")
    # A lidar that is the same one as the main one sees nothing else, and at the same instants.
    for name, copy in (("lidar_rear", "lidar_top"), (OTHER, "_lidar_top_image")):
        shutil.rmtree(trace / name)
        shutil.copytree(trace / copy, trace / name)
    (trace / "lidar_rear/lidar_top.json").rename(trace / "lidar_rear/lidar_rear.json")
    (trace / "lidar_top/more").write_text("the main lidar is the one whose files are larger")
    lidars.write_text("{}")
    alone = made("_bev", "occupancy")
    assert (cells >= alone).all() and cells.sum() > 1.1 * alone.sum()
    with pytest.raises(RoverError, match="does not say where lidar_rear is"):
        made("_lidar_rear_points", "xyz", "_lidar_points")
    lidars.write_text('{"lidar_rear": {}}')
    np.testing.assert_array_equal(made("_bev", "occupancy"), alone)
    main, other = (made(f"_{name}_points", "xyz", "_lidar_points") for name in ("lidar_top", "lidar_rear"))
    of["_lidar_points"]["compensate"] = False
    still = made("_lidar_rear_points", "xyz", "_lidar_points")
    assert np.nanmax(np.abs(still - main)) > 0.3 and np.nanmax(np.abs(other - main)) < 2e-3, "the car drives"
    lidars.write_text('{"lidar_rear": {"translation": [3.0, 0.0, 0.0]}}')
    assert made("_bev", "occupancy").sum() > 1.4 * alone.sum()


def turned(trace: Path) -> None:
    config = yaml.safe_load((trace / "config.yaml").read_text())
    mount = config["rig"]["lidar_rear"]
    mount["rotation"] = (np.array(mount["rotation"]) @ Rotation.from_euler("y", 2, degrees=True).as_matrix()).tolist()
    (trace / "config.yaml").write_text(yaml.safe_dump(config))


def late(trace: Path) -> None:
    for name in ("lidar_rear", OTHER):
        times = np.fromfile(trace / name / "ts") + 0.05
        times.tofile(trace / name / "ts")


def cut_off(trace: Path) -> None:
    os.truncate(trace / "lidar_rear" / "rng", os.path.getsize(trace / "lidar_rear" / "rng") // 2)


def undeclared(trace: Path) -> None:
    config = yaml.safe_load((trace / "config.yaml").read_text())
    del config["rig"]["lidar_rear"]
    (trace / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (turned, "pitch +1.8"),
        (late, "(time -50 "),
        (cut_off, "lidar_rear/rng: "),
        (undeclared, "nothing says where it is; set `rig.lidar_rear`"),
    ],
)
def test_a_lidar_that_does_not_fit_is_left_out_and_said(
    both: Path, alone: Path, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    trace = tmp_path / "car"
    shutil.copytree(both, trace, ignore=shutil.ignore_patterns("_odom", "_map"))
    damage(trace)
    make(trace, "_odom")
    provenance = read_provenance(trace / "_odom")
    assert provenance is not None and any(
        said in each and "lidar_rear is left out" in each for each in provenance["notes"]
    )
    for channel in ("pos", "rot", "cov", "valid"):
        assert (trace / "_odom" / channel).read_bytes() == (alone / "_odom" / channel).read_bytes()
    assert not (trace / "_odom" / "lidars.json").exists()


def test_a_mount_is_as_uncertain_as_ranges_that_are_too_long_make_it(both: Path, tmp_path: Path) -> None:
    trace = tmp_path / "car"
    shutil.copytree(both, trace, ignore=shutil.ignore_patterns("_odom", "_map"))
    path = trace / OTHER / "rng"
    ranges = np.fromfile(path, "u2")
    np.where((ranges > 0) & (ranges < 65535), ranges + 10, ranges).astype("u2").tofile(path)
    make(trace, "_odom")
    covariance, wrong = mount_of(trace)
    assert wrong @ np.linalg.solve(covariance, wrong) < 7 * 3, "a centimetre is within the noise of a range"


def test_a_run_does_not_wait_for_a_lidar_that_is_cut_off(both: Path, tmp_path: Path) -> None:
    trace = tmp_path / "car"
    shutil.copytree(both, trace, ignore=shutil.ignore_patterns("_*"))

    def reads() -> set[str]:
        flow = Flow({"traces": str(trace)})
        for product in ("_lidar_image", "_odom"):
            flow.makes(product)
            flow.needs(product)
        return {each.removesuffix(OPTIONAL) for each in flow.step_of("_odom", trace).references()}

    assert f"{OTHER}/rng" in reads()
    cut_off(trace)
    assert f"{OTHER}/rng" not in reads()
