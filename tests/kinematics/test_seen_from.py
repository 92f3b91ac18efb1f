"""A sensor's pose in the frame of another sensor of the rig."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from rover_pipeline.engine.instances import as_types
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import changed, difference
from rover_pipeline.kinematics.options import MountOptions
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.simulate.rig import MOUNTS


def covariance_of(seed: int) -> np.ndarray:
    """A full covariance of the seven errors of a mount: about a degree, 2 cm, 5 ms."""
    root = np.random.default_rng(seed).normal(size=(7, 7)) * np.repeat([0.01, 0.01, 0.003], [3, 3, 1])[:, None]
    return np.asarray(root @ root.T)


def draws(covariance: np.ndarray, count: int = 4000) -> np.ndarray:
    return np.random.default_rng(9).multivariate_normal(np.zeros(len(covariance)), covariance, count)


def assert_alike(found: np.ndarray, wanted: np.ndarray) -> None:
    """That a covariance is that of draws, by its share of each pair of deviations."""
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    np.testing.assert_allclose(found / scale, wanted / scale, atol=0.08)


def test_the_covariance_of_a_pose_seen_from_another_sensor_is_that_of_draws_of_both() -> None:
    radar = MOUNTS["radar"]._replace(covariance=covariance_of(1), rotation=exp(np.array([[0.3, -0.2, 0.9]]))[0])
    camera = MOUNTS["camera"]._replace(covariance=covariance_of(2), translation=np.array([1.0, -2.0, 0.5]))
    seen = camera.seen_from(radar)
    errors = [
        difference(seen, changed(camera, one).seen_from(changed(radar, other)))
        for one, other in zip(draws(covariance_of(2)), draws(covariance_of(1))[::-1], strict=True)
    ]
    assert seen.covariance is not None
    assert_alike(seen.covariance, np.cov(np.array(errors).T))
    entries = {
        name: {"translation": each.translation.tolist(), "rotation": each.rotation.tolist(), "covariance": its.tolist()}
        for name, each, its in (("rear", radar, covariance_of(1)), ("camera", camera, covariance_of(2)))
    }
    text = yaml.safe_dump({"top": {"type": "lidar"}, "rear": {"type": "lidar"}, "rig": entries})
    planned = yaml.safe_load(as_types(text, {"lidar": "rear"}))["rig"]["camera"]
    np.testing.assert_allclose(planned["covariance"], seen.covariance, atol=1e-15)


def test_the_covariance_of_a_sensors_poses_is_that_of_draws_of_the_mount_and_the_odometry() -> None:
    rng, ts = np.random.default_rng(4), np.arange(3.0)
    avel = np.array([0.2, -0.1, 0.6])
    rot = np.concatenate([np.eye(3)[None], exp(avel[None]), exp(2 * avel[None])])
    vel = np.array([3.0, 1.0, 0.2])
    states = State(vel * ts[:, None], rot, np.tile(vel, (3, 1)), np.zeros((3, 3)), np.tile(avel, (3, 1)))
    trajectory = Trajectory(ts, states, np.ones(3))
    mount = Mount(np.array([0.5, -1.0, 0.3]), exp(np.array([[0.4, 0.2, -1.0]]))[0], covariance=covariance_of(5))
    root = rng.normal(size=(6, 6)) * 0.004
    cov, time = root @ root.T, np.array([1.3])
    state, _ = trajectory.at(time, mount)
    stated = trajectory.interpolated(time, np.repeat(cov[None], 3, axis=0))
    np.testing.assert_allclose(stated[0], cov)
    found = (mount.carried(stated) + mount.errors(state))[0]
    errors = []
    for of_mount, of_pose in zip(draws(covariance_of(5)), draws(cov)[::-1], strict=True):
        true = changed(mount, of_mount)
        lidar, _ = trajectory.at(time, Mount(np.zeros(3), np.eye(3), time_offset=true.time_offset))
        turned = lidar.rot[0] @ exp(of_pose[None, 3:])[0]
        pos = lidar.pos[0] + lidar.rot[0] @ of_pose[:3] + turned @ true.translation
        turn = log((state.rot[0].T @ turned @ true.rotation)[None])[0]
        errors.append(np.concatenate([state.rot[0].T @ (pos - state.pos[0]), turn]))
    assert_alike(found, np.cov(np.array(errors).T))
    assert np.isnan(trajectory.interpolated(np.array([2.5]), stated.repeat(3, axis=0))).all()


def test_a_pose_seen_from_another_sensor_is_the_same_pose() -> None:
    radar, camera = MOUNTS["radar"], MOUNTS["camera"]
    seen = camera.seen_from(radar)
    np.testing.assert_allclose(radar.rotation @ seen.translation + radar.translation, camera.translation, atol=1e-12)
    np.testing.assert_allclose(radar.rotation @ seen.rotation, camera.rotation, atol=1e-12)
    itself = radar.seen_from(radar)
    np.testing.assert_allclose(itself.translation, 0, atol=1e-12)
    np.testing.assert_allclose(itself.rotation, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, 1e308])
def test_a_variance_that_is_none_is_refused_and_so_are_elements_that_no_correlation_gives(value: float) -> None:
    covariance = np.eye(7)
    assert MountOptions.model_validate({"covariance": covariance.tolist()}).covariance is not None
    covariance[2, 2] = value
    with pytest.raises(ValidationError, match="is no covariance: variances lie between 0 and 1e"):
        MountOptions.model_validate({"covariance": covariance.tolist()})
    covariance[2, 2], covariance[0, 1] = 1.0, 1.5
    with pytest.raises(ValidationError, match="is no covariance: see row 1, column 2"):
        MountOptions.model_validate({"covariance": covariance.tolist()})


def test_a_covariance_by_which_a_sum_has_a_negative_variance_is_refused_and_one_of_four_digits_is_none() -> None:
    covariance = np.eye(7)
    covariance[[0, 1, 1, 2], [1, 0, 2, 1]] = 0.9
    covariance[[0, 2], [2, 0]] = -0.9  # each pair may be, the three may not
    with pytest.raises(ValidationError, match="is no covariance: it is not positive semidefinite"):
        MountOptions.model_validate({"covariance": covariance.tolist()})
    for seed in range(50):  # of components that depend on each other, as they are written
        root = np.random.default_rng(seed).normal(size=(7, 1 + seed % 3)) * np.logspace(-4, 0, 7)[:, None]
        rounded = [[float(f"{value:.4g}") for value in row] for row in root @ root.T]
        assert MountOptions.model_validate({"covariance": rounded}).covariance is not None
