"""Sweeps of a walk through the simulated flat, with the truth as the trajectory, and distances to its solids."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.mapping.options import MapStepOptions
from rover_pipeline.mapping.steps import build
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import Rig
from rover_pipeline.simulate.rig import build as build_rig
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, World
from rover_pipeline.simulate.sensors import lidar

PERIOD = 0.1
#: Time between sweeps, seconds. It is longer than a sweep, so that few sweeps cover a longer walk.
INTERVAL = 0.25


class Sweeps:
    """The interface of `Recording` for arrays in memory."""

    def __init__(self, ts: np.ndarray, **channels: np.ndarray) -> None:
        self.ts, self.count, self.valid = ts, len(ts), np.ones(len(ts), "u1")
        self.channels, self.arguments = channels, tuple(channels)
        self.others: dict[str, Recording] = {}

    def read(self, argument: str, start: int, stop: int) -> np.ndarray:
        return self.channels[argument][start:stop]

    def map(
        self, function: Callable[[int, int], Any], ranges: Sequence[tuple[int, int]], title: str = "", held: int = 0
    ) -> Iterator[Any]:
        function = pickle.loads(pickle.dumps(function))  # as a Dask scheduler sends it
        return (function(start, stop) for start, stop in ranges)

    def memory(self) -> Memory:
        return IN_MEMORY


class Scene(NamedTuple):
    """A walk through the flat.

    Attributes:
        states: channels of `_odom`.
        origin, rotation: the first pose of the lidar, (3,) and (3, 3), scene-from-world.
    """

    rig: Rig
    sweeps: Sweeps
    states: dict[str, np.ndarray]
    origin: np.ndarray
    rotation: np.ndarray

    def build_map(
        self, objects: dict[str, np.ndarray] | None = None, **options: Any
    ) -> tuple[dict[str, bytes], dict[str, Any]]:
        """The files of its map, and the figures and warnings about it. `objects`: channels of `_objects`, if given."""
        metadata = json.dumps(lidar.metadata(self.rig.beams, self.rig.preset.columns, 10))
        settings = MapStepOptions.model_validate({"every": 2} | options)
        files, found = build(
            cast(Recording, self.sweeps), metadata=metadata, options=settings, odometry=self.states, objects=objects
        )
        return files, {**found.measured, "warnings": found.warnings}

    def in_scene(self, world: np.ndarray) -> np.ndarray:
        """Points of the world, (N, 3), in the scene."""
        return self.origin + world @ self.rotation.T


def walk(count: int = 24, bodies: bool = False) -> Scene:
    """Sweeps of a walk through the flat, with the other people in it if `bodies` is set."""
    rig = build_rig(PRESETS["tiny"], 0)
    if not bodies:
        world = rig.world
        still = [part for part, owner in zip(world.parts, world.owner, strict=True) if owner < 0]
        rig = dataclasses.replace(rig, world=World(still, world.light))
    rays = lidar.rays(rig.beams, rig.preset.columns)
    ends = 0.4 + INTERVAL * np.arange(count)
    scans = [
        lidar.measure(
            lidar.sweep(rig.world, rig.motion, rays, end, PERIOD),
            rays, rig.beams.detection_range, 60.0, np.random.default_rng(number),
        )
        for number, end in enumerate(ends)
    ]  # fmt: skip
    state = rig.motion.at(ends)
    origin, rotation = state.pos[0], state.rot[0]
    ts = 1_700_000_000.0 + ends
    states = {
        "ts": ts,
        "valid": np.ones(count, "u1"),
        "pos": (state.pos - origin) @ rotation,
        "rot": rotation.T @ state.rot,
        "vel": state.vel @ rotation,
        "acc": state.acc @ rotation,
        "avel": state.avel,
    }
    info = sensor_info(json.dumps(lidar.metadata(rig.beams, rig.preset.columns, 10)))
    rng, rfl = (destagger(np.stack(images), info) for images in zip(*((s.rng, s.rfl) for s in scans), strict=True))
    sweeps = Sweeps(ts, rng=rng, rfl=rfl)
    return Scene(rig, sweeps, states, origin, rotation)


def distance_to_solids(world: World, points: np.ndarray) -> np.ndarray:
    """Metres from points of the scene, (N, 3), to the nearest solid that does not move; negative inside it."""
    solids, best = world.at(0.0), np.full(len(points), np.inf)
    for n in np.flatnonzero(solids.body < 0):
        own = np.abs((points - solids.centre[n]) @ solids.axes[n].T)
        half = solids.half[n]
        if solids.kind[n] == CYLINDER:
            over = np.stack([np.hypot(own[:, 0], own[:, 1]) - half[0], own[:, 2] - half[2]], -1)
        else:
            over = own - half
        outside = np.linalg.norm(np.maximum(over, 0), axis=1)
        inside = np.minimum(over.max(1), 0) if solids.kind[n] in (BOX, CYLINDER) else 0.0
        best = np.minimum(best, outside + inside)
    return best
