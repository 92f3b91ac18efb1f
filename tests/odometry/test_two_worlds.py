"""A deck beside a quay: two bodies of like size that move against each other, each of which could be the world."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import Points
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import Quality
from rover_pipeline.odometry.registration.point_terms import PointErrors
from rover_pipeline.odometry.registration.sweep_information import NO_INFORMATION, SweepInformation, _slip
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.simulate.motion import ClosedPath, Motion
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.world import Body, Light, Part, World, box, cylinder
from rover_pipeline.simulate.sensors import lidar
from rover_pipeline.table import find_step
from tests.kit import times

_COLUMNS, _FRAMES = 512, 60
_LIGHT = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.4, (0.02, 0.02, 0.02), 50.0)
#: Where somebody stands on the deck with the lidar, m.
_PLACE = np.array([0.0, 3.0, 2.0])


@dataclass(frozen=True)
class Ship(Body):
    """It passes at 2 m/s, and heaves, rolls and pitches."""

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pos, rot = pose_of_ship(np.array([time]))
        return pos[0], rot[0], np.array([2.0, 0.0, 0.0])


def pose_of_ship(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions, f8 (N, 3), m, and rotations, f8 (N, 3, 3), beside the quay; ts: f8 (N,), s."""
    roll, pitch, yaw = (a * np.sin(2 * np.pi * ts / p + b) for a, p, b in ((1.2, 6, 1.0), (3.0, 8, 0.0), (1.5, 23, 0)))
    pos = np.stack([2.0 * ts, 0.0 * ts, 0.4 * np.sin(2 * np.pi * ts / 7)], axis=1)
    return pos, Rotation.from_euler("ZYX", np.stack([yaw, pitch, roll], axis=1), degrees=True).as_matrix()


class Aboard(Motion):
    """The motion of the lidar, which stands on the deck."""

    def at(self, time: np.ndarray) -> State:
        pos, rot = pose_of_ship(time)
        still = np.zeros((len(time), 3))
        return State(pos + rot @ _PLACE, rot, still, still, still)


def deck_and_quay(path: ClosedPath, house: bool) -> World:
    """The world is the quay's, with the ship in it.

    Args:
        path: any, it is not used; house: whether there is a second house on the deck, ahead of the lidar.
    """
    rng = np.random.default_rng(3)
    deck: list[Part] = [box((-4.0, 0.0, 0.0), (36.0, 10.0, 1.0), "metal"), box((-14.5, 0, 4.0), (11, 8, 7), "plaster")]
    deck += [box((3.5, 0.0, 1.1), (3.0, 4.0, 1.2), "metal"), cylinder(8.0, 0.0, 0.5, 10.0, 0.3, "metal")]
    deck += [box((11.0, 0.0, 2.5), (5.0, 9.0, 4.0), "plaster")] * house
    deck += [cylinder(float(x), y, 0.5, 1.1, 0.04, "metal") for x in range(-12, 14) for y in (-4.9, 4.9)]
    quay: list[Part] = [box((50.0, 104.5, -2.8), (500.0, 191.0, 4.0), "concrete")]
    for _ in range(40):
        x, y, (a, b, c) = rng.uniform(-60, 90), rng.uniform(20, 50), rng.uniform([4, 4, 3], [15, 15, 12])
        quay.append(box((x + a / 2, y + b / 2, c / 2 - 0.8), (a, b, c), "plaster"))
    quay += [cylinder(8.0 * k, 10.0, -0.8, 0.0, 0.2, "metal") for k in range(-8, 12)]
    return World(quay, _LIGHT, (Ship("ship", tuple(deck), path, 0.0),))


def record(trace: Path, house: bool) -> Path:
    """The recording of the lidar, with its `_odom`."""
    rig = build(PRESETS["indoor"].model_copy(update={"lidar": "OS-1-64", "columns": _COLUMNS}), 0)
    rays, world = lidar.rays(rig.beams, _COLUMNS), deck_and_quay(rig.motion.path, house)
    aboard = Aboard(**vars(rig.motion))
    spec = ChannelSpec(format="lzmaf", type="u2", shape=(rig.beams.count, _COLUMNS), desc="Of a sweep. [beam, column]")
    specs = {"rng": spec, "rfl": spec.model_copy(update={"type": "u1"}), "nir": spec}
    with SensorWriter(trace / "lidar", {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
        for number, stamp in enumerate(times(_FRAMES)):
            echoes = lidar.sweep(world, aboard, rays, 0.1 * (number + 1), 0.1)
            scan = lidar.measure(echoes, rays, rig.beams.detection_range, 100.0, np.random.default_rng(number))
            writer.append(ts=stamp, valid=True, rng=scan.rng[None], rfl=scan.rfl[None], nir=scan.nir[None])
    (trace / "lidar" / "lidar.json").write_text(json.dumps(lidar.metadata(rig.beams, _COLUMNS, 10)))
    for step in ("_lidar_image", "_odom"):
        run_step(find_step(step), trace, step, Request())
    return trace


@pytest.mark.parametrize("house", [False, True])
def test_two_bodies_that_both_take_part_in_the_map_are_no_world(tmp_path: Path, house: bool) -> None:
    trace = record(tmp_path / "trace", house)
    refused = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]["refused"]
    assert refused["two_worlds"] == _FRAMES
    # Floors and walls seem to determine the motion of many sweeps, at which this rule alone decides.
    assert refused.get("companions", 0) < _FRAMES
    # The trajectory is neither that of the ship nor that on it: nothing of it is valid.
    odom = Sensor(trace / "_odom")
    pos, valid = odom.channel("pos").read(), odom.channel("valid").read() != 0
    assert np.abs(pos - pos[0]).max() > 0.3 and not valid.any()


@pytest.mark.parametrize(("moved", "expected"), [(0.0, (0.7, 1.2)), (0.04, (2.7, 3.4))])
def test_points_slip_by_as_much_as_they_leave_the_planes_of_earlier_sweeps(
    moved: float, expected: tuple[float, float]
) -> None:
    rng, earlier = np.random.default_rng(0), SurfelMap((0.25, 1.0))
    wall = rng.uniform([5.0, -4.0, -1.0], [5.0, 4.0, 2.0], (2, 20000, 3))
    wall[:, :, 0] += rng.normal(0, 0.02, (2, 20000))
    column = np.zeros(20000, "i4")
    poses = np.zeros((1, 3)), np.eye(3)[None]
    earlier.insert(transform_rays(wall[0].astype("f4"), column, *poses))
    weights = PointErrors(np.zeros(0), noise=0.02).weights(OdometryOptions(), np.zeros(0))
    tilted = weights._replace(beam=0.01)
    slip = _slip(Points((wall[1] + [moved, 0, 0]).astype("f4"), column), poses, earlier, (weights, tilted))
    assert expected[0] < slip[0] < expected[1]
    assert slip[1] < slip[0]


def test_seconds_in_which_surfaces_slip_are_refused() -> None:
    ts, ones, nothing = 0.1 * np.arange(60), np.ones(60), np.zeros((60, 3))
    quality = Quality(ones, 0.01 * ones, 5e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e6 * ones, 1e6 * ones, 1e6 * ones, ones,
                      slip=np.where(np.arange(60) < 40, 0.9, 2.0))  # fmt: skip
    state = State(pos=ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (60, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing + 0.1)  # fmt: skip
    (refusal,) = [each for each in quality.refused(OdometryOptions(), state, ts) if each.frames.any()]
    assert (refusal.rule, refusal.parts) == ("two_worlds", True) and refusal.frames[40:].all()
    assert not refusal.frames[:40].any()


def test_ten_sweeps_slip_as_much_as_they_do_against_the_ten_before_or_after() -> None:
    # Of each ten sweeps the first five are compared with the ten before: the first ten and lost sweeps are not.
    slips = np.full(40, np.nan)
    slips[10:15], slips[20:25], slips[30:33] = 0.9, [3.0, 2.0, np.nan, 2.0, 1.0], 0.8
    stacked = SweepInformation.stacked([SweepInformation(slip=np.array([slip, slip / 2])) for slip in slips])
    np.testing.assert_allclose(stacked.slip, np.repeat([0.9, 2.0, 2.0, 0.8], 10)[:, None] / [1, 2])
    assert not SweepInformation.stacked([NO_INFORMATION] * 3).slip.any()
