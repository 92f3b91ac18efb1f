"""How the rig moves: along a closed path, with the gait of its carrier on top, and exact derivatives.

Everything is a function of the arc length that the rig has covered, so a rig that stands still is level and at rest.
The path repeats for as long as a recording lasts. The scene frame has z up; lengths in metres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.motion.jet import Jet, constant, rotation, stack
from rover_pipeline.simulate.motion.path import ClosedPath
from rover_pipeline.simulate.unkind import Unkind

#: Length of a step, or distance between the joints of a floor for a rig on wheels; metres. Layout.
_STEP_M = 0.55
#: The highest frequency of a heel strike, Hz, and its lowest harmonic: those below belong to the gait. Layout.
_FASTEST_HZ, _FIRST_HARMONIC = 20.0, 3
#: Rotation of a heel strike for each metre of its displacement, rad/m. Layout.
_NOD = 0.5
#: Frequencies of the vibration about the axes, Hz, and amplitudes for an amplitude of one. Layout.
_VIBRATION = {"pitch": (15.0, 1.0), "roll": (12.5, 0.7), "yaw": (18.0, 0.5)}


@dataclass(frozen=True)
class Pace:
    """A rest, a smooth start, and a constant speed from then on.

    Attributes:
        speed: m/s after the start.
        stand: seconds at rest at the start.
        spin_up: seconds from rest to full speed.
    """

    speed: float
    stand: float = 1.0
    spin_up: float = 1.5

    def arc_length(self, time: np.ndarray) -> Jet:
        """Arc length covered. The speed rises as the quintic smooth step, so that even the jerk is continuous."""
        x = np.clip((time - self.stand) / self.spin_up, 0.0, 1.0)
        at_full_speed = np.maximum(time - self.stand - self.spin_up, 0.0)
        return Jet(
            self.speed * (self.spin_up * x**4 * (2.5 - 3 * x + x * x) + at_full_speed),
            self.speed * x**3 * (10 - 15 * x + 6 * x * x),
            self.speed * 30 * x**2 * (1 - x) ** 2 / self.spin_up,
        )


class Harmonic(NamedTuple):
    """One harmonic of a gait: `amplitude` (m or rad) times the sine of the arc length, with a `wavelength` in m."""

    amplitude: float
    wavelength: float


@dataclass(frozen=True)
class Gait:
    """What a carrier adds to the path, each a sum of harmonics.

    Attributes:
        lateral, vertical: offsets to the left and up.
        roll, pitch, yaw: rotations about front, left, up.
    """

    lateral: tuple[Harmonic, ...] = ()
    vertical: tuple[Harmonic, ...] = ()
    roll: tuple[Harmonic, ...] = ()
    pitch: tuple[Harmonic, ...] = ()
    yaw: tuple[Harmonic, ...] = ()


#: A walk with steps of 0.55 m: the body falls and rises with every step; it sways and yaws with every second one.
#: Layout.
WALKING = Gait(
    lateral=(Harmonic(0.025, 1.1),),
    vertical=(Harmonic(0.018, 0.55), Harmonic(0.004, 0.275)),
    roll=(Harmonic(0.020, 1.1),),
    pitch=(Harmonic(0.012, 0.55), Harmonic(0.02, 5.3)),
    yaw=(Harmonic(0.035, 1.1), Harmonic(0.22, 8.7)),
)
#: A trolley on a smooth floor: slow yaw and no steps. Layout.
ROLLING = Gait(yaw=(Harmonic(0.1, 8.7),))
#: A bike: slow leans, and the short waves of a road. Layout.
RIDING = Gait(
    lateral=(Harmonic(0.15, 31.0),),
    vertical=(Harmonic(0.006, 1.7), Harmonic(0.003, 0.83)),
    roll=(Harmonic(0.06, 17.0), Harmonic(0.008, 2.9)),
    pitch=(Harmonic(0.008, 1.7),),
    yaw=(Harmonic(0.05, 13.0),),
)
#: A car: it keeps upright, pitches and rolls a little on its springs, and does not hold its lane exactly. Layout.
DRIVING = Gait(
    lateral=(Harmonic(0.1, 37.0),),
    vertical=(Harmonic(0.01, 4.3), Harmonic(0.003, 1.1)),
    roll=(Harmonic(0.006, 5.9),),
    pitch=(Harmonic(0.008, 4.7),),
    yaw=(Harmonic(0.01, 19.0),),
)


@dataclass(frozen=True)
class Motion:
    """The motion of a sensor on the rig: it stands, speeds up smoothly, then follows a closed path.

    Attributes:
        path: of the rig.
        speed: m/s after the start.
        height: of the lidar above the ground, metres.
        gait: what the carrier adds to the path.
        stand: seconds at rest at the start.
        spin_up: seconds from rest to full speed.
        mount: pose in the lidar frame of the sensor whose motion this is.
    """

    path: ClosedPath
    speed: float
    height: float
    gait: Gait
    stand: float = 1.0
    spin_up: float = 1.5
    mount: Mount = IDENTITY

    @property
    def pace(self) -> Pace:
        """How much of the path is covered at a time."""
        return Pace(self.speed, self.stand, self.spin_up)

    def of_sensor(self, mount: Mount) -> Motion:
        """The motion of the sensor with this pose in the lidar frame."""
        return replace(self, mount=mount)

    def at(self, time: np.ndarray) -> State:
        """State in the scene frame at N instants, seconds since the start of the simulation."""
        arc_length = self.pace.arc_length(np.asarray(time, "f8"))
        tangent = self._path_jets(arc_length, 1)
        inverse = (tangent[0] * tangent[0] + tangent[1] * tangent[1]).power(-0.5)
        cos, sin = tangent[0] * inverse, tangent[1] * inverse
        lateral, vertical = _sum(self.gait.lateral, arc_length), _sum(self.gait.vertical, arc_length)
        x, y, *ground = self._path_jets(arc_length, 0)
        z = vertical + constant(arc_length, self.height)
        pos = stack([x + (sin * lateral).scaled(-1), y + cos * lateral, z + ground[0] if ground else z])
        rot = rotation(cos, sin, 2)
        for harmonics, axis in ((self.gait.yaw, 2), (self.gait.pitch, 1), (self.gait.roll, 0)):
            angle = _sum(harmonics, arc_length)
            rot = rot.product(rotation(angle.cos(), angle.sin(), axis))

        lever_arm = self.mount.translation
        # R'R of a rotation R is the cross-product matrix of its angular velocity in its own frame.
        cross = matmul(np.swapaxes(matmul(rot.value, self.mount.rotation), 1, 2), matmul(rot.rate, self.mount.rotation))
        return State(
            pos=pos.value + matmul(rot.value, lever_arm),
            rot=matmul(rot.value, self.mount.rotation),
            vel=pos.rate + matmul(rot.rate, lever_arm),
            acc=pos.rate2 + matmul(rot.rate2, lever_arm),
            avel=np.stack([cross[:, 2, 1], cross[:, 0, 2], cross[:, 1, 0]], -1),
        )

    def _path_jets(self, arc_length: Jet, order: int) -> list[Jet]:
        """Jets of x, y, and z where the path has one, or of their `order`-th derivatives by arc length."""
        f0, f1, f2 = (self.path.derivative(order + n, arc_length.value) for n in range(3))
        return [arc_length.chain(f0[:, i], f1[:, i], f2[:, i]) for i in range(f0.shape[1])]


def _sum(harmonics: tuple[Harmonic, ...], arc_length: Jet) -> Jet:
    waves = (arc_length.scaled(2 * np.pi / wavelength).sin().scaled(amplitude) for amplitude, wavelength in harmonics)
    return sum(waves, constant(arc_length, 0.0))


def disturbed(gait: Gait, unkind: Unkind, speed: float) -> Gait:
    """A gait with the heel strikes and the vibration of a rig at full `speed`, m/s."""
    if unkind.heel_strikes:
        step_hz = speed / _STEP_M
        harmonics = np.arange(_FIRST_HARMONIC, max(_FASTEST_HZ / step_hz, _FIRST_HARMONIC) + 1e-9)
        phase = np.linspace(0, 2 * np.pi, 2000)[:, None]
        each = unkind.heel_strikes / np.abs(np.sin(harmonics * phase).sum(1)).max()
        strike = [(float(each / (2 * np.pi * n * step_hz) ** 2), float(_STEP_M / n)) for n in harmonics]
        gait = replace(
            gait,
            vertical=(*gait.vertical, *(Harmonic(metres, length) for metres, length in strike)),
            pitch=(*gait.pitch, *(Harmonic(_NOD * metres, length) for metres, length in strike)),
        )
    if unkind.vibration:
        for axis, (frequency, share) in _VIBRATION.items():
            wave = Harmonic(float(np.radians(unkind.vibration) * share), speed / frequency)
            gait = replace(gait, **{axis: (*getattr(gait, axis), wave)})
    return gait
