"""References that several rooms declare when they need the lidar's trajectory."""

from __future__ import annotations

#: All of `_odom` that a trajectory is made from; see `Trajectory.of`.
ODOMETRY = tuple(f"_odom/{channel}" for channel in ("ts", "pos", "rot", "vel", "acc", "avel", "valid"))
