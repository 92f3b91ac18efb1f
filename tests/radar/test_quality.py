"""Saturated samples are counted, and only those."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.radar.steps import quality
from tests.kit import check_virtual_sensor, small_trace


def test_values_at_either_limit_are_clipped_and_the_largest_ones_below_are_not() -> None:
    iq = np.zeros((3, 2, 1, 4, 8), "i2")
    iq[0, 0, 0, 0, :4] = 32767, -32768, 32766, -32767
    iq[2] = -32768
    np.testing.assert_array_equal(quality(iq), np.array([2 / 64, 0, 1], "f4"))


def test_the_quality_of_a_radar_keeps_the_promises_of_the_contract(tmp_path: Path) -> None:
    check_virtual_sensor("_radar_quality", small_trace(tmp_path / "trace"), "_radar_quality", kills=0)
