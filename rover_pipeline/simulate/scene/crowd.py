"""A bare hall in which a crowd walks along with the rig, and others come towards it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rover_pipeline.simulate.motion import Beside, ClosedPath, Pace
from rover_pipeline.simulate.scene.props import person, target_plates
from rover_pipeline.simulate.scene.world import World, box, lamplight, rectangle

#: Half of the hall's length and width, and its height; metres. Layout.
_LONG, _WIDE, _HIGH = 45.0, 4.0, 3.2
#: Half of the length of the straights of the paths, and the radius of the rig's turns. Layout.
_STRAIGHT, _TURN = 36.0, 1.6


def _track(offset: float) -> ClosedPath:
    """Up and down the hall in a long loop, `offset` metres outside of the rig's track."""
    radius = _TURN + offset
    along = np.linspace(-_STRAIGHT, _STRAIGHT, 24, endpoint=False)
    arc = np.linspace(-np.pi / 2, np.pi / 2, 6, endpoint=False)
    there = np.stack([along, np.full(24, -radius)], -1)
    turn = [_STRAIGHT, 0.0] + radius * np.stack([np.cos(arc), np.sin(arc)], -1)
    half = np.concatenate([there, turn])
    return ClosedPath(np.concatenate([half, -half]))


#: The rig's path begins near an end of the hall. Layout.
RIG_PATH = _track(0.0)

#: People who walk along with the rig: metres ahead of it and to its left. Layout.
_ALONGSIDE = [(1.7, -0.3), (1.3, 0.8), (-1.4, -0.55), (-1.5, 0.65), (0.2, -1.0), (0.1, 1.0), (2.9, 0.1)]
_COATS = ["coat", "cloth", "red cloth"]


def world(pace: Pace) -> World:
    """The hall; people alongside keep the rig's `pace`, so that they surround it at rest in its own frame."""
    parts = [
        box((0.0, 0.0, -0.1), (2 * _LONG + 1, 2 * _WIDE + 1, 0.2), "concrete"),
        box((0.0, 0.0, _HIGH + 0.1), (2 * _LONG + 1, 2 * _WIDE + 1, 0.2), "ceiling"),
        *(box((0.0, side * (_WIDE + 0.1), _HIGH / 2), (2 * _LONG + 1, 0.2, _HIGH), "plaster") for side in (-1, 1)),
        *(box((side * (_LONG + 0.1), 0.0, _HIGH / 2), (0.2, 2 * _WIDE, _HIGH), "plaster") for side in (-1, 1)),
        *(rectangle((x, 0.0, _HIGH - 0.003), 1.4, 0.2, "down", "lamp") for x in np.arange(-42.0, 43.0, 6.0)),
    ]
    bodies = []
    for number, (ahead, left) in enumerate(_ALONGSIDE):
        beside, coat = Beside(RIG_PATH, left), _COATS[number % 3]
        bodies.append(replace(person(f"alongside {number + 1}", beside, pace.speed, coat=coat, start=ahead), pace=pace))
    for number, (start, offset) in enumerate([(20.0, 1.95), (27.0, 1.8), (60.0, 1.9), (75.0, 1.7), (110.0, 1.85)]):
        path, coat = ClosedPath(_track(offset).points(60)[::-1]), _COATS[(number + 1) % 3]
        bodies.append(person(f"walker {number + 1}", path, 1.2, coat=coat, start=start))
    targets, plates = target_plates(0.2, [
        ((_LONG - 0.02, 0.0, 1.6), "-x"), ((-_LONG + 0.02, 0.0, 1.6), "+x"), ((-20.0, -_WIDE + 0.02, 1.6), "+y"),
    ])  # fmt: skip
    lamps = np.array([[x, 0.0, _HIGH - 0.1] for x in np.arange(-40.0, 41.0, 16.0)])
    return World(parts + plates, lamplight(lamps, 0.35), tuple(bodies), targets)
