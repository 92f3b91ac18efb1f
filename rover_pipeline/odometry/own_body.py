"""Returns from the rig itself: a board, a mast, whoever carries it. They stand still in the lidar's frame.

Half a view of them holds a rig where it is, and tells so with confidence. Their ranges are the same throughout while
others change.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.lidar.ranges import CLIPPED

#: Sweeps that are looked at, spread over the recording, and the smallest number that tells anything.
SWEEPS, _LEAST = 32, 8
#: Largest distance of what belongs to the rig, mm.
_NEAR = 3000
#: Largest change of a range that counts as the same, mm: twelve times the noise of a good lidar, four of a poor one.
_SAME = 40
#: Share of the sweeps in which a pixel has a return, and in which it is the same, so that a few may differ.
_USUAL, _MOST = 0.9, 0.95
#: Smallest share of far pixels that tells, and the largest share of them that may be the same: below a trolley a smooth
#: floor is the same near and far, and so is all where a rig stands.
_TELLING, _STILL = 0.02, 0.002
#: Smallest share of pixels that is left out at all.
_SMALL = 0.02


def own_body(images: np.ndarray) -> np.ndarray | None:
    """The ranges of what belongs to the rig, u2 (beam, column), mm; 0 elsewhere. None where there is none.

    Where far ranges do not change either, the rig stands or glides over a smooth floor, and nothing is known.

    Args:
        images: u2 (sweep, beam, column), mm, spread over a recording; 0 and 65535 = no return.
    """
    count = len(images)
    if count < _LEAST:
        return None
    ordered = np.sort(np.where(images == CLIPPED, 0, images), axis=0)
    first = int(np.ceil((1 - _USUAL) * (count - 1)))
    usual = ordered[first] > 0
    same = usual & (ordered[int(_MOST * (count - 1))].astype("i4") - ordered[first] <= _SAME)
    middle = ordered[(first + count) // 2]
    far = usual & (middle > _NEAR)
    if far.mean() < _TELLING or same[far].mean() > _STILL:
        return None
    own = same & (middle <= _NEAR)
    return np.where(own, middle, 0).astype("u2") if own.mean() >= _SMALL else None


def without_own(image: np.ndarray, own: np.ndarray) -> np.ndarray:
    """A range image without the returns from the rig itself, u2 (beam, column), mm."""
    from_rig = (own > 0) & (np.abs(image.astype("i4") - own) <= _SAME)
    return np.where(from_rig, 0, image).astype("u2")


def own_body_notes(own: np.ndarray | None) -> list[str]:
    """A line for the user where something is left out."""
    if own is None:
        return []
    return [
        f"{np.mean(own > 0):.0%} of the view is at the same place in the lidar's frame throughout, while what is "
        "farther away passes by: it belongs to the rig and is left out"
    ]
