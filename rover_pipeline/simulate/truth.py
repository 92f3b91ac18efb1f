"""The ground truth: the states of the sensors and of the moving bodies at the instants of the samples.

The world frame of the truth is the pose of the main lidar at its first sample, like that of an estimate that starts
there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.format.meta import ChannelSpec, Format
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.rig import Rig
from rover_pipeline.simulate.sensors.clocks import EPOCH, Tick


class Truth:
    """The ground truth of one sensor of a rig, in the world frame.

    Attributes:
        bodies: number of moving bodies that the truth of this sensor gives.
    """

    def __init__(self, rig: Rig, sensor: str) -> None:
        self._rig, self._sensor, self._motion = rig, sensor, rig.mounted(sensor)
        self._is_radar = rig.sensors[sensor].type == "radar"
        self.bodies = len(rig.world.bodies) if self._is_radar or rig.sensors[sensor].type == "lidar" else 0
        first = rig.motion.at(np.array([rig.clocks[rig.main].start]))
        #: Pose of the world frame in the scene frame.
        self._pos, self._rot = first.pos[0], first.rot[0]

    def at(self, ticks: Sequence[Tick]) -> dict[str, np.ndarray]:
        """The truth about some samples: channel name -> array with the samples along its first axis."""
        times = np.array([tick.time for tick in ticks])
        state = self._motion.at(times)
        state = state._replace(pos=state.pos - self._pos).rotated(self._rot.T)
        rows: dict[str, np.ndarray] = {"true_ts": EPOCH + times, **state._asdict()}
        if self._is_radar:
            middle = self._motion.at(times + self._rig.of(self._sensor).radar.duration / 2)
            rows["ego_vel"] = matmul(middle.vel[:, None], middle.rot)[:, 0]
        if self.bodies:
            states = np.array([self._rig.world.body_states(tick.time) for tick in ticks])
            pos, vel = matmul(states[..., :3] - self._pos, self._rot), matmul(states[..., 3:], self._rot)
            rows["bodies"] = np.concatenate([pos, vel], -1)
        return rows

    def objects(self, tick: Tick, returns: np.ndarray) -> dict[str, np.ndarray | float]:
        """The boxes of all moving bodies at one sample, in the channels of `_objects` as far as these are known.

        Args:
            returns: i8 (body,), returns of the sweep from each body.
        """
        bodies = self._rig.world.bodies
        boxes = [body.box() for body in bodies]
        at = [body.at(tick.time) for body in bodies]
        centre = np.array([pos + matmul(rot, middle) for (pos, rot, _), (middle, _) in zip(at, boxes, strict=True)])
        ahead = matmul(np.array([rot[:, 0] for _, rot, _ in at]), self._rot)
        return {
            "centre": matmul(centre - self._pos, self._rot)[None],
            "extent": np.array([extent for _, extent in boxes])[None],
            "vel": matmul(np.array([vel for *_, vel in at]), self._rot)[None],
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
            "preset": rig.preset.describe(),
            "up": self._rot[2].tolist(),
            "bodies": [body.name for body in rig.world.bodies],
            "targets": [
                {"name": target.name, "position": matmul(np.array(target.centre) - self._pos, self._rot).tolist()}
                for target in rig.world.targets
            ],
            "clocks": {name: vars(clock) for name, clock in rig.clocks.items()},
            "mounts": {
                name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
                for name, mount in rig.mounts.items()
            },
            **{
                f"{name}_errors": rig.imu_errors(name).description()
                for name, sensor in rig.sensors.items()
                if sensor.type == "imu"
            },
        }


def truth_specs(type: str, bodies: int) -> dict[str, ChannelSpec]:
    specs = {
        TS: TS_SPEC,
        VALID: VALID_SPEC,
        "true_ts": channel("raw", "f8", (), "Instant the sample refers to, seconds since the Unix epoch."),
        "pos": channel("raw", "f8", (3,), "Position in the world, m. [xyz]"),
        "rot": channel("raw", "f8", (3, 3), "World-from-sensor rotation. [world, sensor]"),
        "vel": channel("raw", "f8", (3,), "Velocity in the world, m/s. [xyz]"),
        "acc": channel("raw", "f8", (3,), "Acceleration in the world, m/s2. [xyz]"),
        "avel": channel("raw", "f8", (3,), "Angular velocity in the sensor frame, rad/s. [xyz]"),
    }
    if type == "radar":
        desc = "Velocity over ground in the radar frame in the middle of the frame's chirps, m/s. [xyz]"
        specs["ego_vel"] = channel("raw", "f8", (3,), desc)
    if bodies:
        desc = "Feet and velocity of the moving bodies of truth.json in the world, m, m/s. [body, xyz and velocity]"
        specs["bodies"] = channel("raw", "f8", (bodies, 6), desc)
    return specs


def object_specs(bodies: int) -> dict[str, ChannelSpec]:
    vector = (bodies, 3)
    return {
        TS: TS_SPEC,
        VALID: VALID_SPEC,
        "centre": channel(
            "raw", "f8", vector, "Middle of the box of each body of truth.json in the world, m. [body, xyz]"
        ),
        "extent": channel(
            "raw", "f8", vector, "Length, width and height of the box along its own axes, m. [body, xyz]"
        ),
        "vel": channel("raw", "f8", vector, "Velocity in the world, m/s. [body, xyz]"),
        "yaw": channel("raw", "f8", (bodies,), "Where the body heads in the world, rad, to the left of x. [body]"),
        "track": channel("raw", "i4", (bodies,), "Number of the body. [body]"),
        "returns": channel("raw", "u4", (bodies,), "Number of the sweep's returns from the body. [body]"),
    }


def channel(format: Format, type: str, shape: tuple[int, ...], desc: str) -> ChannelSpec:
    return ChannelSpec(format=format, type=type, shape=shape, desc=desc)
