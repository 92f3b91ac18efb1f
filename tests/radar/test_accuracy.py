"""How well directions are known: deviations that are those of the errors, and none where the array measures nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline.calibrate.array import strongest_directions
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.radar.angles import deviations, in_beams, plane_waves
from rover_pipeline.radar.boards import BOARDS, Board
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE
from tests.radar.scenes import Target, chirps, texts, words

COUNT = 400


def echoes(board: Board, degrees: float, snr: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Snapshots of echoes, each of an array with phases of its own that are off, and sines of their directions."""
    rng = np.random.default_rng(seed)
    right, up = rng.uniform(-0.6, 0.6, COUNT), rng.uniform(-0.25, 0.25, COUNT) * board.has_elevation
    shape = (COUNT, len(board.signs))
    snapshots = plane_waves(board, right, up) * np.exp(1j * np.radians(degrees) * rng.standard_normal(shape))
    noise = rng.standard_normal((2, *shape)) / np.sqrt(2 * snr)
    return snapshots + noise[0] + 1j * noise[1], right, up


@pytest.mark.parametrize("device", ["AWR1843", "AWR1642", "IWR6843"])
@pytest.mark.parametrize(("degrees", "snr_db"), [(0.0, 15.0), (0.0, 25.0), (15.0, 30.0), (30.0, 25.0)])
def test_errors_of_directions_are_as_large_as_their_deviations(device: str, degrees: float, snr_db: float) -> None:
    board, snr = BOARDS[device], 10 ** (snr_db / 10)
    snapshots, right, up = echoes(board, degrees, snr, 0)
    found = np.stack(strongest_directions(board, snapshots), axis=1)
    # What a recording's most coherent echoes leave unexplained, as `prepare` takes it.
    fitted = 1 + 1 + board.has_elevation
    error = np.radians(degrees) ** 2 * (len(board.signs) - fitted) / len(board.signs)
    deviation = deviations(board, snapshots, np.full(COUNT, snr), found[:, 0], found[:, 1], error / (1 + error))
    squared = ((found - np.stack([right, up], axis=1)) / deviation) ** 2
    assert 0.5 < np.median(squared[:, 0]) / 0.455 < 1.6
    if board.has_elevation:
        assert 0.5 < np.median(squared[:, 1]) / 0.455 < 1.6
    else:
        assert np.isnan(deviation[:, 1]).all()


def test_an_axis_without_antennas_and_an_oblique_line_of_them_have_no_deviation() -> None:
    one, column, oblique, corner = (
        Board(tx=((0, 0),), rx=rx)
        for rx in (((0, 0),), ((0, 0), (0, 1)), ((0, 0), (1, 1), (2, 2)), ((0, 0), (1, 0), (0, 1)))
    )
    for board, known in ((one, (0, 0)), (column, (0, 1)), (oblique, (0, 0)), (corner, (1, 1))):
        nothing = np.zeros(1)
        deviation = deviations(board, plane_waves(board, nothing, nothing), np.full(1, 100.0), nothing, nothing, 0.0)
        np.testing.assert_array_equal(np.isfinite(deviation[0]), known)


def test_the_spread_of_points_is_that_of_the_targets_in_their_cells() -> None:
    board, rng = BOARDS["AWR1843"], np.random.default_rng(0)
    for height in (0.0, 0.05, 0.1):
        up, phase = rng.normal(0.1, height, (8, COUNT)), rng.uniform(0, 2 * np.pi, (8, COUNT, 1))
        snapshots = sum(np.exp(1j * phase[k]) * plane_waves(board, np.zeros(COUNT), up[k]) for k in range(8))
        _, spread = in_beams(board, (snapshots,) * 3, *strongest_directions(board, snapshots))
        power = (np.abs(snapshots) ** 2).mean(axis=1)
        strong = power > power.mean() / 2  # where waves cancel each other is no peak
        assert 0.7 * height - 0.001 < np.sqrt((spread[strong, 1] ** 2).mean()) < 1.3 * height + 0.001
        assert np.median(spread[:, 0]) < 0.002


def test_the_doppler_of_a_point_is_that_of_its_beam() -> None:
    chirp = chirps("AWR1843", frame_length=32)
    bins = chirp.doppler_resolution
    left, right = Target(3.0, -0.5, 0.0, 4.0 * bins), Target(3.0, 0.5, 0.0, 4.5 * bins, 700.0)
    options, whole = PointsOptions(max_folds=0), np.ones(1, "u1")
    found = points(words(chirp, [left, right])[None], whole, options=options, **texts(chirp))
    assert abs(found["doppler"][0, 0] / bins - 4.0) < 0.05


def test_a_direction_at_an_edge_of_the_search_is_not_certain() -> None:
    chirp = chirps("AWR1843", frame_length=32)
    inside, above, aside = Target(2.0, 0.3, 0.1), Target(3.5, 0.0, np.radians(52)), Target(5.0, np.radians(89.9))
    frame = words(chirp, [inside, above, aside])
    found = points(frame[None], np.ones(1, "u1"), options=PointsOptions(max_folds=0), **texts(chirp))
    distance = np.linalg.norm(found["xyz"][0, : found["count"][0]], axis=1)
    place = {name: np.abs(distance - each.range_m).argmin() for name, each in (("in", inside), ("up", above))}
    assert found["certain"][0, place["in"]] == 1 and np.isfinite(found["deviation"][0, place["in"]]).all()
    assert found["certain"][0, place["up"]] == 0 and np.isnan(found["deviation"][0, place["up"]]).all()
    side = np.abs(distance - aside.range_m).argmin()
    assert found["certain"][0, side] == 0
    assert np.isnan(found["deviation"][0, found["count"][0] :]).all()


@pytest.mark.parametrize("degrees", [15, 35])
def test_a_radar_whose_phases_are_off_knows_how_wrong_its_velocity_may_be(degrees: int, tmp_path: Path) -> None:
    # Directions are turned alike: errors of 5 and 20 cm/s were called 1 and 2 cm/s.
    simulate(
        tmp_path / "walk", preset=PRESETS["indoor"], duration=2.5, seed=2, faults=[f"array-phase={degrees}"],
        threads=1, sensors=("radar",),
    )  # fmt: skip
    for name in ("_radar_points", "_radar_velocity"):
        run_step(TABLE[name], tmp_path / "walk", name, Request({}))
    trace = rp.open(tmp_path / "walk")
    sensor, truth = trace["radar_velocity"], trace["truth_radar"]
    error = sensor.vel[sensor.valid] - truth.ego_vel[sensor.valid]
    squared = np.einsum("ni,nij,nj->n", error, np.linalg.inv(sensor["cov"][sensor.valid].astype("f8")), error)
    assert sensor.valid.mean() > 0.8 and 0.1 < squared.mean() / 3 < 3
