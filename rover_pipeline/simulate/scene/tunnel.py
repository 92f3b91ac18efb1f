"""A long smooth tunnel: nothing in it says how far along one is, but for niches near its ends."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import rounded_rectangle
from rover_pipeline.simulate.scene.props import person, target_plates
from rover_pipeline.simulate.scene.world import Part, World, box, lamplight, standing_box

#: Half of the tunnel's length and width, and its height; metres. Layout.
_LONG, _WIDE, _HIGH = 190.0, 3.6, 4.2
_WALL = "smooth concrete"
#: Half of the straights of the rig's path, which begins at an end of the tunnel. Layout.
_STRAIGHT = 170.0

#: The rig's path: through the tunnel and back on the other side. Layout.
RIG_PATH = rounded_rectangle(_STRAIGHT, 1.6, 1.5)


def world() -> World:
    """Smooth walls of one colour; the last 40 m at each end have niches."""
    whole = (2 * _LONG + 1, 2 * _WIDE + 3, 0.2)
    parts = [box((0.0, 0.0, -0.1), whole, _WALL), box((0.0, 0.0, _HIGH + 0.1), whole, _WALL)]
    for end in (-1, 1):
        parts.append(box((end * (_LONG + 0.1), 0.0, _HIGH / 2), (0.2, 2 * _WIDE + 2, _HIGH), _WALL))
    for side in (-1, 1):
        niches = 150.0 + 9.0 * np.arange(4) + 4.0 * (side > 0)
        parts += _wall(side, [*-niches, *niches])
    bodies = (
        person("walker 1", rounded_rectangle(60.0, 2.9, 0.6, -1), 1.4, coat="coat", start=20.0),
        person("walker 2", rounded_rectangle(175.0, 2.9, 0.6), 1.3, coat="cloth", start=30.0),
    )
    targets, plates = target_plates(0.3, [
        ((-_LONG + 0.02, 0.5, 1.6), "+x"), ((_LONG - 0.02, -0.5, 1.6), "-x"), ((-140.0, -_WIDE + 0.02, 1.6), "+y"),
    ])  # fmt: skip
    return World(parts + plates, lamplight(np.zeros((0, 3)), 0.45, 40.0), bodies, targets)


def _wall(side: int, niches: list[float]) -> list[Part]:
    """A wall along the tunnel with niches of 2 m by 2.2 m, 0.7 m deep, at these x; every second one holds a cabinet."""
    parts, deep, wide = [], 0.7, 2.0
    edges = sorted(niches)
    starts, ends = [-_LONG, *(x + wide / 2 for x in edges)], [*(x - wide / 2 for x in edges), _LONG]
    for start, end in zip(starts, ends, strict=True):
        centre = ((start + end) / 2, side * (_WIDE + deep / 2), _HIGH / 2)
        parts.append(box(centre, (end - start, deep, _HIGH), _WALL))
    for number, x in enumerate(edges):
        parts.append(box((x, side * (_WIDE + deep / 2), (2.2 + _HIGH) / 2), (wide, deep, _HIGH - 2.2), _WALL))
        parts.append(box((x, side * (_WIDE + deep + 0.1), 1.1), (wide, 0.2, 2.2), _WALL))
        if number % 2:
            parts.append(standing_box(x + 0.4, side * (_WIDE + 0.45), (0.7, 0.4, 1.3), "metal"))
    return parts
