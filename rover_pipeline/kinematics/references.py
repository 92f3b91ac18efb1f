"""References that several rooms declare when they need the lidar's trajectory."""

from __future__ import annotations

#: All of `_odom` that a trajectory is made from; see `Trajectory.of`.
_CHANNELS = ("ts", "pos", "rot", "vel", "acc", "avel", "valid")
ODOMETRY = tuple(f"_odom/{channel}" for channel in _CHANNELS)
#: The same of `_radar_odom`.
RADAR_ODOMETRY = tuple(f"_radar_odom/{channel}" for channel in _CHANNELS)
