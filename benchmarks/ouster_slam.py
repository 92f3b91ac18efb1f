"""Odometry by ouster-sdk, for comparison."""

from __future__ import annotations

import numpy as np
from ouster.sdk import core, mapping

from rover_pipeline.lidar.geometry import sensor_info
from rover_pipeline.lidar.ranges import CLIPPED


class OusterOdometry:
    """ouster-sdk's SLAM with its default options. It writes log lines of its own."""

    def __init__(self, metadata: str) -> None:
        self._info = sensor_info(metadata)
        self._engine = mapping.SlamEngine.create([self._info])
        self._number = 0
        self._start: float | None = None

    def poses(self, ranges: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Poses at every column of a sweep, in the frame of the first pose; f8 (column, 4, 4).

        Args:
            ranges: u2 (beam, column), mm, staggered.
            times: f8, seconds, of which the first one is that of the first column.
        """
        columns = self._info.format.columns_per_frame
        period = 1 / self._info.format.fps
        if self._start is None:
            self._start = float(times[0]) - 1.0
        stamps = ((times[0] - self._start + period * np.arange(columns) / columns) * 1e9).astype("u8")
        frame = core.LidarFrame(self._info)
        frame.field("RANGE")[:] = np.where(ranges < CLIPPED, ranges, 0)
        frame.timestamp[:], frame.status[:], frame.measurement_id[:] = stamps, 1, np.arange(columns)
        packet = self._info.format.columns_per_packet
        frame.packet_timestamp[:] = stamps[packet - 1 :: packet]
        frame.frame_id = self._number
        self._number += 1
        updated = self._engine.update(core.FrameSet([frame]))[0]
        assert updated is not None
        return np.array(updated.body_to_world)
