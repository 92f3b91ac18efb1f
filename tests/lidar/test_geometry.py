"""Destaggering, by ouster-sdk and as the format describes it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from rover_pipeline.lidar.geometry import destagger, sensor_info, stagger
from tests.kit import ouster_metadata


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
