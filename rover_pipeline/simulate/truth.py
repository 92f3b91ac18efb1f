"""The ground truth: the states of the sensors and of the moving bodies at the instants of the samples.

The world frame of the truth is the pose of the lidar at its first sample, like that of an estimate that starts there.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.rig import Rig
from rover_pipeline.simulate.sensors.clocks import EPOCH, Tick


class Truth:
    """The ground truth of one sensor of a rig, in the world frame.

    Attributes:
        bodies: number of moving bodies that the truth of this sensor gives.
    """

    def __init__(self, rig: Rig, sensor: str) -> None:
        self._rig, self._sensor, self._motion = rig, sensor, rig.mounted(sensor)
        self.bodies = len(rig.world.bodies) if sensor in ("lidar", "radar") else 0
        first = rig.motion.at(np.array([rig.clocks["lidar"].start]))
        #: Pose of the world frame in the scene frame.
        self._pos, self._rot = first.pos[0], first.rot[0]

    def at(self, tick: Tick) -> dict[str, np.ndarray | float]:
        """The truth about one sample: channel name -> one value, or an array with a first axis of length one."""
        state = self._motion.at(np.array([tick.time]))
        state = state._replace(pos=state.pos - self._pos).rotated(self._rot.T)
        row: dict[str, np.ndarray | float] = {"true_ts": EPOCH + tick.time, **state._asdict()}
        if self._sensor == "radar":
            middle = self._motion.at(np.array([tick.time + self._rig.preset.radar.duration / 2]))
            row["ego_vel"] = middle.vel @ middle.rot[0]
        if self.bodies:
            states = self._rig.world.body_states(tick.time)
            pos, vel = (states[:, :3] - self._pos) @ self._rot, states[:, 3:] @ self._rot
            row["bodies"] = np.concatenate([pos, vel], -1)[None]
        return row

    def objects(self, tick: Tick, returns: np.ndarray) -> dict[str, np.ndarray | float]:
        """The boxes of all moving bodies at one sample, in the channels of `_objects` as far as these are known.

        Args:
            returns: i8 (body,), returns of the sweep from each body.
        """
        bodies = self._rig.world.bodies
        boxes = [body.box() for body in bodies]
        at = [body.at(tick.time) for body in bodies]
        centre = np.array([pos + rot @ middle for (pos, rot, _), (middle, _) in zip(at, boxes, strict=True)])
        ahead = np.array([rot[:, 0] for _, rot, _ in at]) @ self._rot
        return {
            "centre": ((centre - self._pos) @ self._rot)[None],
            "extent": np.array([extent for _, extent in boxes])[None],
            "vel": (np.array([vel for *_, vel in at]) @ self._rot)[None],
            "yaw": np.arctan2(ahead[:, 1], ahead[:, 0])[None],
            "track": np.arange(len(bodies), dtype="i4")[None],
            "returns": returns.astype("u4")[None],
        }

    def description(self) -> dict[str, object]:
        """What does not change with time: the content of `truth.json`.

        All positions are in the world frame, metres; `up` is the direction away from gravity there.
        """
        rig = self._rig
        return {
            "seed": rig.seed,
            "preset": rig.preset.model_dump(),
            "up": self._rot[2].tolist(),
            "bodies": [body.name for body in rig.world.bodies],
            "targets": [
                {"name": target.name, "position": ((np.array(target.centre) - self._pos) @ self._rot).tolist()}
                for target in rig.world.targets
            ],
            "clocks": {name: vars(clock) for name, clock in rig.clocks.items()},
            "mounts": {
                name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
                for name, mount in rig.mounts.items()
            },
            "imu_errors": rig.imu_errors().description(),
        }
