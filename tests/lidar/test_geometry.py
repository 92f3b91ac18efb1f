"""Destaggering, by ouster-sdk and as the format describes it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rover_pipeline.lidar.geometry import destagger, sensor_info
from tests.kit import ouster_metadata


def test_destaggering_is_the_shift_of_each_row_that_the_format_describes() -> None:
    metadata = ouster_metadata(8, 32)
    images = np.random.default_rng(0).integers(0, 65536, (3, 8, 32)).astype("u2")
    columns = np.arange(32)
    shifts = metadata["lidar_data_format"]["pixel_shift_by_row"]
    assert len(set(shifts)) > 1
    expected = np.stack([images[:, beam, (columns - shift) % 32] for beam, shift in enumerate(shifts)], axis=1)
    np.testing.assert_array_equal(destagger(images, sensor_info(json.dumps(metadata))), expected)


def test_images_of_another_sensor_are_refused_with_both_shapes() -> None:
    info = sensor_info(json.dumps(ouster_metadata(8, 32)))
    with pytest.raises(ValueError, match=r"8 x 32 pixels.*\(16, 32\)"):
        destagger(np.zeros((1, 16, 32), "u2"), info)


def test_text_that_is_no_sensor_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lidar\.json is not the metadata of an Ouster sensor"):
        sensor_info("{}")
