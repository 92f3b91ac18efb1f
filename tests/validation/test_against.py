"""Trajectories beside references of sensors of any name, and of a GNSS receiver at the end of a lever arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from rover_pipeline.format.sensor import TS, TS_SPEC, SensorWriter
from rover_pipeline.simulate.sensors.imu import geodetic
from rover_pipeline.validation.against import Against, Comparison, compare_trace
from tests.kit import spec_of, times

ARM = np.array([-1.6, -0.3, 0.05])
COUNT, SIGMA = 200, 0.02


def write(place: Path, **channels: np.ndarray) -> None:
    specs = {TS: TS_SPEC, **{name: spec_of(values) for name, values in channels.items()}}
    with SensorWriter(place, specs) as writer:
        writer.append(**{TS: times(COUNT)}, **channels)


@pytest.fixture
def turning(tmp_path: Path) -> Path:
    """A rig that drives in circles of 5 m, whose lidar and receiver have names of their own."""
    rng, angle = np.random.default_rng(0), np.arange(COUNT) / 10 * 0.4
    cos, sin, none, one = np.cos(angle), np.sin(angle), 0 * angle, np.ones(COUNT)
    rot = np.stack([[cos, -sin, none], [sin, cos, none], [none, none, one]]).transpose(2, 0, 1)
    pos = 5 * np.stack([sin, 1 - cos, none], axis=1)
    places = geodetic(pos + rot @ ARM + rng.normal(0, SIGMA, (COUNT, 3)))
    lat, lon, alt = np.array(list(places), "f8").reshape(COUNT, 3).T
    write(tmp_path / "top", rng=np.zeros((COUNT, 1), "u2"))
    write(tmp_path / "mast", lat=lat, lon=lon, alt=alt, cov=np.tile(np.eye(3, dtype="f4") * SIGMA**2, (COUNT, 1, 1)))
    cov = np.tile(np.eye(6, dtype="f4") * 1e-8, (COUNT, 1, 1))
    write(tmp_path / "_odom", pos=pos, rot=rot, cov=cov)
    write(tmp_path / "_truth", pos=pos, rot=rot)
    sections = {"top": {"type": "lidar"}, "mast": {"type": "gnss"}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(sections | {"rig": {"mast": {"translation": ARM.tolist()}}}))
    return tmp_path


def beside(trace: Path) -> dict[str, Comparison]:
    return {Path(each.against).name: each for each in compare_trace(trace, Against())}


def test_the_lever_arm_and_the_covariance_of_a_gnss_receiver_are_in_the_comparison(turning: Path) -> None:
    found = beside(turning)
    assert found["_truth"].accuracy is not None and found["_truth"].accuracy.ate_m == pytest.approx(0, abs=1e-6)
    accuracy = found["mast"].accuracy
    assert accuracy is not None and accuracy.ate_m is not None and accuracy.nees is not None
    assert accuracy.ate_m < 1.5 * np.sqrt(3) * SIGMA and 0.5 < accuracy.nees < 2
    assert "by the mount of the mast in `rig`" in found["mast"].notes


def test_a_receiver_whose_place_nobody_states_is_compared_and_its_distance_counts_as_error(turning: Path) -> None:
    (turning / "config.yaml").write_text("top: {type: lidar}\nmast: {type: gnss}\n")
    found = beside(turning)["mast"]
    assert found.accuracy is not None and found.accuracy.ate_m is not None and found.accuracy.ate_m > 0.2
    assert any("whose distance from the top counts as error" in each for each in found.notes)
