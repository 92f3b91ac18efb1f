"""Places on the way of a lidar, and which of them may be visits of one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.odometry.options import OdometrySection

#: Seconds after which there is a place even where the lidar stands.
_LONGEST = 5.0
#: Sweeps of a place's map, and seconds before and after the place that they come from at most.
_SWEEPS, _REACH = 12, 3.0
#: Earlier visits that a place is matched with at most.
_VISITS = 2
#: What a place may have to be moved by whatever the way: metres and radians.
LEAST_BOUND, _LEAST_ANGLE = 0.2, np.radians(1.0)
#: Drift that is looked for at most, metres: maps of places farther apart than they reach share nothing.
_FARTHEST = 20.0
#: Distance at which a turn moves a point as far as the drift of a position, metres.
ARM = 5.0


class Place(NamedTuple):
    """A key pose: its frame, and the frames of the map around it."""

    frame: int
    around: tuple[int, ...]


def find_places(pos: np.ndarray, times: np.ndarray, known: np.ndarray, spacing: float) -> list[Place]:
    """Places all along the way, at the first and the last frame too.

    Args:
        pos: f8 (N, 3), metres, NaN where the odometry has none; times: f8 (N,), seconds.
        known: bool (N,), sweeps that a map may be made of.
        spacing: of the way between places, metres.
    """
    frames = np.flatnonzero(np.isfinite(pos).all(axis=1))
    if not len(frames):
        return []
    way, times = travelled(pos[frames]), times[frames]
    keys = [0]
    for n in range(1, len(frames)):
        if way[n] - way[keys[-1]] >= spacing or times[n] - times[keys[-1]] >= _LONGEST:
            keys.append(n)
    # The last takes the place of the one before where that is near: splines want even distances.
    if len(keys) > 1 and way[-1] - way[keys[-1]] < spacing / 2 and times[-1] - times[keys[-1]] < _LONGEST / 2:
        keys.pop()
    if keys[-1] != len(frames) - 1:
        keys.append(len(frames) - 1)
    places = []
    for key in keys:
        near = (np.abs(times - times[key]) <= _REACH) & (np.abs(way - way[key]) <= spacing)
        around = frames[near & known[frames]]
        chosen = around[np.unique(np.linspace(0, len(around) - 1, min(len(around), _SWEEPS)).round().astype(int))]
        places.append(Place(int(frames[key]), tuple(chosen.tolist())))
    return places


def travelled(pos: np.ndarray) -> np.ndarray:
    """The way to each of some positions, f8 (N,), metres."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(pos, axis=0), axis=1))])


def find_candidates(
    pos: np.ndarray, way: np.ndarray, unknown: np.ndarray, options: OdometrySection
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Pairs of places, the earlier one first, that may be visits of one place, and what they may be off by.

    Args:
        pos: f8 (K, 3), of the places; way: f8 (K,), metres to each of them.
        unknown: f8 (K,), variances of the way to each that the odometry itself is aware of, m2.

    Returns:
        Pairs; f8 (pair, 2), metres and radians.
    """
    pairs, bounds = [], []
    for here in range(len(pos)):
        apart = way[here] - way
        drift = options.loop_drift * apart + 3 * np.sqrt(np.maximum(unknown[here] - unknown, 0.0))
        drift = np.minimum(drift, _FARTHEST)
        distance = np.linalg.norm(pos - pos[here], axis=1)
        near = (apart >= options.loop_apart) & (distance <= 1.5 * options.loop_spacing + drift)
        visits: list[int] = []
        order = np.argsort(distance, kind="stable")
        for there in order[near[order]]:
            if len(visits) == _VISITS:
                break
            # One pair for each earlier visit, that of the nearest place.
            if all(abs(way[there] - way[other]) >= options.loop_apart for other in visits):
                visits.append(int(there))
        for there in sorted(visits):
            pairs.append((there, here))
            bounds.append((LEAST_BOUND + drift[there], _LEAST_ANGLE + drift[there] / ARM))
    return pairs, np.array(bounds).reshape(-1, 2)
