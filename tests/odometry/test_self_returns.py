"""What a lidar sees of its own rig: left out where it is declared."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from rover_pipeline.kinematics.options import OwnRegion, RigOptions
from rover_pipeline.kinematics.stated import find_own
from rover_pipeline.lidar.geometry import projection
from rover_pipeline.odometry.clouds import outside
from tests.campaign import hostile
from tests.campaign.hostile_raw import Raw


def test_points_are_left_out_inside_of_boxes_and_of_sectors_over_the_back() -> None:
    points = np.array([[-0.5, 0.01, 0], [-0.5, -0.01, 0], [0.5, 0, 0], [-2, 0, 0], [-0.5, 0, 0.6], [0.2, 0.1, -0.3]])
    sector = OwnRegion(azimuth=(170, 190), elevation=(-20, 20), range=1.0)
    np.testing.assert_array_equal(outside(points, (sector,)), [False, False, True, True, True, True])
    box = OwnRegion(box=((0, 0, -0.4), (0.3, 0.3, 0)))
    np.testing.assert_array_equal(outside(points, (sector, box)), [False, False, True, True, True, False])
    assert outside(points, ()).all()


def test_the_recording_may_declare_what_the_configuration_does_not() -> None:
    recorded = "rig:\n  own:\n  - {azimuth: [-20, 20], range: 0.8}\n  radar: nonsense\n"
    assert find_own(RigOptions(), recorded) == (OwnRegion(azimuth=(-20, 20), range=0.8),)
    assert find_own(RigOptions(own=()), recorded) == ()
    assert find_own(RigOptions(), "rig: iq1m") is None and find_own(RigOptions(), None) is None


@pytest.mark.parametrize(
    "wrong", [{}, {"azimuth": (0, 10)}, {"range": 1, "azimuth": (10, 0)}, {"range": 1, "box": ((0, 0, 0), (1, 1, 1))}]
)
def test_a_region_without_a_limit_or_with_limits_that_fall_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="must have"):
        OwnRegion.model_validate(wrong)


@pytest.mark.parametrize("number", [0, 1])
def test_who_sees_a_board_in_half_of_the_view_knows_the_way_once_the_board_is_declared(
    tmp_path: Path, number: int
) -> None:
    # In the first of these recordings the board had held the car by a metre, and poses were valid.
    verdict, drawn = hostile.play("half_of_the_view_is_hidden", number, 88, tmp_path)
    assert verdict.wrong == 0
    (distance,) = re.findall(r"hidden at ([0-9.]+) m", drawn)
    (trace,) = tmp_path.iterdir()
    config = yaml.safe_load((trace / "config.yaml").read_text())
    # It is flat, and up to 75 degrees to each side of its middle. Beams above the horizon see no ground instead.
    farthest = float(float(distance) / np.cos(np.radians(75.0))) + 0.1
    metadata, nearest = (trace / "lidar" / "lidar.json").read_text(), Raw.of(trace).lidar["rng"].max(axis=0)
    xyz = projection(metadata)(nearest.astype("u4"))[(nearest > 0) & (nearest < 1000 * farthest)]
    xyz = xyz[xyz[:, 2] > 0]
    azimuth = np.sort(np.degrees(np.arctan2(xyz[:, 1], xyz[:, 0])))
    end = int(np.diff(azimuth, append=azimuth[0] + 360).argmax())  # the rest of the view begins there
    begin = float(azimuth[(end + 1) % len(azimuth)]) - 1
    sector = [begin, begin + (float(azimuth[end]) + 1 - begin) % 360]
    config["rig"] = {**config.get("rig", {}), "own": [{"azimuth": sector, "range": farthest}]}
    (trace / "config.yaml").write_text(yaml.safe_dump(config))
    declared, _ = hostile.play("half_of_the_view_is_hidden", number, 88, tmp_path)
    assert declared.wrong == 0 and declared.valid > 0.8 * declared.frames and declared.ate < 0.02
