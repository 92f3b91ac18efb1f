"""Small worlds with known bodies, their sweeps, and what `_objects` makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.lidar.geometry import destagger, returns, sensor_info, stagger
from rover_pipeline.objects.options import ObjectsOptions
from rover_pipeline.objects.steps import objects
from rover_pipeline.simulate.motion import ROLLING, ClosedPath, Motion
from rover_pipeline.simulate.scene.world import Body, Light, Part, World, box
from rover_pipeline.simulate.sensors import lidar
from tests.mapping.scene import Sweeps
from tests.objects.clearmot import Score, clear_mot

PERIOD, COLUMNS = 0.1, 512
BEAMS = lidar.BEAMS["OS-0-32"]
LIGHT = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.1, 0.1, 0.1), 60.0)
#: A ground, and walls around it that stop the beams.
ROOM = [
    box((0.0, 0.0, -0.1), (40.0, 40.0, 0.2), "concrete"),
    *(box((side * 15.0, 0.0, 2.0), (0.2, 30.0, 4.0), "plaster") for side in (-1, 1)),
    *(box((0.0, side * 12.0, 2.0), (30.0, 0.2, 4.0), "plaster") for side in (-1, 1)),
]


def straight(begin: tuple[float, float], end: tuple[float, float]) -> ClosedPath:
    """There and back along a straight line, with a narrow turn at its ends."""
    a, b = np.array(begin), np.array(end)
    ahead = (b - a) / np.linalg.norm(b - a)
    left = 0.02 * np.array([-ahead[1], ahead[0]])
    steps = np.linspace(0, 1, 40)[:, None]
    return ClosedPath(np.concatenate([a + steps * (b - a) - left, b + steps * (a - b) + left]))


class Watched(NamedTuple):
    """Sweeps of a world.

    Attributes:
        odometry: channels of `_odom`, in the frame of the first pose.
        bodies: f8 (sweep, body, 6), place and velocity of the bodies in it.
        returns: i8 (sweep, body).
        begin: f8 (2,), where the world's origin is in the scene. The world's axes are those of the first pose.
    """

    sweeps: Sweeps
    odometry: dict[str, np.ndarray]
    bodies: np.ndarray
    returns: np.ndarray
    begin: np.ndarray

    def objects(self, **options: Any) -> tuple[dict[str, np.ndarray], Inspection]:
        """What `_objects` holds."""
        return joined(
            objects(
                cast(Recording, self.sweeps),
                metadata=json.dumps(lidar.metadata(BEAMS, COLUMNS, 10)),
                odometry=self.odometry,
                options=ObjectsOptions.model_validate(options),
            )
        )

    def as_points(self) -> tuple[Sweeps, str]:
        """The same returns as points in random order, each with its instant, and their `lidar.json`."""
        metadata = json.dumps(lidar.metadata(BEAMS, COLUMNS, 10))
        sent = []
        for number in range(len(self.odometry["ts"])):
            image = stagger(self.sweeps.read("rng", number, number + 1), sensor_info(metadata))[0]
            xyz, column = returns(image, metadata)
            order = np.random.default_rng(number).permutation(len(xyz))
            sent.append((xyz[order], (PERIOD * (column[order] / COLUMNS - 1)).astype("f4")))
        most = max(len(xyz) for xyz, _ in sent)
        points, time = np.full((len(sent), most, 3), np.nan, "f4"), np.full((len(sent), most), np.nan, "f4")
        for number, (xyz, since) in enumerate(sent):
            points[number, : len(xyz)], time[number, : len(xyz)] = xyz, since
        count = np.array([len(xyz) for xyz, _ in sent], "u4")
        described = {"max_points": most, "motion": "times", "span_s": [-PERIOD, 0.0], "period_s": PERIOD}
        return Sweeps(self.odometry["ts"], xyz=points, count=count, time=time), json.dumps({"points": described})

    def objects_of_points(self, **options: Any) -> tuple[dict[str, np.ndarray], Inspection]:
        """What `_objects` holds where the lidar sends points."""
        sweeps, metadata = self.as_points()
        return joined(
            objects(
                cast(Recording, sweeps),
                metadata=metadata,
                odometry=self.odometry,
                options=ObjectsOptions.model_validate(options),
            )
        )

    def score(self, found: dict[str, np.ndarray], least: int = 20) -> Score:
        """The score of what was found, of bodies with at least so many returns."""
        frames = []
        for places, hits, centre, track in zip(self.bodies, self.returns, found["centre"], found["track"], strict=True):
            listed = {int(number): centre[row, :2] for row, number in enumerate(track) if number >= 0}
            frames.append((dict(enumerate(places[:, :2])), listed, set(np.flatnonzero(hits >= least).tolist())))
        return clear_mot(frames)


def joined(parts: Iterable[Any]) -> tuple[dict[str, np.ndarray], Inspection]:
    """The channels that a step yields for ranges of frames, and the inspection after them."""
    *ranges, inspection = parts
    return {name: np.concatenate([each[name] for each in ranges]) for name in ranges[0]}, inspection


def watch(parts: list[Part], bodies: tuple[Body, ...], path: ClosedPath, speed: float, count: int = 36) -> Watched:
    """Sweeps of a lidar that moves along a path through a room, 1.2 m above the ground."""
    world, motion = World([*ROOM, *parts], LIGHT, bodies), Motion(path, speed, 1.2, ROLLING, stand=0.0)
    rays = lidar.rays(BEAMS, COLUMNS)
    ends = 0.5 + PERIOD * np.arange(count)
    images, returns = [], []
    for number, end in enumerate(ends):
        echoes = lidar.sweep(world, motion, rays, float(end), PERIOD)
        scan = lidar.measure(echoes, rays, BEAMS.detection_range, 60.0, np.random.default_rng(number))
        images.append(scan.rng)
        hit = echoes.body[(scan.rng > 0) & (echoes.body >= 0)]
        returns.append(np.bincount(hit, minlength=len(bodies)))
    state = motion.at(ends)
    origin, rotation = state.pos[0], state.rot[0]
    odometry = {
        "ts": 1_700_000_000.0 + ends,
        "valid": np.ones(count, "u1"),
        "pos": (state.pos - origin) @ rotation,
        "rot": rotation.T @ state.rot,
        "vel": state.vel @ rotation,
        "acc": state.acc @ rotation,
        "avel": state.avel,
    }
    info = sensor_info(json.dumps(lidar.metadata(BEAMS, COLUMNS, 10)))
    states = np.array([world.body_states(float(end)) for end in ends])
    places, vel = (states[..., :3] - origin) @ rotation, states[..., 3:] @ rotation
    sweeps = Sweeps(odometry["ts"], rng=destagger(np.stack(images), info))
    return Watched(sweeps, odometry, np.concatenate([places, vel], axis=-1), np.array(returns), origin[:2])
