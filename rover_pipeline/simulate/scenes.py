"""The places: a furnished flat with a corridor, and a street round a block of houses."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import Loop
from rover_pipeline.simulate.world import (
    FACING,
    Body,
    Light,
    Part,
    Target,
    World,
    box,
    cylinder,
    rectangle,
    standing,
)

#: The rig's ways, clear of furniture and walls by 0.4 m.
FLAT_WAY = Loop(
    np.array(
        [
            [2.6, 4.9], [4.2, 5.2], [5.8, 5.1], [8.0, 5.0], [10.2, 5.1], [12.0, 4.9], [13.0, 3.8], [13.0, 2.1],
            [12.0, 1.1], [10.0, 0.95], [8.0, 1.0], [6.0, 1.05], [4.0, 1.1], [3.0, 2.1], [2.2, 3.4],
        ]
    )
)  # fmt: skip


def _ring(x: float, y: float, corner: float, turn: int = 1) -> Loop:
    """A rectangle of half sides x and y with rounded corners, counter-clockwise; `turn` -1 goes the other way."""
    arc = np.radians([0.0, 22.5, 45.0, 67.5, 90.0])
    points = []
    for quarter, (sx, sy) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        angle = arc + quarter * np.pi / 2
        points += [[sx * (x - corner), sy * (y - corner)] + corner * np.stack([np.cos(angle), np.sin(angle)], -1)]
    corners = np.concatenate(points)
    # More waypoints along the straights, so that the spline does not swing out there.
    way: list[np.ndarray] = []
    for here, there in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        steps = max(1, round(float(np.linalg.norm(there - here)) / 4.0))
        way += [here + (there - here) * step / steps for step in range(steps)]
    return Loop(np.array(way[::turn]))


PAVEMENT_WAY = _ring(26.8, 16.8, 3.0)
CYCLE_WAY = _ring(35.2, 25.2, 6.0)


def flat() -> World:
    """Two furnished rooms side by side, a corridor along both, three people."""
    parts = [*_flat_shell(), *_left_room(), *_right_room(), *_corridor()]
    bodies = (
        _person("person in the left room", Loop(_round(5.6, 6.75, 0.9, 0.5)), 0.9, coat="coat"),
        _person("person in the right room", Loop(_round(10.4, 6.8, 1.1, 0.55)), 1.1, coat="red cloth", lead=2.0),
        _person("person in the corridor", Loop(_round(17.0, 1.0, 2.2, 0.45)), 1.3, coat="cloth"),
    )
    targets, plates = _targets(
        [
            ((7.88, 3.6, 1.5), "-x"), ((4.4, 7.98, 1.6), "-y"), ((0.02, 3.2, 1.4), "+x"), ((12.2, 7.98, 1.5), "-y"),
            ((15.98, 4.4, 1.5), "-x"), ((8.0, 0.02, 1.5), "+y"), ((-2.98, 1.0, 1.5), "+x"), ((19.98, 1.0, 1.6), "-x"),
        ],
        0.09,
    )  # fmt: skip
    lamps = np.array([[4.0, 5.0, 2.7], [12.0, 5.0, 2.7], [1.0, 1.0, 2.7], [8.0, 1.0, 2.7], [15.5, 1.0, 2.7]])
    light = Light(np.array([0.0, 0.0, 1.0]), 0.0, lamps, 0.30, (0.02, 0.02, 0.02), 60.0)
    return World(parts + plates, light, bodies, targets)


def street() -> World:
    """Houses round a block, pavements, trees, parked cars; cars, a cyclist and people on the move."""
    parts = [*_ground(), *_houses(), *_street_furniture(), *_parked_cars()]
    bodies = (
        _car("car 1", _ring(33.4, 23.4, 6.0), 7.0, "car blue", lead=18.0),
        _car("car 2", _ring(30.2, 20.2, 5.0, -1), 8.0, "car white", lead=60.0),
        _car("car 3", _ring(30.2, 20.2, 5.0, -1), 8.0, "car red", lead=140.0),
        _cyclist("cyclist", _ring(34.6, 24.6, 6.0), 4.5, lead=60.0),
        _person("walker 1", _ring(27.5, 17.5, 3.0, -1), 1.3, coat="red cloth", lead=12.0),
        _person("walker 2", _ring(39.4, 29.5, 6.0), 1.4, coat="coat", lead=22.0),
        _person("walker 3", PAVEMENT_WAY, 1.2, coat="cloth", lead=11.0),
    )
    targets, plates = _targets(
        [
            ((24.98, 3.0, 2.0), "+x"), ((10.0, 14.98, 2.0), "+y"), ((-24.98, -4.0, 2.0), "-x"),
            ((-8.0, -14.98, 2.0), "-y"), ((39.98, 8.0, 2.4), "-x"), ((12.0, 29.98, 2.4), "-y"),
        ],
        0.2,
    )  # fmt: skip
    sun = np.array([0.35, 0.45, 0.82])
    light = Light(sun / np.linalg.norm(sun), 0.85, np.zeros((0, 3)), 0.35, (0.42, 0.60, 0.85), 1500.0)
    return World(parts + plates, light, bodies, targets)


_HEIGHT = 2.7
_DOOR = 2.05


def _flat_shell() -> list[Part]:
    parts = [
        box((8.5, 4.0, -0.1), (24.0, 8.6, 0.2), "parquet"),
        rectangle((8.5, 1.0, 0.004), 23.0, 2.0, "up", "tiles"),
        box((8.5, 4.0, _HEIGHT + 0.1), (24.0, 8.6, 0.2), "ceiling"),
        box((8.5, -0.1, 1.35), (23.4, 0.2, _HEIGHT), "plaster"),
        box((8.0, 8.1, 1.35), (16.4, 0.2, _HEIGHT), "plaster"),
        box((-0.1, 5.1, 1.35), (0.2, 6.2, _HEIGHT), "green plaster"),
        box((16.1, 5.1, 1.35), (0.2, 6.2, _HEIGHT), "blue plaster"),
        box((-3.1, 1.0, 1.35), (0.2, 2.4, _HEIGHT), "plaster"),
        box((20.1, 1.0, 1.35), (0.2, 2.4, _HEIGHT), "plaster"),
    ]
    # Between the rooms and the corridor, with doors at x = 3 and x = 13; between the rooms, with one at y = 5.
    for left, right in [(-3.0, 2.4), (3.6, 12.4), (13.6, 20.0)]:
        parts.append(box(((left + right) / 2, 2.1, 1.35), (right - left, 0.2, _HEIGHT), "plaster"))
    for x in (3.0, 13.0):
        parts.append(box((x, 2.1, (_DOOR + _HEIGHT) / 2), (1.2, 0.2, _HEIGHT - _DOOR), "plaster"))
        parts += [box((x + side * 0.64, 2.1, _DOOR / 2), (0.09, 0.26, _DOOR), "white wood") for side in (-1, 1)]
    for low, high in [(2.2, 4.35), (5.65, 8.0)]:
        parts.append(box((8.0, (low + high) / 2, 1.35), (0.2, high - low, _HEIGHT), "plaster"))
    parts.append(box((8.0, 5.0, (_DOOR + _HEIGHT) / 2), (0.2, 1.3, _HEIGHT - _DOOR), "plaster"))
    parts += [rectangle((x, y, _HEIGHT - 0.003), 1.2, 0.3, "down", "lamp") for x, y in [(4, 5), (12, 5)]]
    parts += [rectangle((x, 1.0, _HEIGHT - 0.003), 1.2, 0.2, "down", "lamp") for x in (-1, 3.5, 8, 12.5, 17)]
    return parts


def _table(x: float, y: float, width: float, depth: float, material: str = "wood") -> list[Part]:
    top = box((x, y, 0.735), (width, depth, 0.03), material)
    reach_x, reach_y = width / 2 - 0.05, depth / 2 - 0.05
    return [top, *(
        standing(x + sx * reach_x, y + sy * reach_y, (0.06, 0.06, 0.72), material) for sx in (-1, 1) for sy in (-1, 1)
    )]  # fmt: skip


def _chair(x: float, y: float, yaw: float) -> list[Part]:
    back = np.radians(yaw)
    return [
        box((x, y, 0.45), (0.42, 0.42, 0.05), "white wood", yaw),
        box((x - 0.2 * np.cos(back), y - 0.2 * np.sin(back), 0.72), (0.04, 0.42, 0.5), "white wood", yaw),
        cylinder(x, y, 0.0, 0.43, 0.03, "metal"),
        cylinder(x, y, 0.0, 0.03, 0.22, "metal"),
    ]


def _shelf(x: float, y: float, width: float, yaw: float) -> list[Part]:
    """A bookcase with its back to the wall; `yaw` 0 has its long side along x."""
    size = (width, 0.32) if yaw == 0 else (0.32, width)
    boards = [box((x, y, level), (*size, 0.03), "wood") for level in (0.05, 0.45, 0.85, 1.25, 1.65)]
    inner = (size[0] - 0.1, size[1] - 0.08)
    books = [box((x, y, level + 0.14), (*inner, 0.26), "books") for level in (0.05, 0.45, 0.85, 1.25)]
    return [*boards, *books]


def _left_room() -> list[Part]:
    return [
        rectangle((4.2, 5.2, 0.004), 2.6, 1.7, "up", "carpet"),
        # Sofa along the left wall, low table, television.
        standing(0.55, 6.3, (0.9, 2.1, 0.42), "cloth"),
        box((0.16, 6.3, 0.6), (0.22, 2.1, 0.55), "cloth"),
        *(standing(0.55, y, (0.9, 0.22, 0.6), "cloth") for y in (5.2, 7.4)),
        box((1.75, 6.6, 0.36), (0.6, 1.1, 0.05), "wood"),
        *(standing(1.75, 6.6 + side * 0.42, (0.4, 0.06, 0.34), "wood") for side in (-1, 1)),
        *_shelf(2.4, 7.82, 1.6, 0),
        standing(7.62, 6.9, (0.45, 1.6, 0.5), "white wood"),
        box((7.72, 6.9, 0.95), (0.06, 1.25, 0.72), "black plastic"),
        # Dining table with chairs below the picture.
        *_table(5.9, 3.0, 1.4, 0.85),
        *_chair(5.55, 3.75, -90.0),
        *_chair(6.3, 3.72, -95.0),
        standing(7.4, 2.5, (0.5, 0.5, 1.9), "metal"),
        cylinder(0.5, 3.9, 0.0, 0.42, 0.2, "brick"),
        cylinder(0.5, 3.9, 0.42, 1.4, 0.33, "leaf"),
        standing(0.45, 2.6, (0.7, 0.6, 0.9), "white wood"),
        rectangle((6.2, 7.995, 1.55), 1.5, 1.2, "-y", "window"),
        rectangle((0.005, 6.3, 1.65), 1.3, 0.8, "+x", "picture"),
        box((4.75, 2.25, 0.42), (1.1, 0.12, 0.6), "metal"),
    ]  # fmt: skip


def _right_room() -> list[Part]:
    return [
        # Desks with screens along the right wall, cupboards, a pillar, boxes.
        *_table(15.55, 6.4, 0.8, 1.6, "white wood"),
        box((15.75, 6.1, 1.02), (0.05, 0.6, 0.38), "black plastic"),
        box((15.75, 6.8, 1.02), (0.05, 0.6, 0.38), "black plastic"),
        *_chair(14.85, 6.4, 0.0),
        *_table(15.55, 3.2, 0.8, 1.4, "white wood"),
        *_chair(14.8, 3.2, 10.0),
        *_shelf(13.4, 7.82, 1.8, 0),
        *_shelf(8.28, 7.0, 1.4, 90),
        standing(9.0, 2.55, (1.4, 0.6, 1.95), "white wood"),
        standing(10.6, 2.5, (1.2, 0.5, 1.1), "wood"),
        cylinder(14.0, 5.5, 0.0, _HEIGHT, 0.18, "plaster"),
        standing(11.4, 2.6, (0.4, 0.4, 0.35), "books", 20.0),
        box((11.4, 2.6, 0.5), (0.3, 0.3, 0.28), "picture", -15.0),
        cylinder(14.6, 2.6, 0.0, 0.6, 0.18, "metal"),
        rectangle((10.4, 7.995, 1.55), 1.5, 1.2, "-y", "window"),
        rectangle((15.995, 5.0, 1.6), 0.9, 1.2, "-x", "picture"),
        rectangle((11.6, 5.3, 0.004), 2.4, 1.6, "up", "carpet"),
    ]


def _corridor() -> list[Part]:
    return [
        standing(5.5, 0.16, (1.0, 0.3, 0.9), "wood"),
        standing(10.8, 0.16, (1.2, 0.3, 1.0), "metal"),
        standing(-2.5, 0.5, (0.6, 0.6, 1.7), "white wood"),
        cylinder(-0.6, 1.75, 0.0, 0.7, 0.2, "metal"),
        cylinder(15.0, 0.3, 0.0, 1.1, 0.16, "car red"),
        rectangle((2.5, 0.005, 1.5), 1.1, 0.8, "+y", "picture"),
        rectangle((12.6, 0.005, 1.5), 0.8, 1.1, "+y", "picture"),
        rectangle((8.0, 1.995, 1.55), 1.4, 0.7, "-y", "picture"),
        box((16.0, 1.97, 1.02), (0.9, 0.06, 2.04), "wood"),
    ]


def _ground() -> list[Part]:
    """The road, 0.1 m below the pavements, and its markings."""
    parts = [
        box((0.0, 0.0, -0.6), (240.0, 200.0, 1.0), "asphalt"),
        box((0.0, 0.0, -0.05), (56.4, 36.4, 0.1), "paving"),
    ]
    for side in (-1, 1):
        parts.append(box((side * 45.2, 0.0, -0.05), (18.0, 74.8, 0.1), "paving"))
        parts.append(box((0.0, side * 32.2, -0.05), (72.4, 10.0, 0.1), "paving"))
        for x in np.arange(-27.0, 28.0, 6.0):
            parts.append(rectangle((x, side * 22.2, -0.095), 2.4, 0.14, "up", "paint"))
        for y in np.arange(-17.0, 18.0, 6.0):
            parts.append(rectangle((side * 32.2, y, -0.095), 0.14, 2.4, "up", "paint"))
    return parts


def _front(x: float, y: float, width: float, depth: float, height: float, wall: str, facing: str) -> list[Part]:
    """A house with windows and a door on the side that faces the street."""
    parts = [box((x, y, height / 2 - 0.1), (width, depth, height + 0.2), wall)]
    along_y = facing[1] == "x"
    sign = 1 if facing[0] == "+" else -1
    length = depth if along_y else width
    face = (x + sign * (width / 2 + 0.012)) if along_y else (y + sign * (depth / 2 + 0.012))
    for number, offset in enumerate(np.arange(-length / 2 + 1.8, length / 2 - 1.0, 3.6)):
        for level in np.arange(1.7, height - 1.0, 3.2):
            at = (face, y + offset, level) if along_y else (x + offset, face, level)
            parts.append(rectangle(at, 1.3, 1.5, facing, "glass"))
        if number % 3 == 1:
            at = (face, y + offset + 1.8, 1.1) if along_y else (x + offset + 1.8, face, 1.1)
            parts.append(rectangle(at, 1.1, 2.2, facing, "wood"))
    return parts


def _houses() -> list[Part]:
    walls = ["brick", "render", "stone", "green plaster", "plaster"]
    parts = [
        *_front(16.5, 9.0, 17.0, 12.0, 9.0, "brick", "+y"),
        *_front(-12.0, 9.5, 20.0, 11.0, 6.5, "render", "+y"),
        *_front(19.5, -7.0, 11.0, 16.0, 7.5, "stone", "+x"),
        *_front(-6.0, -10.0, 22.0, 10.0, 9.5, "brick", "-y"),
        *_front(-21.0, -4.0, 8.0, 14.0, 6.0, "plaster", "-x"),
    ]
    number = 0
    for side in (-1, 1):
        for x in (-27.0, -9.0, 10.0, 28.0):
            deep = 9.0 + number % 3
            wall, height = walls[number % 5], 6.5 + 1.6 * (number % 3)
            parts += _front(x, side * (30.0 + deep / 2), 16.5, deep, height, wall, "-y" if side > 0 else "+y")
            number += 1
        for y in (-18.0, 0.0, 19.0):
            deep = 8.0 + number % 4
            wall, height = walls[number % 5], 6.0 + 1.4 * (number % 4)
            parts += _front(side * (40.0 + deep / 2), y, deep, 16.0, height, wall, "-x" if side > 0 else "+x")
            number += 1
    return parts


def _tree(x: float, y: float, height: float) -> list[Part]:
    return [
        cylinder(x, y, -0.1, height * 0.5, 0.16, "bark"),
        cylinder(x, y, height * 0.42, height * 0.78, height * 0.24, "leaf"),
        cylinder(x, y, height * 0.78, height, height * 0.15, "leaf"),
    ]


def _lamp_post(x: float, y: float) -> list[Part]:
    return [cylinder(x, y, -0.1, 5.2, 0.07, "metal"), cylinder(x, y, 5.2, 5.5, 0.22, "paint")]


def _street_furniture() -> list[Part]:
    parts: list[Part] = []
    for side in (-1, 1):
        for x in (-20.0, -7.0, 6.0, 19.0):
            parts += _tree(x, side * 28.6, 5.5 + (x % 3))
            parts += _lamp_post(x + 5.0, side * 18.9 - side * 0.9)
        for y in (-12.0, 1.0, 13.0):
            parts += _tree(side * 38.6, y, 5.0 + (y % 2))
        parts += _lamp_post(side * 28.0, 8.0)
        parts += [cylinder(side * 27.9, -6.0, -0.1, 2.3, 0.03, "metal")]
        parts += [box((side * 27.9, -6.0, 2.3), (0.03, 0.6, 0.6), "sign", 8.0)]
    parts += [
        standing(25.5, -13.5, (0.6, 1.6, 0.5), "wood"),
        box((25.25, -13.5, 0.7), (0.08, 1.6, 0.5), "wood"),
        standing(4.0, 15.45, (2.4, 0.7, 0.9), "leaf"),
        standing(-3.0, 15.45, (1.0, 0.6, 1.1), "car blue"),
        standing(-26.6, 12.0, (0.6, 2.5, 1.1), "leaf"),
        cylinder(27.8, 4.0, -0.05, 0.9, 0.14, "car red"),
        cylinder(25.4, 10.0, -0.05, 0.95, 0.25, "metal"),
        cylinder(-25.6, -13.0, -0.05, 0.95, 0.25, "metal"),
    ]
    return parts


def _car_parts(paint: str) -> tuple[Part, ...]:
    """A car, front to +x, wheels on the road 0.1 m below the pavement."""
    axle = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    wheel_middle = 0.22
    wheels = tuple(
        Part(1, (x, y, wheel_middle), (0.32, 0.32, 0.1), "black plastic", axle)
        for x in (1.3, -1.3)
        for y in (0.8, -0.8)
    )
    return (
        box((0.0, 0.0, 0.48), (4.2, 1.75, 0.62), paint),
        box((-0.25, 0.0, 1.05), (2.2, 1.55, 0.55), "glass"),
        box((-0.25, 0.0, 1.345), (2.0, 1.5, 0.04), paint),
        box((2.11, 0.0, 0.35), (0.02, 0.52, 0.12), "paint"),
        *wheels,
    )


def _parked_cars() -> list[Part]:
    paints = ["car white", "car red", "car blue", "metal"]
    spots = [(-16.0, 28.2), (-11.0, 28.2), (9.0, 28.2), (13.5, 28.2), (-15.0, -28.2), (-2.0, -28.2), (11.0, -28.2)]
    parts = []
    for number, (x, y) in enumerate(spots):
        for part in _car_parts(paints[number % 4]):
            cx, cy, cz = part.centre
            parts.append(Part(part.kind, (x + cx, y + cy, cz + 0.1), part.half, part.material, part.axes))
    return parts


def _person(name: str, loop: Loop, speed: float, *, coat: str, lead: float = 0.0) -> Body:
    parts = (
        cylinder(0.12, 0.1, 0.0, 0.85, 0.085, "jeans"),
        cylinder(-0.12, -0.1, 0.0, 0.85, 0.085, "jeans"),
        box((0.0, 0.0, 1.14), (0.26, 0.44, 0.6), coat),
        cylinder(0.08, 0.28, 0.75, 1.4, 0.05, coat),
        cylinder(-0.08, -0.28, 0.75, 1.4, 0.05, coat),
        cylinder(0.0, 0.0, 1.44, 1.72, 0.1, "skin"),
    )
    return Body(name, parts, loop, speed, lead)


def _cyclist(name: str, loop: Loop, speed: float, *, lead: float) -> Body:
    axle = FACING["+y"]
    wheels = tuple(Part(1, (x, 0.0, 0.24), (0.34, 0.34, 0.02), "metal", axle) for x in (0.52, -0.52))
    parts = (
        *wheels,
        box((0.0, 0.0, 0.6), (0.9, 0.05, 0.06), "metal"),
        cylinder(-0.1, 0.1, 0.25, 0.95, 0.08, "jeans"),
        cylinder(0.1, -0.1, 0.25, 0.95, 0.08, "jeans"),
        box((0.05, 0.0, 1.2), (0.4, 0.4, 0.55), "coat"),
        cylinder(0.18, 0.0, 1.46, 1.74, 0.11, "skin"),
    )
    return Body(name, parts, loop, speed, lead)


def _car(name: str, loop: Loop, speed: float, paint: str, *, lead: float) -> Body:
    return Body(name, _car_parts(paint), loop, speed, lead)


def _round(x: float, y: float, along: float, across: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return np.stack([x + along * np.cos(angle), y + across * np.sin(angle)], -1)


def _targets(
    places: list[tuple[tuple[float, float, float], str]], size: float
) -> tuple[tuple[Target, ...], list[Part]]:
    """Bright plates a little off the wall, and their centres by name."""
    targets = tuple(Target(f"target {number}", centre) for number, (centre, _) in enumerate(places, 1))
    return targets, [rectangle(centre, size, size, facing, "target") for centre, facing in places]
