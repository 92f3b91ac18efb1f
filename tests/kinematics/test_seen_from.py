"""A sensor's pose in the frame of another sensor of the rig."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.rig import MOUNTS


def test_a_pose_seen_from_another_sensor_is_the_same_pose() -> None:
    radar, camera = MOUNTS["radar"], MOUNTS["camera"]
    seen = camera.seen_from(radar)
    np.testing.assert_allclose(radar.rotation @ seen.translation + radar.translation, camera.translation, atol=1e-12)
    np.testing.assert_allclose(radar.rotation @ seen.rotation, camera.rotation, atol=1e-12)
    itself = radar.seen_from(radar)
    np.testing.assert_allclose(itself.translation, 0, atol=1e-12)
    np.testing.assert_allclose(itself.rotation, np.eye(3), atol=1e-12)
