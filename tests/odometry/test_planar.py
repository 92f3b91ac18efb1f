"""A planar laser scanner sees no surfaces: its poses cannot be known, and say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.odometry.registration.cross_validation import NO_FIT, noise_scale
from rover_pipeline.table import find_step
from tests.importers import bags
from tests.importers.bags import START, Sent, header


def ranges(number: int, angles: np.ndarray) -> np.ndarray:
    """Ranges of a robot that drives through a room of 12 x 8 m with three pillars, with 1 cm of noise, f4 (ray,), m."""
    s = 0.1 * number
    x, y, angles = 2 * np.sin(0.2 * s), np.sin(0.13 * s), angles + 0.3 * np.sin(0.1 * s)
    ahead = np.stack([np.cos(angles), np.sin(angles)])
    ahead[np.abs(ahead) < 1e-9] = 1e-9
    distance = np.min([(np.sign(a) * half - at) / a for a, half, at in zip(ahead, (6, 4), (x, y), strict=True)], 0)
    for pillar in ((3, 2), (-2, -2.5), (-4, 1)):
        along = ahead.T @ (np.array(pillar) - (x, y))
        inside = 0.16 - np.sum((np.array(pillar) - (x, y)) ** 2) + along**2
        hit = (along > 0) & (inside > 0)
        distance[hit] = np.minimum(distance[hit], along[hit] - np.sqrt(inside[hit]))
    return (distance + 0.01 * np.random.default_rng(number).normal(size=len(angles))).astype("f4")


def test_the_poses_of_a_planar_scanner_are_not_valid_and_the_reason_is_told(tmp_path: Path) -> None:
    angles = np.linspace(-np.pi, np.pi, 360, endpoint=False)
    sent = []
    for number in range(200):
        stamp = START + number * 100_000_000
        limits = (-np.pi, np.pi, 2 * np.pi / 360, 0.0, 0.1, 0.1, 30.0)
        fields = (header(stamp), *limits, ranges(number, angles), np.ones(360, "f4"))
        sent.append(Sent("/scan", "sensor_msgs/msg/LaserScan", stamp, fields))
    trace = tmp_path / "trace"
    import_ros([bags.write_ros1(tmp_path / "a.bag", sent)], trace, say=lambda text: None)
    result = run_step(find_step("_odom"), trace, "_odom", Request())
    assert result.invalid == result.samples == 200
    assert np.isfinite(Sensor(trace / "_odom").channel("pos").read()).all()
    provenance = read_provenance(trace / "_odom")
    assert provenance and any("not to be trusted" in note for note in provenance["notes"])


def test_residuals_that_are_only_rounding_tell_no_noise() -> None:
    rounding, measured = NO_FIT._replace(noise=7e-26), NO_FIT._replace(noise=0.8)
    assert noise_scale([rounding] * 5) == 1.0
    assert noise_scale([rounding, measured]) == pytest.approx(0.8)
