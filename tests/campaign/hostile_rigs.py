"""Rigs and worlds of the hostile campaign that no preset has: what moves along, what hides, what repeats.

Each function makes a change of the rig of a preset. Lengths are in metres, times in seconds, in the scene frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rover_pipeline.kinematics.state import State
from rover_pipeline.simulate.motion import Beside, ClosedPath, Gait, Harmonic, Motion, Pace, rounded_rectangle
from rover_pipeline.simulate.rig import Clock, Rig, Tick
from rover_pipeline.simulate.scene.props import car, person
from rover_pipeline.simulate.scene.world import Body, Light, Part, World, box, cylinder, standing_box
from rover_pipeline.simulate.sensors.lidar import rays

Alter = Callable[[Rig], Rig]

_LIGHT = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.4, (0.02, 0.02, 0.02), 50.0)
#: A straight of 140 m in the middle of a world of 460 m, whose ends are farther away than any range that is used.
_STRAIGHT, _LONG = 70.0, 460.0


#: The pace of a cabin that stands.
_FLOOR = Pace(0.0)


@dataclass(frozen=True)
class Lifted(Motion):
    """A motion in a cabin that rises."""

    rise: Pace = _FLOOR

    def at(self, time: np.ndarray) -> State:
        state, rise = super().at(time), self.rise.arc_length(np.asarray(time, "f8"))
        up = np.array([0.0, 0.0, 1.0])
        return state._replace(
            pos=state.pos + rise.value[:, None] * up,
            vel=state.vel + rise.rate[:, None] * up,
            acc=state.acc + rise.rate2[:, None] * up,
        )


@dataclass(frozen=True)
class Driven(Body):
    """A body that moves along a straight line from the origin of its parts.

    Attributes:
        direction: unit vector, (3,).
    """

    direction: tuple[float, float, float] = (1.0, 0.0, 0.0)

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert self.pace is not None
        covered, direction = self.pace.arc_length(np.array([time])), np.array(self.direction)
        return float(covered.value[0]) * direction, np.eye(3), float(covered.rate[0]) * direction


@dataclass(frozen=True)
class Restarting(Clock):
    """A clock of a sensor that is switched off for a while and comes back at another phase.

    Attributes:
        off: true instant at which it goes off; silent: for how long, seconds.
    """

    off: float = 0.0
    silent: float = 0.0

    def ticks(self, duration: float, key: tuple[int, ...]) -> Iterator[Tick]:
        again = self.off + self.silent + self.period
        for tick in super().ticks(min(duration, self.off), key):
            yield tick
        number = tick.number
        for later in replace(self, start=again, off=np.inf).ticks(duration, (*key, 9)) if np.isfinite(self.off) else ():
            yield later._replace(number=number + 1 + later.number)


class Later(ClosedPath):
    """A path that begins elsewhere on itself."""

    def __init__(self, path: ClosedPath, start: float) -> None:
        self.length, self._path, self._start = path.length, path, start

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        return self._path.derivative(order, arc_length + self._start)


class InPlace(ClosedPath):
    """A path along which a rig makes its steps and gets nowhere: a thousandth of the way."""

    def __init__(self, path: ClosedPath, start: float) -> None:
        self.length, self._path, self._start = path.length, path, start

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        way = self._path.derivative(order, arc_length + self._start)
        if order:
            return 1e-3 * way
        place = self._path.derivative(0, np.array([self._start]))
        stays: np.ndarray = place + 1e-3 * (way - place)
        return stays


def elsewhere(start: float) -> Alter:
    """The rig begins `start` metres along its path."""
    return lambda rig: replace(rig, motion=replace(rig.motion, path=Later(rig.motion.path, start)))


def restarted(off: float, silent: float) -> Alter:
    """The lidar goes off at an instant and is back after so many seconds, at any phase."""

    def alter(rig: Rig) -> Rig:
        clock = Restarting(**vars(rig.clocks["lidar"]), off=off, silent=silent)
        return replace(rig, clocks=rig.clocks | {"lidar": clock})

    return alter


def few_beams(step: int) -> Alter:
    """Every `step`-th beam only."""

    def alter(rig: Rig) -> Rig:
        beams = rig.beams
        fewer = replace(beams, altitude=beams.altitude[::step], azimuth=beams.azimuth[::step])
        lidar = rig.lidars[rig.main]._replace(beams=fewer, rays=rays(fewer, rig.preset.columns))
        return replace(rig, lidars=rig.lidars | {rig.main: lidar})

    return alter


def turning(amplitude: float, wavelength: float) -> Alter:
    """The rig is turned to and fro by `amplitude` radians while it covers `wavelength` metres."""

    def alter(rig: Rig) -> Rig:
        gait = replace(rig.motion.gait, yaw=(*rig.motion.gait.yaw, Harmonic(amplitude, wavelength)))
        return replace(rig, motion=replace(rig.motion, gait=gait))

    return alter


def _straight(rig: Rig) -> Motion:
    return replace(rig.motion, path=rounded_rectangle(_STRAIGHT, 0.8, 0.7), height=1.25)


def _ground(width: float, material: str = "concrete") -> Part:
    return box((0.0, 0.0, -0.1), (_LONG, width, 0.2), material)


def _tube(half: float, high: float) -> list[Part]:
    walls = [box((0.0, side * (half + 0.1), high / 2), (_LONG, 0.2, high), "plaster") for side in (-1, 1)]
    return [_ground(2 * half), box((0.0, 0.0, high + 0.1), (_LONG, 2 * half, 0.2), "ceiling"), *walls]


def _companions(motion: Motion, offsets: Sequence[tuple[float, float]]) -> tuple[Body, ...]:
    """People who start with the rig and keep abreast: metres ahead of it and to its left."""
    bodies = []
    for number, (ahead, left) in enumerate(offsets):
        body = person(f"companion {number}", Beside(motion.path, left), motion.speed, coat="coat", start=ahead)
        bodies.append(replace(body, pace=motion.pace))
    return tuple(bodies)


def corridor(half: float, offsets: Sequence[tuple[float, float]], pillars: float = 0.0) -> Alter:
    """A bare corridor, `half` metres to each side of its middle, with companions, and equal pillars every `pillars`."""

    def alter(rig: Rig) -> Rig:
        motion = _straight(rig)
        parts = _tube(half + 0.8, 2.8)
        if pillars:
            for x in np.arange(-_LONG / 2 + 1, _LONG / 2, pillars):
                parts += [cylinder(float(x), side * (half + 0.75), 0.0, 2.8, 0.2, "plaster") for side in (-1, 1)]
        return replace(rig, motion=motion, world=World(parts, _LIGHT, _companions(motion, offsets)))

    return alter


def people_pass(half: float, pace: float, lefts: Sequence[float], ahead: Sequence[float]) -> Alter:
    """The rig is held by somebody who stands in a bare corridor, while people walk past.

    Args:
        lefts: of each of them, to the left of the rig; ahead: of the rig at the start.
    """

    def alter(rig: Rig) -> Rig:
        motion = _straight(rig)
        path, goes, before = motion.path, Pace(pace, -30.0, 0.1), 30.0 * pace
        people = [
            replace(
                person(f"passer-by {n}", Beside(path, left), pace, coat="coat", start=_STRAIGHT + at - before),
                pace=goes,
            )
            for n, (left, at) in enumerate(zip(lefts, ahead, strict=True))
        ]
        return replace(rig, motion=_held(rig), world=World(_tube(half + 0.8, 2.8), _LIGHT, tuple(people)))

    return alter


def _held(rig: Rig) -> Motion:
    """Somebody holds the rig in the middle of the straight, and moves it as people who stand do."""
    motion = _straight(rig)
    return replace(motion, path=InPlace(motion.path, _STRAIGHT), stand=0.0)


def driven(rig: Rig) -> Motion:
    """A drive along the straight at full speed from the first sweep on, without a gait."""
    motion = _straight(rig)
    path = Later(motion.path, -1.75 * motion.speed)  # what it has covered by then
    return replace(motion, gait=Gait(), stand=-2.0, spin_up=0.5, path=path)


def pilasters(period: float, half: float) -> Alter:
    """A drive through a tunnel, `half` m to each side of its middle, with equal pilasters every `period` metres."""

    def alter(rig: Rig) -> Rig:
        parts = _tube(half, 4.5)
        for x in np.arange(-_LONG / 2 + 1, _LONG / 2, period):
            parts += [box((float(x), side * (half - 0.1), 2.2), (0.4, 0.3, 4.4), "plaster") for side in (-1, 1)]
        return replace(rig, motion=driven(rig), world=World(parts, _LIGHT))

    return alter


def garage(period: float, radius: float, drives: bool) -> Alter:
    """A low garage with equal pillars every `period` metres, whose walls are too far away to be seen."""

    def alter(rig: Rig) -> Rig:
        parts = [_ground(200.0), box((0.0, 0.0, 2.9), (_LONG, 200.0, 0.2), "ceiling")]
        rows = [float(y) for y in np.arange(-40, 40, period) + period / 2 if abs(y) > 0.8]
        for x in np.arange(-110, 110, period):
            parts += [cylinder(float(x), y, 0.0, 2.8, radius, "concrete") for y in rows]
        return replace(rig, motion=driven(rig) if drives else _straight(rig), world=World(parts, _LIGHT))

    return alter


def wood(spacing: float, places: np.ndarray, drives: bool) -> Alter:
    """Trunks over flat ground.

    Args:
        places: of each trunk in its square, f8 (N, N, 3), 0 to 1; and of its radius between 8 and 28 cm.
    """

    def alter(rig: Rig) -> Rig:
        rig = replace(rig, motion=driven(rig) if drives else _straight(rig))
        (x, y), parts = _place(rig), [_ground(_LONG)]
        for (i, j), (along, left, thick) in zip(np.ndindex(places.shape[:2]), places.reshape(-1, 3), strict=True):
            ahead, beside = ((n - len(places) / 2 + d) * spacing for n, d in ((i, along), (j, left)))
            if abs(beside) > 1.0:  # nobody runs into it
                parts.append(cylinder(x + ahead, y + beside, 0.0, 12.0, 0.08 + 0.2 * float(thick), "wood"))
        return replace(rig, world=World(parts, _LIGHT))

    return alter


def field(offsets: Sequence[tuple[float, float]]) -> Alter:
    """Flat ground without anything on it but companions."""

    def alter(rig: Rig) -> Rig:
        motion = _straight(rig)
        return replace(rig, motion=motion, world=World([_ground(_LONG)], _LIGHT, _companions(motion, offsets)))

    return alter


def standing(rig: Rig) -> Rig:
    """The rig stands in the middle of the straight for good."""
    path = Later(rounded_rectangle(_STRAIGHT, 0.8, 0.7), _STRAIGHT)
    return replace(rig, motion=replace(rig.motion, path=path, height=1.25, stand=1e6, gait=Gait()))


def _place(rig: Rig) -> np.ndarray:
    """Where the rig begins, (2,)."""
    place: np.ndarray = rig.motion.path.derivative(0, np.zeros(1))[0][:2]
    return place


def lift(speed: float, begins: float, spin_up: float) -> Alter:
    """The rig stands in a closed cabin that begins to rise after `begins` seconds, to `speed` within `spin_up`."""

    def alter(rig: Rig) -> Rig:
        rig = standing(rig)
        rise = Pace(speed, begins, spin_up)
        x, y = _place(rig) + np.array([0.2, 0.1])
        walls = [box((x + side * 0.9, y, 1.15), (0.1, 1.8, 2.3), "metal") for side in (-1, 1)]
        walls += [box((x, y + side * 0.9, 1.15), (1.8, 0.1, 2.3), "metal") for side in (-1, 1)]
        walls += [box((x, y, z), (1.9, 1.9, 0.1), "metal") for z in (-0.05, 2.35)]
        walls += [box((x + 0.8, y + 0.4, 1.1), (0.05, 0.2, 0.4), "plaster")]
        cabin = Driven("cabin", tuple(walls), rig.motion.path, 0.0, pace=rise, direction=(0.0, 0.0, 1.0))
        values = {name: value for name, value in vars(rig.motion).items() if name != "rise"}
        world = World([box((0.0, 0.0, -5.0), (_LONG, 50.0, 1.0), "concrete")], _LIGHT, (cabin,))
        return replace(rig, motion=Lifted(**values, rise=rise), world=world)

    return alter


def train(
    speed: float,
    side: float,
    pillars: int,
    held: bool = False,
    ledge: float = np.inf,
    beside: Sequence[tuple[float, float]] = (),
) -> Alter:
    """A long train passes `side` metres to the left of a rig on a platform, which stands or is held by somebody.

    The platform has a wall to its right, or ends after `ledge` metres over a void. People keep pace with the train, so
    many metres ahead of the rig and to its right.
    """

    def alter(rig: Rig) -> Rig:
        rig = replace(rig, motion=_held(rig)) if held else standing(rig)
        x, y = _place(rig)
        parts = [_ground(60.0), box((0.0, y - 5.0, 2.0), (_LONG, 0.2, 4.0), "plaster")]
        parts += [cylinder(x + 5.0 * n - 7.0, y - 3.5, 0.0, 4.0, 0.25, "concrete") for n in range(pillars)]
        if np.isfinite(ledge):
            width = side + ledge
            parts = [box((0.0, y + side - width / 2, -0.1), (_LONG, width, 0.2), "concrete")]
        cars = []
        for number in range(6):
            left = x - 30.0 - 20.0 * number
            cars += [box((left, y + side + 1.5, 1.9), (19.0, 3.0, 3.6), "metal")]
            cars += [box((left + at, y + side - 0.06, 1.7), (1.4, 0.12, 2.2), "white wood") for at in (-6.0, 6.0)]
        cars += [cylinder(x + ahead, y - right, 0.0, 1.7, 0.25, "white wood") for ahead, right in beside]
        body = Driven("train", tuple(cars), rig.motion.path, speed, pace=Pace(speed, -10.0, 0.1))
        start = replace(body, parts=tuple(_moved(part, 10.0 * -speed) for part in body.parts))
        return replace(rig, world=World(parts, _LIGHT, (start,)))

    return alter


def vans(count: int, faster: float, houses: Sequence[tuple[float, float]]) -> Alter:
    """The rig drives among vans of its own speed: in front, behind, and at both sides.

    Args:
        faster: by how much more the second van covers, m/s.
        houses: distance from the middle of the street, and depth, of those on both sides, m.
    """

    def alter(rig: Rig) -> Rig:
        rig = replace(rig, motion=driven(rig))
        motion, (x, y), bodies = rig.motion, _place(rig), []
        parts = [_ground(200.0)]
        for number, (away, deep) in enumerate(houses):
            place = 16.0 * (number // 2) - 100.0, (away + deep / 2) * (1 if number % 2 else -1)
            parts.append(standing_box(place[0], y + place[1], (12.0, deep, 9.0), "plaster"))
        around = [
            (9.0, 0.2),
            (-9.5, -0.1),
            (1.0, 3.3),
            (-1.5, -3.4),
            (11.0, 3.2),
            (-10.0, -3.3),
            (-9.0, 3.5),
            (10.0, -3.2),
        ]
        for number, (ahead, left) in enumerate(around[:count]):
            van = (standing_box(x + ahead, y + left, (5.5, 2.0, 2.6), "metal"),)
            pace = replace(motion.pace, speed=motion.speed + faster * (number == 1)) if faster else motion.pace
            bodies.append(Driven(f"van {number}", van, motion.path, motion.speed, pace=pace))
        return replace(rig, world=World(parts, _LIGHT, tuple(bodies)))

    return alter


def traffic(speed: float, begins: float, posts: int) -> Alter:
    """The rig stands at traffic lights between buses that all set off at once; some posts stand at the road."""

    def alter(rig: Rig) -> Rig:
        rig = standing(rig)
        x, y = _place(rig)
        parts = [_ground(200.0)]
        parts += [
            cylinder(x + 7.0 * n - 10.0, y + (6.5 if n % 2 else -6.5), 0.0, 5.0, 0.12, "metal") for n in range(posts)
        ]
        pace, bodies = Pace(speed, begins, 2.0), []
        for name, ahead, left in (("left bus", 1.0, 2.6), ("right bus", -1.0, -2.7)):
            bus = tuple(
                [standing_box(x + ahead, y + left, (12.0, 2.4, 3.1), "metal")]
                + [standing_box(x + ahead + at, y + left, (0.8, 2.7, 1.0), "white wood") for at in (-4.0, 0.5, 3.5)]
            )
            bodies.append(Driven(name, bus, rig.motion.path, speed, pace=pace))
        front = tuple(_moved(part, x + 6.0, y) for part in car("metal"))
        bodies.append(Driven("car", front, rig.motion.path, speed, pace=pace))
        return replace(rig, world=World(parts, _LIGHT, tuple(bodies)))

    return alter


def _moved(part: Part, x: float, y: float = 0.0) -> Part:
    return replace(part, centre=(part.centre[0] + x, part.centre[1] + y, part.centre[2]))
