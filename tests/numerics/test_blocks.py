"""Arrays that are computed in parts have the bytes of those that are computed at once."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration import batch
from rover_pipeline.odometry.spline import SplineTrajectory


def test_parts_cover_every_sample_once_in_order() -> None:
    for count in (0, 1, 5, 6, 7):
        assert [n for part in blocks(count, 3) for n in range(count)[part]] == list(range(count))


def test_the_equations_of_a_trajectory_are_the_same_whatever_the_size_of_the_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    trajectory = SplineTrajectory.at_rest(0.0, 5.0, 0.05)
    trajectory = trajectory._replace(pos=np.cumsum(rng.normal(0, 0.01, trajectory.pos.shape), axis=0))
    system = batch.SplineSystem(trajectory, OdometrySection())
    system.band[0] += rng.uniform(1, 2, system.band[0].shape)
    system.right += rng.normal(size=system.right.shape)
    once = system.matrix(1.5), system.solve(1.5)[0].pos
    monkeypatch.setattr(batch, "CONTROLS", 16)
    parts = system.matrix(1.5), system.solve(1.5)[0].pos
    assert [each.tobytes() for each in once] == [each.tobytes() for each in parts]
