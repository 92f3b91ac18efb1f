"""`_truth` and `_truth_<sensor>`: where the sensors and the moving bodies really were, sample by sample.

The world frame is the lidar's pose at its first sample, like that of an estimate that starts there. A row tells of
the instant that the sample of the same number refers to, `true_ts`; `ts` is what the host wrote down for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from rover_pipeline import __version__
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.simulate.clocks import EPOCH, Tick
from rover_pipeline.simulate.motion import Kinematics
from rover_pipeline.simulate.rig import Rig

SIDECAR = "truth.json"


def _raw(shape: tuple[int, ...], desc: str) -> ChannelSpec:
    return ChannelSpec(format="raw", type="f8", shape=shape, desc=desc)


class Truth:
    """Writes the truth beside one sensor. Use as a context manager.

    Attributes:
        up: the direction away from gravity in the world frame.
    """

    def __init__(self, folder: Path, sensor: str, rig: Rig) -> None:
        self.name = "_truth" if sensor == "lidar" else f"_truth_{sensor}"
        self._rig, self._sensor = rig, sensor
        self._motion = rig.mounted(sensor)
        first = rig.motion.at(np.array([rig.clocks["lidar"].start]))
        self._origin, self._turn = first.pos[0], first.rot[0]
        self.up: list[float] = self._turn[2].tolist()
        specs = {
            TS: TS_SPEC,
            VALID: VALID_SPEC,
            "true_ts": _raw((), "Instant the sample refers to, seconds since the Unix epoch."),
            "pos": _raw((3,), "Position in the world, m. [xyz]"),
            "rot": _raw((3, 3), "World-from-sensor rotation. [world, sensor]"),
            "vel": _raw((3,), "Velocity in the world, m/s. [xyz]"),
            "acc": _raw((3,), "Acceleration in the world, m/s2. [xyz]"),
            "avel": _raw((3,), "Angular velocity in the sensor frame, rad/s. [xyz]"),
        }
        if sensor == "radar":
            specs["ego_vel"] = _raw(
                (3,), "Velocity over ground in the radar frame in the middle of the frame's chirps, m/s. [xyz]"
            )
        if sensor in ("lidar", "radar") and rig.world.bodies:
            desc = f"Feet and velocity of the moving bodies of {SIDECAR} in the world, m, m/s. [body, xyz and velocity]"
            specs["bodies"] = _raw((len(rig.world.bodies), 6), desc)
        self._writer = SensorWriter(folder / self.name, specs)
        self._made: list[str] = sorted(specs)

    def append(self, tick: Tick) -> None:
        """The truth about one sample."""
        state = self.in_world(self._motion.at(np.array([tick.time])))
        row: dict[str, np.ndarray | float] = {
            TS: tick.stamp, VALID: 1, "true_ts": EPOCH + tick.time,
            "pos": state.pos, "rot": state.rot, "vel": state.vel, "acc": state.acc, "avel": state.avel,
        }  # fmt: skip
        if self._sensor == "radar":
            middle = self._motion.at(np.array([tick.time + self._rig.preset.radar.duration / 2]))
            row["ego_vel"] = middle.vel @ middle.rot[0]
        if "bodies" in self._writer.specs:
            states = self._rig.world.body_states(tick.time)
            row["bodies"] = np.concatenate(
                [(states[:, :3] - self._origin) @ self._turn, states[:, 3:] @ self._turn], -1
            )[None]
        self._writer.append(**row)

    def in_world(self, state: Kinematics) -> Kinematics:
        """A state in the scene frame as one in the world frame."""
        turn = self._turn
        return Kinematics(
            pos=(state.pos - self._origin) @ turn,
            rot=turn.T @ state.rot,
            vel=state.vel @ turn,
            acc=state.acc @ turn,
            avel=state.avel,
        )

    def point(self, scene: tuple[float, float, float]) -> list[float]:
        """A point of the scene frame in the world frame."""
        world: list[float] = ((np.array(scene) - self._origin) @ self._turn).tolist()
        return world

    def add_sidecar(self, content: dict[str, object]) -> None:
        """What does not change with time, in `truth.json`."""
        replace_file(self._writer.path / SIDECAR, json.dumps(content, indent=2) + "\n")
        self._made.append(SIDECAR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        provenance = {
            "made_by": MADE_BY,
            "sensor": self.name,
            "step": "simulate",
            "version": __version__,
            "options": {"preset": self._rig.preset.model_dump(), "seed": self._rig.seed},
            "inputs": {},
            "packages": versions(),
            "files": self._made,
        }
        replace_file(self._writer.path / PROVENANCE, json.dumps(provenance, indent=2) + "\n")
        self._writer.close()


def description(rig: Rig, truth: Truth) -> dict[str, object]:
    """The content of `truth.json`.

    All positions are in the world frame, metres; `up` is the direction away from gravity there.
    """
    return {
        "seed": rig.seed,
        "preset": rig.preset.model_dump(),
        "up": truth.up,
        "bodies": [body.name for body in rig.world.bodies],
        "targets": [{"name": target.name, "position": truth.point(target.centre)} for target in rig.world.targets],
        "clocks": {name: vars(clock) for name, clock in rig.clocks.items()},
    }
