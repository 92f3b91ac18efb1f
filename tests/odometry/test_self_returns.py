"""What a lidar sees of its own rig: left out where it is declared, a doubt where it is not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from rover_pipeline.kinematics.options import OwnRegion, RigOptions
from rover_pipeline.kinematics.stated import find_own
from rover_pipeline.odometry.self_returns import candidates, outside, regions_of
from tests.campaign import hostile

COUNT, BEAMS, COLUMNS = 30, 16, 128
#: Columns that a board on the rig hides, and its distance, mm.
BOARD, AWAY = slice(40, 90), 700


def world(rng: np.random.Generator, *, moves: bool) -> np.ndarray:
    """Range images of a world that passes by, or stands still, u2 (sweep, beam, column), mm."""
    still = rng.uniform(1500, 20000, (BEAMS, COLUMNS))
    way = 200.0 * np.arange(COUNT)[:, None, None] if moves else np.zeros((COUNT, 1, 1))
    return (still + way + rng.normal(0, 8, (COUNT, BEAMS, COLUMNS))).astype("u2")


def with_board(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    images = images.copy()
    images[..., BOARD] = AWAY + rng.normal(0, 8, images[..., BOARD].shape)
    # Now and then there is no return, or something comes between.
    images[rng.random(images.shape) < 0.03] = 0
    return images


def lines(turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Lines of the returns of a lidar of 16 beams from -30 to 15 degrees, turned by some degrees to the left."""
    azimuth = np.radians(turn - 360 * np.arange(COLUMNS) / COLUMNS)
    up = np.radians(np.linspace(15, -30, BEAMS))[:, None]
    direction = np.stack(
        np.broadcast_arrays(np.cos(up) * np.cos(azimuth), np.cos(up) * np.sin(azimuth), np.sin(up)), -1
    )
    return np.zeros_like(direction), direction / 1000


def test_a_board_on_a_rig_that_moves_is_a_candidate_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    own = candidates(with_board(world(rng, moves=True), rng))
    assert own is not None
    found = own > 0
    assert found[:, BOARD].mean() > 0.95 and found.mean() < 0.42


@pytest.mark.parametrize("turn", [0.0, 77.0, 180.0])
def test_the_regions_proposed_hold_the_board_and_leave_what_is_beside_and_behind_it(turn: float) -> None:
    rng = np.random.default_rng(1)
    images = with_board(world(rng, moves=True), rng)
    own = candidates(images)
    assert own is not None
    start, direction = lines(turn)
    (region,) = regions_of(own, start, direction)
    assert region.range == 0.75 and region.elevation == pytest.approx((-30, 15), abs=1)
    kept = outside((images[3][..., None] * direction).reshape(-1, 3), (region,)).reshape(BEAMS, COLUMNS)
    returned = images[3] > 0
    assert not kept[:, BOARD][returned[:, BOARD]].any()
    beside = np.delete(kept, np.arange(BOARD.start - 1, BOARD.stop + 1), axis=1)
    assert beside[np.delete(returned, np.arange(BOARD.start - 1, BOARD.stop + 1), axis=1)].all()
    behind = (3000.0 * direction[:, BOARD]).reshape(-1, 3)
    assert outside(behind, (region,)).all()


def test_a_rig_all_around_is_one_region() -> None:
    start, direction = lines()
    (region,) = regions_of(np.full((BEAMS, COLUMNS), AWAY, "u2"), start, direction)
    assert not outside((AWAY * direction).reshape(-1, 3), (region,)).any()


def test_of_a_rig_that_stands_and_of_a_smooth_floor_nothing_is_a_candidate() -> None:
    rng = np.random.default_rng(2)
    assert candidates(with_board(world(rng, moves=False), rng)) is None
    images = world(rng, moves=True)
    # Below a trolley, beams that look down meet the floor from 1 to 5 m away, always at the same range.
    images[:, -6:] = np.linspace(1000, 5000, 6)[None, :, None] + rng.normal(0, 6, (COUNT, 6, COLUMNS))
    assert candidates(images) is None


def test_few_sweeps_and_an_empty_view_show_nothing() -> None:
    images = world(np.random.default_rng(4), moves=True)
    assert candidates(images[:5]) is None
    assert candidates(np.zeros_like(images)) is None
    assert candidates(np.full_like(images, 65535)) is None


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
def test_who_sees_a_board_in_half_of_the_view_knows_the_way_once_the_board_is_declared_as_proposed(
    tmp_path: Path, number: int
) -> None:
    # In the first of these recordings the board had held the car by a metre, and poses were valid.
    verdict, _ = hostile.play("half_of_the_view_is_hidden", number, 88, tmp_path)
    assert verdict.wrong == 0
    (proposed,) = re.findall(r"set `rig.own: (.*?)` if it is the rig", verdict.said)
    (trace,) = tmp_path.iterdir()
    config = yaml.safe_load((trace / "config.yaml").read_text())
    config["rig"] = {**config.get("rig", {}), "own": yaml.safe_load(proposed)}
    (trace / "config.yaml").write_text(yaml.safe_dump(config))
    declared, _ = hostile.play("half_of_the_view_is_hidden", number, 88, tmp_path)
    assert declared.wrong == 0 and declared.valid > 0.8 * declared.frames and declared.ate < 0.02
    assert "rig.own" not in declared.said
