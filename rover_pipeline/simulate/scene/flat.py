"""A furnished flat: two rooms side by side, a corridor along both."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import ClosedPath, ellipse
from rover_pipeline.simulate.scene.props import chair, person, shelf, table, target_plates
from rover_pipeline.simulate.scene.world import Part, World, box, cylinder, lamplight, rectangle, standing_box

#: The rig's path through both rooms and the corridor; it stays 0.4 m away from furniture and walls. Layout.
RIG_PATH = ClosedPath([
    [2.6, 4.9], [4.2, 5.2], [5.8, 5.1], [8.0, 5.0], [10.2, 5.1], [12.0, 4.9], [13.0, 3.8], [13.0, 2.1],
    [12.0, 1.1], [10.0, 0.95], [8.0, 1.0], [6.0, 1.05], [4.0, 1.1], [3.0, 2.1], [2.2, 3.4],
])  # fmt: skip


def world() -> World:
    """Two furnished rooms side by side, a corridor along both, three people."""
    parts = [*_shell(), *_furniture()]
    bodies = (
        person("person in the left room", ellipse(5.6, 6.75, 0.9, 0.5), 0.9, coat="coat"),
        person("person in the right room", ellipse(10.4, 6.8, 1.1, 0.55), 1.1, coat="red cloth", start=2.0),
        person("person in the corridor", ellipse(17.0, 1.0, 2.2, 0.45), 1.3, coat="cloth"),
    )
    targets, plates = target_plates(0.09, [
        ((7.88, 3.6, 1.5), "-x"), ((4.4, 7.98, 1.6), "-y"), ((0.02, 3.2, 1.4), "+x"), ((12.2, 7.98, 1.5), "-y"),
        ((15.98, 4.4, 1.5), "-x"), ((8.0, 0.02, 1.5), "+y"), ((-2.98, 1.0, 1.5), "+x"), ((19.98, 1.0, 1.6), "-x"),
    ])  # fmt: skip
    lamps = np.array([[4.0, 5.0, 2.7], [12.0, 5.0, 2.7], [1.0, 1.0, 2.7], [8.0, 1.0, 2.7], [15.5, 1.0, 2.7]])
    return World(parts + plates, lamplight(lamps, 0.30), bodies, targets)


#: Heights of the rooms and of the doors; metres. Layout.
_HEIGHT = 2.7
_DOOR = 2.05


def _shell() -> list[Part]:
    parts = [
        box((8.5, 4.0, -0.1), (24.0, 8.6, 0.2), "parquet"),
        rectangle((8.5, 1.0, 0.004), 23.0, 2.0, "up", "tiles"),
        box((8.5, 4.0, _HEIGHT + 0.1), (24.0, 8.6, 0.2), "ceiling"),
        box((8.5, -0.1, 1.35), (23.4, 0.2, _HEIGHT), "plaster"),
        box((8.0, 8.1, 1.35), (16.4, 0.2, _HEIGHT), "plaster"),
        box((-0.1, 5.1, 1.35), (0.2, 6.2, _HEIGHT), "green plaster"),
        box((16.1, 5.1, 1.35), (0.2, 6.2, _HEIGHT), "blue plaster"),
        *(box((x, 1.0, 1.35), (0.2, 2.4, _HEIGHT), "plaster") for x in (-3.1, 20.1)),
    ]
    # Walls between the rooms and the corridor have doors at x = 3 and x = 13; the one between the rooms, at y = 5.
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


def _furniture() -> list[Part]:
    return [
        # In the left room a sofa along the left wall, a low table and a television.
        rectangle((4.2, 5.2, 0.004), 2.6, 1.7, "up", "carpet"),
        standing_box(0.55, 6.3, (0.9, 2.1, 0.42), "cloth"),
        box((0.16, 6.3, 0.6), (0.22, 2.1, 0.55), "cloth"),
        *(standing_box(0.55, y, (0.9, 0.22, 0.6), "cloth") for y in (5.2, 7.4)),
        box((1.75, 6.6, 0.36), (0.6, 1.1, 0.05), "wood"),
        *(standing_box(1.75, 6.6 + side * 0.42, (0.4, 0.06, 0.34), "wood") for side in (-1, 1)),
        *shelf(2.4, 7.82, 1.6, 0),
        standing_box(7.62, 6.9, (0.45, 1.6, 0.5), "white wood"),
        box((7.72, 6.9, 0.95), (0.06, 1.25, 0.72), "black plastic"),
        # A dining table with chairs.
        *table(5.9, 3.0, 1.4, 0.85),
        *chair(5.55, 3.75, -90.0),
        *chair(6.3, 3.72, -95.0),
        standing_box(7.4, 2.5, (0.5, 0.5, 1.9), "metal"),
        cylinder(0.5, 3.9, 0.0, 0.42, 0.2, "brick"),
        cylinder(0.5, 3.9, 0.42, 1.4, 0.33, "leaf"),
        standing_box(0.45, 2.6, (0.7, 0.6, 0.9), "white wood"),
        rectangle((6.2, 7.995, 1.55), 1.5, 1.2, "-y", "window"),
        rectangle((0.005, 6.3, 1.65), 1.3, 0.8, "+x", "picture"),
        box((4.75, 2.25, 0.42), (1.1, 0.12, 0.6), "metal"),
        # In the right room desks with screens along the right wall, cupboards, a pillar and boxes.
        *table(15.55, 6.4, 0.8, 1.6, "white wood"),
        *(box((15.75, y, 1.02), (0.05, 0.6, 0.38), "black plastic") for y in (6.1, 6.8)),
        *chair(14.85, 6.4, 0.0),
        *table(15.55, 3.2, 0.8, 1.4, "white wood"),
        *chair(14.8, 3.2, 10.0),
        *shelf(13.4, 7.82, 1.8, 0),
        *shelf(8.28, 7.0, 1.4, 90),
        standing_box(9.0, 2.55, (1.4, 0.6, 1.95), "white wood"),
        standing_box(10.6, 2.5, (1.2, 0.5, 1.1), "wood"),
        cylinder(14.0, 5.5, 0.0, _HEIGHT, 0.18, "plaster"),
        standing_box(11.4, 2.6, (0.4, 0.4, 0.35), "books", 20.0),
        box((11.4, 2.6, 0.5), (0.3, 0.3, 0.28), "picture", -15.0),
        cylinder(14.6, 2.6, 0.0, 0.6, 0.18, "metal"),
        rectangle((10.4, 7.995, 1.55), 1.5, 1.2, "-y", "window"),
        rectangle((15.995, 5.0, 1.6), 0.9, 1.2, "-x", "picture"),
        rectangle((11.6, 5.3, 0.004), 2.4, 1.6, "up", "carpet"),
        # In the corridor cupboards and bins along the walls, pictures and a door.
        standing_box(5.5, 0.16, (1.0, 0.3, 0.9), "wood"),
        standing_box(10.8, 0.16, (1.2, 0.3, 1.0), "metal"),
        standing_box(-2.5, 0.5, (0.6, 0.6, 1.7), "white wood"),
        cylinder(-0.6, 1.75, 0.0, 0.7, 0.2, "metal"),
        cylinder(15.0, 0.3, 0.0, 1.1, 0.16, "car red"),
        rectangle((2.5, 0.005, 1.5), 1.1, 0.8, "+y", "picture"),
        rectangle((12.6, 0.005, 1.5), 0.8, 1.1, "+y", "picture"),
        rectangle((8.0, 1.995, 1.55), 1.4, 0.7, "-y", "picture"),
        box((16.0, 1.97, 1.02), (0.9, 0.06, 2.04), "wood"),
    ]
