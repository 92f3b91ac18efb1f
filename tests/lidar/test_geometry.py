"""Destaggering, by ouster-sdk and as the format describes it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from ouster.sdk import core

from rover_pipeline.importers.ouster import end_of_sweep
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import destagger, sensor_info, stagger, sweep_span
from tests.kit import ouster_metadata

COLUMNS, PERIOD = 1024, 0.1


def windowed(first: int, last: int) -> core.SensorInfo:
    """A sensor that turns ten times a second and transmits the columns of an azimuth window only."""
    metadata = ouster_metadata(8, COLUMNS)
    metadata["lidar_data_format"]["column_window"] = [first, last]
    metadata["config_params"]["lidar_mode"] = "1024x10"
    return sensor_info(json.dumps(metadata))


def column_instants(info: core.SensorInfo, reference: str) -> np.ndarray:
    """Instants of the columns after the time stamp, f8 (column,) seconds, as the deskew takes them: the positions of a
    lidar that moves at 1 m/s."""
    ts = np.arange(5) * PERIOD
    along = np.stack([ts, 0 * ts, 0 * ts], axis=1)
    forward, nothing = np.tile([1.0, 0.0, 0.0], (5, 1)), np.zeros((5, 3))
    states = State(pos=along, rot=np.tile(np.eye(3), (5, 1, 1)), vel=forward, acc=nothing, avel=nothing)
    motion = SweepMotion(Trajectory(ts, states, np.ones(5)), *sweep_span(info, reference))
    return np.asarray(motion.columns(2, COLUMNS).pos[:, 0] - ts[2])


@pytest.mark.parametrize(("first", "last"), [(0, 1023), (256, 767), (600, 1023), (0, 15)])
def test_a_sweep_begins_and_ends_with_the_azimuth_window_of_the_sensor(first: int, last: int) -> None:
    info, column = windowed(first, last), PERIOD / COLUMNS
    arrived, started = column_instants(info, "end"), column_instants(info, "start")
    # A column is complete, and can be sent, when the next one begins.
    assert arrived[last] + column == pytest.approx(0, abs=1e-9)
    assert started[first] == pytest.approx(0, abs=1e-9)
    middle = column_instants(info, "middle")
    assert middle[first] + middle[last] + column == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(np.diff(arrived), column, atol=1e-9)


def test_a_window_that_contains_the_zero_of_the_encoder_gives_sweeps_of_a_whole_revolution() -> None:
    for reference in ("start", "middle", "end"):
        assert sweep_span(windowed(768, 255), reference) == sweep_span(windowed(0, 1023), reference)


def test_a_sweep_of_a_window_arrives_with_its_last_packet_and_is_complete() -> None:
    scan = core.LidarFrame(windowed(256, 767))
    scan.status[256:768] = 1
    scan.packet_timestamp[16:48] = 1_700_000_000_000_000_000 + np.arange(32) * 1_562_500
    assert scan.complete()
    assert end_of_sweep(scan) == pytest.approx(1.7e9 + 31 * 0.0015625, abs=1e-6)


def test_destaggering_is_the_shift_of_each_row_that_the_format_describes() -> None:
    metadata = ouster_metadata(8, 32)
    images = np.random.default_rng(0).integers(0, 65536, (3, 8, 32)).astype("u2")
    columns = np.arange(32)
    shifts = metadata["lidar_data_format"]["pixel_shift_by_row"]
    assert len(set(shifts)) > 1
    expected = np.stack([images[:, beam, (columns - shift) % 32] for beam, shift in enumerate(shifts)], axis=1)
    info = sensor_info(json.dumps(metadata))
    np.testing.assert_array_equal(destagger(images, info), expected)
    np.testing.assert_array_equal(stagger(expected, info), images)


@pytest.mark.parametrize("function", [destagger, stagger])
def test_images_of_another_sensor_are_an_error_with_both_shapes(function: Callable[..., np.ndarray]) -> None:
    info = sensor_info(json.dumps(ouster_metadata(8, 32)))
    with pytest.raises(ValueError, match=r"8 x 32 pixels.*\(16, 32\)"):
        function(np.zeros((1, 16, 32), "u2"), info)


def test_text_that_is_not_the_metadata_of_a_sensor_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"lidar\.json is not the metadata of an Ouster sensor"):
        sensor_info("{}")
