"""Returns from the rig itself: a board, a mast, whoever carries it. They stand still in the lidar's frame.

Half a view of them holds a rig where it is. People who walk along stand still in the lidar's frame as well, and ranges
cannot distinguish them from a board. So only what the user declares (`rig.own`) is left out. Whether a rig that seems
to stand is believed does not depend on it: large planes of the world decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.kinematics.options import OwnRegion


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
