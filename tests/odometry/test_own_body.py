"""What a lidar sees of its own rig: found where the world passes by, and left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.odometry.own_body import own_body, own_body_notes, without_own
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


def test_a_board_on_a_rig_that_moves_is_left_out_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    images = with_board(world(rng, moves=True), rng)
    own = own_body(images)
    assert own is not None
    found = own > 0
    assert found[:, BOARD].mean() > 0.95 and found.mean() < 0.42
    kept = without_own(images[3], own)
    assert (kept[:, BOARD] > 0).mean() < 0.05
    np.testing.assert_array_equal(kept[~found], images[3][~found])
    assert "39% of the view" in own_body_notes(own)[0] or "38% of the view" in own_body_notes(own)[0]


def test_what_comes_between_the_lidar_and_the_board_is_kept() -> None:
    rng = np.random.default_rng(1)
    images = with_board(world(rng, moves=True), rng)
    own = own_body(images)
    assert own is not None
    image = images[5].copy()
    image[:, 50:60] = 550
    np.testing.assert_array_equal(without_own(image, own)[:, 50:60], 550)


def test_of_a_rig_that_stands_nothing_is_left_out() -> None:
    rng = np.random.default_rng(2)
    assert own_body(with_board(world(rng, moves=False), rng)) is None


def test_a_smooth_floor_below_a_trolley_is_not_the_rig() -> None:
    rng = np.random.default_rng(3)
    images = world(rng, moves=True)
    # Beams that look down meet the floor from 1 to 5 m away, always at the same range.
    floor = np.linspace(1000, 5000, 6)[None, :, None] + rng.normal(0, 6, (COUNT, 6, COLUMNS))
    images[:, -6:] = floor
    assert own_body(images) is None


def test_few_sweeps_and_an_empty_view_tell_nothing() -> None:
    images = world(np.random.default_rng(4), moves=True)
    assert own_body(images[:5]) is None
    assert own_body(np.zeros_like(images)) is None
    assert own_body(np.full_like(images, 65535)) is None


@pytest.mark.parametrize("number", [0, 1])
def test_who_sees_a_board_in_half_of_the_view_still_knows_the_way(tmp_path: Path, number: int) -> None:
    # In the first of these recordings the board had held the car by a metre, and poses were valid.
    verdict, _ = hostile.play("half_of_the_view_is_hidden", number, 88, tmp_path)
    assert verdict.wrong == 0 and verdict.valid > 0.8 * verdict.frames and verdict.ate < 0.02
