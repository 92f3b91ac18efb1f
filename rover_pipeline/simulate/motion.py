"""How the rig moves: along a closed path, with the gait of its carrier on top, and exact derivatives.

Everything is a function of the arc length that the rig has covered, so a rig that stands still is level and at rest.
The path repeats for as long as a recording lasts. The scene frame has z up; lengths in metres.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.simulate.faults import Unkind

# Jets: a quantity with its first and second derivative in time, carried through sums, products and functions.
#
# A jet is a Taylor polynomial that is cut off after the second order; to compute with jets is forward-mode automatic
# differentiation (Griewank and Walther, Evaluating Derivatives, 2008, chapter 13). Motion is written once as plain
# expressions of time. Velocities and accelerations follow by the chain rule, and cannot disagree with positions.


class Jet(NamedTuple):
    """Values with their time derivatives, arrays of one shape with time as the first axis."""

    value: np.ndarray  #: x, any unit.
    rate: np.ndarray  #: dx/dt, per second.
    rate2: np.ndarray  #: d2x/dt2, per second squared.

    def __add__(self, other: Jet) -> Jet:  # type: ignore[override]  # Fields are added; tuples are not joined.
        return Jet(self.value + other.value, self.rate + other.rate, self.rate2 + other.rate2)

    def __mul__(self, other: Jet) -> Jet:  # type: ignore[override]
        return self.product(other, np.multiply)

    def product(self, other: Jet, times: Callable[..., np.ndarray] = matmul) -> Jet:
        """Of matrices, or by another multiplication."""
        return Jet(
            times(self.value, other.value),
            times(self.rate, other.value) + times(self.value, other.rate),
            times(self.rate2, other.value) + times(2 * self.rate, other.rate) + times(self.value, other.rate2),
        )

    def scaled(self, factor: float) -> Jet:
        return Jet(self.value * factor, self.rate * factor, self.rate2 * factor)

    def chain(self, value: np.ndarray, slope: np.ndarray, slope2: np.ndarray) -> Jet:
        """The jet of f(x) by the chain rule, for a function given by f, f' and f'' at x."""
        return Jet(value, slope * self.rate, slope2 * self.rate**2 + slope * self.rate2)

    def sin(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.chain(sin, cos, -sin)

    def cos(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.chain(cos, -sin, -cos)

    def power(self, exponent: float) -> Jet:
        x, n = self.value, exponent
        return self.chain(x**n, n * x ** (n - 1), n * (n - 1) * x ** (n - 2))


def constant(like: Jet, value: float) -> Jet:
    """A constant at the instants of `like`."""
    zero = np.zeros_like(like.value)
    return Jet(zero + value, zero, zero)


def stack(jets: list[Jet]) -> Jet:
    """Jets side by side along a new last axis."""
    return Jet(*(np.stack(part, -1) for part in zip(*jets, strict=True)))


def rotation(cos: Jet, sin: Jet, axis: int) -> Jet:
    """Rotations about a coordinate axis, (N, 3, 3), by angles with this cosine and sine."""
    zero, one = constant(cos, 0.0), constant(cos, 1.0)
    rows = [[zero] * 3 for _ in range(3)]
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rows[axis][axis], rows[i][i], rows[i][j], rows[j][i], rows[j][j] = one, cos, sin.scaled(-1), sin, cos
    columns = stack([stack(row) for row in rows])  # (N, column, row)
    return Jet(*(np.swapaxes(part, 1, 2) for part in columns))


# Closed paths through waypoints, for the rig and for the bodies that move.


class ClosedPath:
    """A smooth closed curve: a periodic quintic spline through waypoints, (N, 2) or with a height (N, 3), metres.

    Its parameter, of the period `length`, metres, is the length of the polygon through the waypoints, so that one unit
    of it is about one metre of the curve. The package calls it the arc length.
    """

    def __init__(self, waypoints: ArrayLike) -> None:
        closed = np.concatenate([waypoints, np.asarray(waypoints)[:1]])
        knots = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
        self.length = float(knots[-1])
        # `make_interp_spline` does the same with LAPACK. Knots and coefficients begin again after each period.
        count = len(knots) - 1
        turn, number = np.divmod(np.arange(-5, len(knots) + 5), count)
        around = knots[number] + turn * self.length
        design, number = BSpline.design_matrix(knots[:-1], around, 5).toarray(), np.arange(count + 5) % count
        matrix = np.zeros((count, count))
        np.add.at(matrix.T, number, design.T)
        spline = BSpline(around, solve(matrix, closed[:-1])[number], 5, extrapolate="periodic")
        self._derivatives = [spline, *(spline.derivative(order) for order in (1, 2, 3))]

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        """The `order`-th derivative (0 to 3) of (x, y) or (x, y, z) by arc length, (N, 2) or (N, 3)."""
        return self._derivatives[order](np.mod(arc_length, self.length))

    def points(self, count: int) -> np.ndarray:
        """Points at equal distances on the path, (count, 2) or (count, 3)."""
        return self.derivative(0, np.linspace(0, self.length, count, endpoint=False))


class Beside(ClosedPath):
    """The curve at a distance to the left of a path, with the path's own parameter: who walks there keeps abreast."""

    def __init__(self, path: ClosedPath, left: float) -> None:
        self.length = path.length
        self._path, self._left = path, left

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        """Position (order 0) or its first derivative by the path's arc length, (N, 2)."""
        tangent, bend = self._path.derivative(1, arc_length)[:, :2], self._path.derivative(2, arc_length)[:, :2]
        length = np.linalg.norm(tangent, axis=1, keepdims=True)
        unit = tangent / length
        if order == 0:
            return self._path.derivative(0, arc_length)[:, :2] + self._left * np.stack([-unit[:, 1], unit[:, 0]], -1)
        turn = (bend - unit * np.sum(unit * bend, axis=1, keepdims=True)) / length
        return tangent + self._left * np.stack([-turn[:, 1], turn[:, 0]], -1)


def ellipse(x: float, y: float, half_x: float, half_y: float) -> ClosedPath:
    """A counter-clockwise ellipse around (x, y) with half axes along x and y, metres."""
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return ClosedPath(np.stack([x + half_x * np.cos(angle), y + half_y * np.sin(angle)], -1))


def rounded_rectangle(half_x: float, half_y: float, radius: float, direction: int = 1) -> ClosedPath:
    """A rectangle around the origin with rounded corners; `direction` is 1 for counter-clockwise, -1 for clockwise."""
    arc = np.radians([0.0, 22.5, 45.0, 67.5, 90.0])
    points = []
    for quarter, (sx, sy) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        angle = arc + quarter * np.pi / 2
        middle = [sx * (half_x - radius), sy * (half_y - radius)]
        points.append(middle + radius * np.stack([np.cos(angle), np.sin(angle)], -1))
    corners = np.roll(np.concatenate(points), 1, axis=0)  # The path begins with a straight.
    # Waypoints every few metres along the straights keep the spline from swinging out there.
    waypoints: list[np.ndarray] = []
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        count = max(1, round(float(np.linalg.norm(end - start, axis=0)) / 4.0))
        waypoints += [start + (end - start) * number / count for number in range(count)]
    return ClosedPath(waypoints[::direction])


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
    """A rest, a smooth start, and a constant speed from then on."""

    speed: float  #: m/s after the start.
    stand: float = 1.0  #: seconds at rest at the start.
    spin_up: float = 1.5  #: seconds from rest to full speed.

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
    """What a carrier adds to the path, each a sum of harmonics."""

    lateral: tuple[Harmonic, ...] = ()  #: to the left, as `vertical` is up.
    vertical: tuple[Harmonic, ...] = ()
    roll: tuple[Harmonic, ...] = ()  #: about the front, as `pitch` is about the left, and `yaw` about up.
    pitch: tuple[Harmonic, ...] = ()
    yaw: tuple[Harmonic, ...] = ()


#: A walk with steps of 0.55 m: the body falls and rises with each; it sways and yaws with every second one. Layout.
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
    """The motion of a sensor on the rig: it stands, speeds up smoothly, then follows a closed path."""

    path: ClosedPath  #: of the rig.
    speed: float  #: as in `Pace`, as are `stand` and `spin_up`.
    height: float  #: of the lidar above the ground, metres.
    gait: Gait  #: what the carrier adds to the path.
    stand: float = 1.0
    spin_up: float = 1.5
    mount: Mount = IDENTITY  #: pose in the lidar frame of the sensor whose motion this is.

    @property
    def pace(self) -> Pace:
        """How much of the path is covered at a time."""
        return Pace(self.speed, self.stand, self.spin_up)

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
        strike = [Harmonic(float(each / (2 * np.pi * n * step_hz) ** 2), float(_STEP_M / n)) for n in harmonics]
        nods = (Harmonic(_NOD * metres, length) for metres, length in strike)
        gait = replace(gait, vertical=(*gait.vertical, *strike), pitch=(*gait.pitch, *nods))
    if unkind.vibration:
        for axis, (frequency, share) in _VIBRATION.items():
            wave = Harmonic(float(np.radians(unkind.vibration) * share), speed / frequency)
            gait = replace(gait, **{axis: (*getattr(gait, axis), wave)})
    return gait
