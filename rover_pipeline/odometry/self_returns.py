"""Returns from the rig itself: a board, a mast, whoever carries it. They stand still in the lidar's frame.

Half a view of them holds a rig where it is. People who walk along stand still in the lidar's frame as well, and ranges
cannot distinguish them from a board. So only what the user declares (`rig.own`) is left out. Where ranges show
something of the kind that nobody declared, the lines to declare it with are proposed. Whether a rig that seems to stand
is believed does not depend on it: large planes of the world decide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from rover_pipeline.kinematics.options import OwnRegion
from rover_pipeline.lidar.ranges import CLIPPED

#: Sweeps that are looked at, spread over the recording, and the smallest number that shows anything. Tuned: by hand.
SWEEPS, MIN_SWEEPS = 32, 8
#: Largest distance of what belongs to the rig, mm. Tuned: by hand.
_NEAR = 3000
#: Largest change of a range that counts as the same, mm: twelve times the noise of a good lidar, four of a poor one.
#: Tuned: by hand.
_SAME = 40
#: Share of the sweeps in which a pixel has a return, and in which it is the same, so that a few may differ.
#: Tuned: by hand.
_MIN_RETURNED, _MIN_SAME = 0.9, 0.95
#: Smallest share of pixels that shows anything, and the largest share of far ones that may be the same: below a trolley
#: a smooth floor is the same near and far, and so is all where a rig stands. Tuned: by hand.
_MIN_SHARE, _MAX_FAR_SAME = 0.02, 0.002
#: Degrees of azimuth without candidates that end a part. Tuned: by hand.
_GAP_DEGREES = 3


def outside(points: np.ndarray, regions: Sequence[OwnRegion]) -> np.ndarray:
    """Which points, f4 (N, 3), m, lidar frame, are in none of the regions; bool (N,)."""
    inside = np.zeros(len(points), bool)
    x, y, z = points.astype("f8").T
    for region in regions:
        if region.box is not None:
            low, high = np.array(region.box)
            inside |= ((points >= low) & (points <= high)).all(1)
            continue
        flat = np.hypot(x, y)
        start, stop = region.azimuth
        turned = (np.degrees(np.arctan2(y, x)) - start) % 360
        up = np.degrees(np.arctan2(z, flat))
        found = (np.hypot(flat, z) <= region.range) & (up >= region.elevation[0]) & (up <= region.elevation[1])
        inside |= found & (turned <= stop - start)
    return ~inside


def candidates(images: np.ndarray) -> np.ndarray | None:
    """Where near ranges stay the same while far ones change, as their median, u2 (beam, column), mm; 0 elsewhere.

    None where that is a small part of the view, or where far ranges do not change either: then the rig stands, or
    glides over a smooth floor, and nothing is known.

    Args:
        images: u2 (sweep, beam, column), mm, spread over a recording; 0 and 65535 = no return.
    """
    count = len(images)
    if count < MIN_SWEEPS:
        return None
    ordered = np.sort(np.where(images == CLIPPED, 0, images), axis=0)
    first = int(np.ceil((1 - _MIN_RETURNED) * (count - 1)))
    usual = ordered[first] > 0
    same = usual & (ordered[int(_MIN_SAME * (count - 1))].astype("i4") - ordered[first] <= _SAME)
    middle = ordered[(first + count) // 2]
    far = usual & (middle > _NEAR)
    if far.mean() < _MIN_SHARE or same[far].mean() > _MAX_FAR_SAME:
        return None
    own = same & (middle <= _NEAR)
    return np.where(own, middle, 0).astype("u2") if own.mean() >= _MIN_SHARE else None


def regions_of(ranges: np.ndarray, start: np.ndarray, direction: np.ndarray) -> tuple[OwnRegion, ...]:
    """Regions that hold the candidates, as the user may declare them in `rig.own`.

    Args:
        ranges: u2 (beam, column), mm, staggered, of `candidates`.
        start, direction: f8 (beam, column, 3), m and m/mm: a range r is at `start + r * direction`.
    """
    own = ranges > 0
    points = start[own] + (ranges[own, None].astype("f8") + _SAME) * direction[own]
    azimuth = np.floor(np.degrees(np.arctan2(points[:, 1], points[:, 0]))).astype(int) % 360
    taken = np.unique(azimuth)
    # Counted from behind the widest gap on, no part goes over the end of the circle.
    begin = int(taken[np.argmax(np.diff(taken, prepend=taken[-1] - 360))])
    azimuth = (azimuth - begin) % 360
    degrees = np.unique(azimuth)
    found = []
    for part in np.split(degrees, np.flatnonzero(np.diff(degrees) > _GAP_DEGREES) + 1):
        held = points[np.isin(azimuth, part)]
        if len(held) < _MIN_SHARE * len(points):
            continue
        up = np.degrees(np.arctan2(held[:, 2], np.hypot(held[:, 0], held[:, 1])))
        first = (int(part[0]) + begin + 180) % 360 - 180
        found.append(
            OwnRegion(
                azimuth=(first, first + int(part[-1] - part[0]) + 1),
                elevation=(math.floor(up.min()), math.ceil(up.max())),
                range=math.ceil(20 * np.linalg.norm(held, axis=1).max()) / 20,
            )
        )
    return tuple(found)


def warnings_of_candidates(regions: Sequence[OwnRegion]) -> list[str]:
    """A line for the user where something that nobody declared may belong to the rig."""
    if not regions:
        return []
    found = json.dumps([each.model_dump(exclude_defaults=True) for each in regions])
    return [
        f"part of the view stays in place while what is farther away passes by: it belongs to the rig, or moves along; "
        f"set `rig.own: {found}` if it is the rig, `rig.own: []` if nothing of the rig is in view"
    ]
