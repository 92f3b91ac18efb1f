"""How the rig moves: round a loop, with the gait of who carries it on top, and exact derivatives.

Everything is a function of the way gone along the loop, so a rig that stands still is level and at rest. Loops
repeat for as long as a recording lasts, in constant memory. The scene frame has z up; lengths in metres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rover_pipeline.simulate.jet import Jet, constant, stacked
from rover_pipeline.simulate.loop import Loop


@dataclass(frozen=True)
class Pose:
    """A sensor's place in the lidar frame, front-left-up.

    Attributes:
        translation: f8 (3,), metres.
        rotation: f8 (3, 3), lidar-from-sensor.
    """

    translation: np.ndarray
    rotation: np.ndarray

    @staticmethod
    def at(x: float, y: float, z: float, *, yaw: float = 0.0, pitch: float = 0.0) -> Pose:
        """Angles in degrees; yaw turns to the left, pitch looks down."""
        cy, sy, cp, sp = np.cos(a := np.radians(yaw)), np.sin(a), np.cos(b := np.radians(pitch)), np.sin(b)
        turn = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
        tilt = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
        return Pose(np.array([x, y, z]), turn @ tilt)


IDENTITY = Pose(np.zeros(3), np.eye(3))


class Kinematics(NamedTuple):
    """State of a moving sensor at N instants, in the scene frame unless said.

    Attributes:
        pos, vel, acc: f8 (N, 3), m, m/s, m/s².
        rot: f8 (N, 3, 3), scene-from-sensor.
        avel: f8 (N, 3), rad/s, in the sensor's own frame.
    """

    pos: np.ndarray
    rot: np.ndarray
    vel: np.ndarray
    acc: np.ndarray
    avel: np.ndarray


@dataclass(frozen=True)
class Sway:
    """One harmonic of a gait: `amplitude` (m or rad) times the sine of the way over `wavelength` (m)."""

    amplitude: float
    wavelength: float

    def jet(self, way: Jet) -> Jet:
        return way.scaled(2 * np.pi / self.wavelength).sin().scaled(self.amplitude)


@dataclass(frozen=True)
class Gait:
    """What a carrier adds to its path.

    Attributes:
        lateral, vertical: offsets to the left and up.
        roll, pitch, yaw: rotations about front, left, up.
    """

    lateral: tuple[Sway, ...] = ()
    vertical: tuple[Sway, ...] = ()
    roll: tuple[Sway, ...] = ()
    pitch: tuple[Sway, ...] = ()
    yaw: tuple[Sway, ...] = ()


#: A step of 0.55 m: the body falls and rises with every step, sways and turns with every second one.
WALKING = Gait(
    lateral=(Sway(0.025, 1.1),),
    vertical=(Sway(0.018, 0.55), Sway(0.004, 0.275)),
    roll=(Sway(0.020, 1.1),),
    pitch=(Sway(0.012, 0.55), Sway(0.02, 5.3)),
    yaw=(Sway(0.035, 1.1), Sway(0.22, 8.7)),
)
#: On wheels over a smooth floor: wide slow turns of the head, no steps.
ROLLING = Gait(yaw=(Sway(0.1, 8.7),))
#: Slow leans and the short waves of a road.
RIDING = Gait(
    lateral=(Sway(0.15, 31.0),),
    vertical=(Sway(0.006, 1.7), Sway(0.003, 0.83)),
    roll=(Sway(0.06, 17.0), Sway(0.008, 2.9)),
    pitch=(Sway(0.008, 1.7),),
    yaw=(Sway(0.05, 13.0),),
)


@dataclass(frozen=True)
class Motion:
    """The rig's motion: stand, speed up smoothly, then go round a loop.

    Attributes:
        loop: the path.
        speed: m/s once under way.
        height: of the lidar above the ground, metres.
        gait: what is added to the path.
        stand: seconds at rest at the start.
        spin_up: seconds from rest to full speed.
        mount: pose in the lidar frame of the sensor whose motion this is.
    """

    loop: Loop
    speed: float
    height: float
    gait: Gait
    stand: float = 1.0
    spin_up: float = 1.5
    mount: Pose = IDENTITY

    def of(self, mount: Pose) -> Motion:
        """The motion of a sensor mounted at a pose in the lidar frame."""
        return replace(self, mount=mount)

    def at(self, time: np.ndarray) -> Kinematics:
        """State at N instants, seconds since the start of the simulation."""
        way = self._way(np.asarray(time, "f8"))
        front = self._along(way, 1)
        inverse = (front[0] * front[0] + front[1] * front[1]).power(-0.5)
        cos, sin = front[0] * inverse, front[1] * inverse
        zero, one = constant(way, 0.0), constant(way, 1.0)
        heading = _matrix([[cos, sin.scaled(-1), zero], [sin, cos, zero], [zero, zero, one]])

        lateral, vertical = _sum(self.gait.lateral, way), _sum(self.gait.vertical, way)
        x, y, *rise = self._along(way, 0)
        above = vertical + constant(way, self.height)
        height = above + rise[0] if rise else above
        pos = stacked([x + (sin * lateral).scaled(-1), y + cos * lateral, height])
        rot = heading @ _turn(_sum(self.gait.yaw, way), 2)
        rot = rot @ _turn(_sum(self.gait.pitch, way), 1) @ _turn(_sum(self.gait.roll, way), 0)

        arm = self.mount.translation
        # R'R of a rotation is the cross-product matrix of its angular velocity in its own frame.
        spin = np.swapaxes(rot.value @ self.mount.rotation, 1, 2) @ (rot.rate @ self.mount.rotation)
        return Kinematics(
            pos=pos.value + rot.value @ arm,
            rot=rot.value @ self.mount.rotation,
            vel=pos.rate + rot.rate @ arm,
            acc=pos.rate2 + rot.rate2 @ arm,
            avel=np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], -1),
        )

    def _way(self, time: np.ndarray) -> Jet:
        """Metres gone; the speed rises as the quintic smooth step, so that even the jerk is continuous."""
        x = np.clip((time - self.stand) / self.spin_up, 0.0, 1.0)
        after = np.maximum(time - self.stand - self.spin_up, 0.0)
        return Jet(
            self.speed * (self.spin_up * x**4 * (2.5 - 3 * x + x * x) + after),
            self.speed * x**3 * (10 - 15 * x + 6 * x * x),
            self.speed * 30 * x**2 * (1 - x) ** 2 / self.spin_up,
        )

    def _along(self, way: Jet, order: int) -> list[Jet]:
        """x, y, and z where the loop has one, of its `order`-th derivative by way, as functions of time."""
        f0, f1, f2 = (self.loop.derivative(order + n, way.value) for n in range(3))
        return [way.through(f0[:, i], f1[:, i], f2[:, i]) for i in range(f0.shape[1])]


def _sum(sways: tuple[Sway, ...], way: Jet) -> Jet:
    total = constant(way, 0.0)
    for sway in sways:
        total = total + sway.jet(way)
    return total


def _turn(angle: Jet, axis: int) -> Jet:
    """Rotation by `angle` about a coordinate axis, (N, 3, 3)."""
    zero, one, cos, sin = constant(angle, 0.0), constant(angle, 1.0), angle.cos(), angle.sin()
    rows = [[zero] * 3 for _ in range(3)]
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rows[axis][axis], rows[i][i], rows[i][j], rows[j][i], rows[j][j] = one, cos, sin.scaled(-1), sin, cos
    return _matrix(rows)


def _matrix(rows: list[list[Jet]]) -> Jet:
    """(N, 3, 3) from its elements."""
    columns = stacked([stacked(row) for row in rows])  # (N, column, row)
    return Jet(*(np.swapaxes(part, 1, 2) for part in columns))
