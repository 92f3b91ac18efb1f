"""Keyframes along the lidar's path, and which pairs of them may be visits of one location."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.odometry.options import OdometrySection

#: Longest time between keyframes, where the lidar stands, seconds.
_MAX_INTERVAL = 5.0
#: Number of sweeps of a keyframe's local map, and the longest time from the keyframe to them, seconds.
_SWEEPS, _MAP_INTERVAL = 12, 3.0
#: Largest number of earlier visits that a keyframe is matched with.
_VISITS = 2
#: Correction that is allowed even without drift, metres and radians: the odometry is that uncertain at least.
MIN_BOUND, _MIN_ANGLE = 0.2, np.radians(1.0)
#: Largest drift that is searched for, metres. Local maps that are farther from one another have nothing in common.
_MAX_DRIFT = 20.0
#: Distance at which a rotation moves a point as much as the drift of the position does, metres.
LEVER_ARM = 5.0


class Keyframe(NamedTuple):
    """A frame of the recording, and the frames that its local map is built from."""

    frame: int
    map_frames: tuple[int, ...]


def find_keyframes(pos: np.ndarray, times: np.ndarray, usable: np.ndarray, spacing: float) -> list[Keyframe]:
    """Keyframes all along the path, with the first and the last frame.

    Args:
        pos: f8 (N, 3), metres, NaN where the odometry has none; times: f8 (N,), seconds.
        usable: bool (N,), frames whose sweeps may be part of a map.
        spacing: path length between keyframes, metres.
    """
    frames = np.flatnonzero(np.isfinite(pos).all(axis=1))
    if not len(frames):
        return []
    path, times = path_length(pos[frames]), times[frames]
    keys = [0]
    for n in range(1, len(frames)):
        if path[n] - path[keys[-1]] >= spacing or times[n] - times[keys[-1]] >= _MAX_INTERVAL:
            keys.append(n)
    # The last frame replaces a keyframe that is near to it, because splines need similar distances.
    if len(keys) > 1 and path[-1] - path[keys[-1]] < spacing / 2 and times[-1] - times[keys[-1]] < _MAX_INTERVAL / 2:
        keys.pop()
    if keys[-1] != len(frames) - 1:
        keys.append(len(frames) - 1)
    keyframes = []
    for key in keys:
        near = (np.abs(times - times[key]) <= _MAP_INTERVAL) & (np.abs(path - path[key]) <= spacing)
        around = frames[near & usable[frames]]
        chosen = around[np.unique(np.linspace(0, len(around) - 1, min(len(around), _SWEEPS)).round().astype(int))]
        keyframes.append(Keyframe(int(frames[key]), tuple(chosen.tolist())))
    return keyframes


def path_length(pos: np.ndarray) -> np.ndarray:
    """Length of the path from the first of some positions to each of them, f8 (N,), metres."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(pos, axis=0), axis=1))])


def find_candidates(
    pos: np.ndarray, path: np.ndarray, variances: np.ndarray, options: OdometrySection
) -> dict[tuple[int, int], tuple[float, float]]:
    """Pairs of keyframes that may be visits of one location, the earlier one first, and how far they may be off.

    Args:
        pos: f8 (K, 3), of the keyframes; path: f8 (K,), path length to each of them; metres.
        variances: f8 (K,), of the path to each of them, as the odometry itself estimates it, m2.

    Returns:
        Numbers of the keyframes -> largest corrections that drift explains, metres and radians.
    """
    candidates = {}
    for second in range(len(pos)):
        between = path[second] - path
        drift = options.loop_drift * between + 3 * np.sqrt(np.maximum(variances[second] - variances, 0.0))
        drift = np.minimum(drift, _MAX_DRIFT)
        distance = np.linalg.norm(pos - pos[second], axis=1)
        near = (between >= options.loop_apart) & (distance <= 1.5 * options.loop_spacing + drift)
        visits: list[int] = []
        order = np.argsort(distance, kind="stable")
        for first in order[near[order]]:
            if len(visits) == _VISITS:
                break
            # Each earlier visit gives one pair, with the nearest of its keyframes.
            if all(abs(path[first] - path[other]) >= options.loop_apart for other in visits):
                visits.append(int(first))
        for first in sorted(visits):
            largest = float(drift[first])
            candidates[first, second] = MIN_BOUND + largest, float(_MIN_ANGLE) + largest / LEVER_ARM
    return candidates
