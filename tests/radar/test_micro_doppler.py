"""`_radar_micro_doppler`: the velocities of a swinging arm over time, and where it is."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.radar.steps import micro_doppler, range_doppler
from tests.radar.scenes import Target, chirps, texts, words

CHIRP = chirps()
OPTIONS = RangeDopplerOptions()


def test_the_strongest_velocity_and_its_distance_are_those_of_an_arm_that_swings() -> None:
    swing = 1.5 * np.sin(np.linspace(0, 2 * np.pi, 12))
    away = 3.0 + 0.1 * np.cos(np.linspace(0, 2 * np.pi, 12))
    wall = Target(5.0, counts=300.0)
    frames = np.stack(
        [
            words(CHIRP, [Target(r, velocity_mps=v), wall], seed=n)
            for n, (r, v) in enumerate(zip(away, swing, strict=True))
        ]
    )
    found = micro_doppler(frames, options=OPTIONS, **texts(CHIRP))
    peak = found["power"].argmax(axis=1)
    centre = found["power"].shape[1] // 2
    np.testing.assert_allclose((peak - centre) * CHIRP.doppler_resolution, swing, atol=0.6 * CHIRP.doppler_resolution)
    np.testing.assert_allclose(found["range"][range(12), peak], away, atol=1.1 * CHIRP.range_resolution)
    fast = np.abs(swing) > 3 * CHIRP.doppler_resolution
    assert (np.abs(found["range"][fast, centre] - 5.0) < 0.1).all(), "what stands still is the wall"


def test_the_power_of_a_velocity_is_that_of_all_distances_of_range_doppler() -> None:
    frames = words(CHIRP, [Target(2.0, velocity_mps=1.0), Target(6.0, velocity_mps=-2.0)])[None]
    power = range_doppler(frames, options=OPTIONS, **texts(CHIRP)).astype("f8")
    found = micro_doppler(frames, options=OPTIONS, **texts(CHIRP))
    np.testing.assert_allclose(found["power"], 10 * np.log10((10 ** (power / 10)).sum(axis=2)), atol=1e-3)


def test_without_a_sidecar_distances_are_not_known() -> None:
    frames = words(CHIRP, [Target(2.0)])[None]
    assert np.isnan(micro_doppler(frames, options=OPTIONS)["range"]).all()
