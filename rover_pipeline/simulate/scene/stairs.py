"""A stairwell: a passage on the ground, a flight of stairs up, a passage on the first floor, a flight down."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import ClosedPath, ellipse
from rover_pipeline.simulate.scene.props import chair, person, shelf, target_plates
from rover_pipeline.simulate.scene.world import CYLINDER, Part, World, box, cylinder, lamplight, rectangle, standing_box

#: Number of steps of a flight, their rise and depth, and the y at which the first one begins; metres. Layout.
_STEPS, _RISE, _DEPTH, _FOOT = 14, 0.175, 0.28, 2.3
_FLOOR, _HEAD = _STEPS * _RISE, _FOOT + _STEPS * _DEPTH
_ROOF = 5.2


def _slope(x: float, fractions: tuple[float, ...]) -> list[list[float]]:
    """Waypoints on a flight of stairs, at fractions of its length."""
    return [[x, _FOOT + along * (_HEAD - _FOOT), 0.02 + along * (_FLOOR - 0.04)] for along in fractions]


#: The rig's path round the stairwell: along the ground, up, along the first floor, down. Layout.
RIG_PATH = ClosedPath([
    [2.4, 1.0, 0], [4.2, 0.95, 0], [6.0, 1.05, 0], [7.8, 1.0, 0], [9.2, 1.1, 0], [9.9, 1.75, 0.05],
    *_slope(10.0, (0.1, 0.37, 0.63, 0.9)),
    [9.9, 7.05, _FLOOR - 0.05], [9.2, 7.8, _FLOOR], [7.8, 8.0, _FLOOR], [6.0, 7.95, _FLOOR],
    [4.2, 8.05, _FLOOR], [2.6, 8.0, _FLOOR], [1.6, 7.7, _FLOOR], [1.05, 7.0, _FLOOR - 0.05],
    *_slope(1.0, (0.9, 0.63, 0.37, 0.1)),
    [1.1, 1.75, 0.05],
])  # fmt: skip


def world() -> World:
    """Narrow passages round a block, two flights of stairs, a lobby with a person in it."""
    parts = [*_shell(), *_flight(10.0), *_flight(1.0), *_furniture()]
    bodies = (person("person in the lobby", ellipse(5.5, -2.4, 1.3, 0.7), 0.8, coat="coat"),)
    targets, plates = target_plates(0.09, [
        ((10.98, 1.2, 1.5), "-x"), ((0.02, 8.2, _FLOOR + 1.5), "+x"), ((10.98, 8.2, _FLOOR + 1.5), "-x"),
        ((0.02, 1.0, 1.5), "+x"), ((10.0, 8.98, _FLOOR + 1.4), "-y"), ((1.0, 0.02, 1.5), "+y"),
    ])  # fmt: skip
    lamps = np.array([[5.5, 1.0, 2.4], [10.0, 4.0, 4.9], [5.5, 8.0, 4.9], [1.0, 4.0, 4.9], [5.5, -2.4, 2.4]])
    return World(parts + plates, lamplight(lamps, 0.30), bodies, targets)


def _shell() -> list[Part]:
    """Floors, walls and the block in the middle. A doorway of 2.8 m joins the passage on the ground to the lobby."""
    middle = (1.9 + 9.1) / 2
    return [
        box((5.5, 2.5, -0.1), (11.4, 13.4, 0.2), "tiles"),
        box((5.5, 4.5, _ROOF + 0.1), (11.4, 9.4, 0.2), "ceiling"),
        # Solid blocks: below the first floor, and from the ceiling of the passage on the ground up to the roof.
        box((5.5, (_HEAD + 9.0) / 2, _FLOOR / 2), (11.0, 9.0 - _HEAD, _FLOOR), "parquet"),
        box((middle, 0.95, (2.6 + _ROOF) / 2), (7.2, 1.9, _ROOF - 2.6), "plaster"),
        box((middle, 4.5, _ROOF / 2), (7.2, 5.2, _ROOF), "green plaster"),
        *(box((x, 4.5, _ROOF / 2), (0.2, 9.4, _ROOF), "plaster") for x in (-0.1, 11.1)),
        box((5.5, 9.1, _ROOF / 2), (11.4, 0.2, _ROOF), "blue plaster"),
        *(box((x, -0.1, _ROOF / 2), (4.2, 0.2, _ROOF), "plaster") for x in (2.0, 9.0)),
        box((5.5, -0.1, (2.1 + _ROOF) / 2), (2.8, 0.2, _ROOF - 2.1), "plaster"),
        # The lobby.
        box((5.5, -4.1, 1.3), (11.4, 0.2, 2.6), "brick"),
        *(box((x, -2.1, 1.3), (0.2, 4.2, 2.6), "plaster") for x in (1.9, 9.1)),
        box((5.5, -2.1, 2.7), (7.4, 4.2, 0.2), "ceiling"),
    ]


def _flight(x: float) -> list[Part]:
    """Steps that rise along +y, and a rail on both sides."""
    parts = []
    for number in range(_STEPS):
        top = (number + 1) * _RISE
        parts.append(box((x, _FOOT + (number + 0.5) * _DEPTH, top / 2), (1.8, _DEPTH, top), "stone"))
    slope = np.arctan2(_FLOOR, _HEAD - _FOOT)
    along = np.array([0.0, np.cos(slope), np.sin(slope)])
    axes = np.stack([np.array([1.0, 0, 0]), np.cross(along, [1.0, 0, 0]), along])
    length = float(np.hypot(_FLOOR, _HEAD - _FOOT))
    for side in (-0.84, 0.84):
        centre = (x + side, (_FOOT + _HEAD) / 2, _FLOOR / 2 + 0.9)
        parts.append(Part(CYLINDER, centre, (0.025, 0.025, length / 2), "metal", axes))
    return parts


def _furniture() -> list[Part]:
    return [
        standing_box(2.6, 0.2, (0.8, 0.35, 0.9), "wood"),
        cylinder(8.6, 0.25, 0.0, 0.8, 0.2, "brick"),
        cylinder(8.6, 0.25, 0.8, 1.5, 0.22, "leaf"),
        rectangle((3.2, 1.895, 1.5), 0.9, 0.7, "-y", "picture"),
        box((7.0, 1.87, 1.0), (0.9, 0.06, 2.0), "wood"),
        box((4.0, 7.13, _FLOOR + 1.0), (0.9, 0.06, 2.0), "wood"),
        box((7.2, 7.13, _FLOOR + 1.0), (0.9, 0.06, 2.0), "white wood"),
        box((5.6, 8.87, _FLOOR + 0.45), (1.1, 0.12, 0.6), "metal"),
        box((3.0, 8.8, _FLOOR + 0.5), (0.9, 0.35, 1.0), "books"),
        rectangle((8.2, 8.995, _FLOOR + 1.5), 1.2, 1.1, "-y", "window"),
        rectangle((10.995, 4.2, 3.4), 1.2, 1.4, "-x", "window"),
        rectangle((0.005, 4.8, 3.5), 1.0, 1.3, "+x", "window"),
        *chair(3.0, -3.4, 90.0),
        *shelf(7.9, -3.85, 1.6, 0),
        standing_box(2.3, -2.0, (0.5, 1.4, 0.8), "wood"),
    ]  # fmt: skip
