"""Loop closure: the drift of the odometry is removed where the lidar comes back to a location that it has visited.

Keyframes along the path have local maps. Each keyframe is matched with earlier ones that may be near to it, given the
drift that is allowed for. A match is a loop if walls and floors of both visits agree, if drift explains it, and if
another match agrees with it. A pose graph corrects the keyframes, and the trajectory follows them.

The pose graph has the relative poses of keyframes by the odometry, and loops that may be wrong. It is solved by GTSAM
(Dellaert, "Factor Graphs and GTSAM", 2012) with graduated non-convexity, which rejects loops that the others
contradict: Yang, Antonante, Tzoumas, Carlone, "Graduated Non-Convexity for Robust Spatial Perception" (RA-L 2020).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import chdtri

from rover_pipeline.kinematics.rotation import derivatives, exp, log, rotated
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lookup import optional
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.odometry.loops.loop_matching import MIN_WALLS, VIEW, LocalMap, Match, match
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.segments import MAX_BRIDGED

#: Longest time between keyframes, where the lidar stands, seconds. Tuned: by hand.
_MAX_INTERVAL = 5.0
#: Number of sweeps of a keyframe's local map, and the longest time from the keyframe to them, seconds. Tuned: by hand.
_SWEEPS, _MAP_INTERVAL = 12, 3.0
#: Largest number of earlier visits that a keyframe is matched with. Tuned: by hand.
_VISITS = 2
#: Correction that is allowed even without drift, metres and radians: the odometry is that uncertain at least.
#: Tuned: by hand.
_MIN_BOUND, _MIN_ANGLE = 0.2, np.radians(1.0)
#: Distance at which a rotation moves a point as much as the drift of the position does, metres. Tuned: by hand.
_LEVER_ARM = 5.0

#: The sweeps of some frames, given their numbers.
SweepSource = Callable[[Sequence[int]], Iterable[Sweep]]
#: `Recording.map`: the results of a function of a range, for every range, in order; and a title.
RangeMap = Callable[[Callable[[int, int], Any], Sequence[tuple[int, int]], str], Iterator[Any]]


class _Keyframe(NamedTuple):
    """A frame of the recording, and the frames that its local map is built from."""

    frame: int
    map_frames: tuple[int, ...]


class Loop(NamedTuple):
    """A keyframe that is matched with an earlier one; numbers of the keyframes."""

    first: int
    second: int
    match: Match

    def covariance(self, rot: np.ndarray) -> np.ndarray:
        """That of the measured pose of the second keyframe in its own frame, f8 (6, 6), rotation first, rad2 and m2.

        Args:
            rot: f8 (3, 3), world-from-lidar, of the second keyframe by the odometry.
        """
        axes = np.zeros((6, 6))
        axes[3:, :3], axes[:3, 3:] = matmul(self.match.rotation, rot).T, rot.T
        return np.asarray(matmul(axes, self.match.covariance, axes.T))


def _matched(
    sweeps: SweepSource,
    motion: Trajectory,
    keyframes: Sequence[_Keyframe],
    pos: np.ndarray,
    voxels: tuple[float, ...],
    candidates: Mapping[tuple[int, int], tuple[float, float]],
    start: int,
    stop: int,
) -> list[Loop]:
    """The candidates `start:stop` with their matches, which are not checked yet; see `_find_candidates`."""
    loops = []
    for (first, second), (metres, radians) in list(candidates.items())[start:stop]:
        old, new = (
            LocalMap(sweeps(keyframes[each].map_frames), motion, pos[second], voxels) for each in (first, second)
        )
        matched = match(old, new, metres, radians)
        if matched is not None:
            loops.append(Loop(first, second, matched))
    return loops


def close_loops(
    state: State,
    times: np.ndarray,
    usable: np.ndarray,
    errors: np.ndarray,
    options: OdometrySection,
    *,
    sweeps: SweepSource,
    map_ranges: RangeMap,
) -> tuple[State, dict[str, Any]]:
    """The trajectory without the drift that loops reveal, and a summary for the provenance.

    Args:
        state: the trajectory at N frames; times: f8 (N,), seconds.
        usable: bool (N,), frames whose sweeps may be used.
        errors: f8 (N,), standard deviations of their positions in the least certain direction, metres.
        sweeps: those of some frames, given their numbers; their instants are in the same time as `times`.
        map_ranges: works on ranges of candidates in parallel.
    """
    keyframes = _find_keyframes(state.pos, times, usable, options.loop_spacing)
    frames = np.array([keyframe.frame for keyframe in keyframes], "i8")
    pos, rot = state.pos[frames], state.rot[frames]
    finite = np.flatnonzero(np.isfinite(state.pos).all(axis=1))
    path = path_length(state.pos[finite])[np.searchsorted(finite, frames)]
    # A frame whose sweep is not usable adds to the path's error what others do.
    usual = np.median(errors[usable]) if usable.any() else 0.0
    variances = np.cumsum(np.where(usable, errors, usual) ** 2)[frames]
    candidates = _find_candidates(pos, path, variances, options)
    motion = Trajectory(times, state, usable, max_gap=MAX_BRIDGED)
    matching = functools.partial(_matched, sweeps, motion, keyframes, pos, options.voxels, candidates)
    ranges = [(n, n + 1) for n in range(len(candidates))]
    loops = [loop for part in map_ranges(matching, ranges, "loops") for loop in part]
    summary: dict[str, Any] = {"places": len(keyframes), "candidates": len(candidates), "accepted": [], "largest": None}
    loops = _confirmed(plausible(loops, candidates, options), path, options)
    if not loops:
        return state, summary
    drift = options.loop_drift * np.diff(path) + 1e-4
    deviations = np.stack([np.hypot(drift, np.sqrt(np.diff(variances))), drift / _LEVER_ARM], axis=1)
    new_pos, new_rot, kept = optimize(pos, rot, deviations, loops)
    loops = [loop for loop, keep in zip(loops, kept, strict=True) if keep]
    summary["accepted"] = [_summary(loop, frames) for loop in loops]
    if not any(reveals_drift(loop.match, FALSE_ALARM / len(loops)) for loop in loops):
        return state, summary
    summary["largest"] = {
        "metres": _rounded(np.linalg.norm(new_pos - pos, axis=1).max()),
        "degrees": _rounded(np.degrees(np.linalg.norm(log(matmul(new_rot, np.swapaxes(rot, 1, 2))), axis=1).max())),
    }
    # Frames before the first keyframe and after the last one have no pose.
    inside = slice(frames[0], frames[-1] + 1)
    part = correct_trajectory(state.select(inside), times[inside], times[frames], (pos, rot), (new_pos, new_rot))
    outside = (state.select(slice(inside.start)), state.select(slice(inside.stop, None)))
    return State(*(np.concatenate(arrays) for arrays in zip(outside[0], part, outside[1], strict=True))), summary


def _find_keyframes(pos: np.ndarray, times: np.ndarray, usable: np.ndarray, spacing: float) -> list[_Keyframe]:
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
        keyframes.append(_Keyframe(int(frames[key]), tuple(chosen.tolist())))
    return keyframes


def path_length(pos: np.ndarray) -> np.ndarray:
    """Length of the path from the first of some positions to each of them, f8 (N,), metres."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(pos, axis=0), axis=1))])


def _find_candidates(
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
        drift = np.minimum(drift, VIEW / 2)  # local maps that are farther from one another have little in common
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
            candidates[first, second] = _MIN_BOUND + largest, float(_MIN_ANGLE) + largest / _LEVER_ARM
    return candidates


def plausible(
    loops: list[Loop], bounds: dict[tuple[int, int], tuple[float, float]], options: OdometrySection
) -> list[Loop]:
    """The loops that fit the earlier visit well and that the drift that is allowed for explains.

    Drift takes no lidar through a wall: where that would be, the visits are of two rooms that look alike, or the drift
    is so large that nobody knows.
    """
    return [
        loop
        for loop in loops
        if loop.match.inliers >= options.loop_inliers
        and loop.match.walls >= MIN_WALLS
        and not loop.match.is_elsewhere
        and loop.match.residual <= (options.max_residual or np.inf)
        and np.linalg.norm(loop.match.shift, axis=0) <= bounds[loop.first, loop.second][0]
        and np.linalg.norm(log(loop.match.rotation[None])[0], axis=0) <= bounds[loop.first, loop.second][1]
    ]


def _confirmed(loops: list[Loop], path: np.ndarray, options: OdometrySection) -> list[Loop]:
    """The loops that a loop of another keyframe nearby confirms. A single one may be of a location that looks alike."""
    confirmed = []
    for loop in loops:
        for other in loops:
            between = abs(path[loop.first] - path[other.first]) + abs(path[loop.second] - path[other.second])
            if other.second == loop.second or between > 10 * options.loop_spacing:
                continue
            difference = _size(
                loop.match.shift - other.match.shift, matmul(loop.match.rotation.T, other.match.rotation)
            )
            if difference <= _MIN_BOUND / 2 + options.loop_drift * between:
                confirmed.append(loop)
                break
    return confirmed


def _size(shift: np.ndarray, rotation: np.ndarray) -> float:
    """How far a motion moves the lidar or its surroundings, metres."""
    return float(max(np.linalg.norm(shift, axis=0), _LEVER_ARM * np.linalg.norm(log(rotation[None])[0], axis=0)))


def reveals_drift(matched: Match, false_alarm: float) -> bool:
    """Whether a match moves a visit by more than its own error explains, which happens at a rate of false alarms."""
    motion = np.concatenate([matched.shift, log(matched.rotation[None])[0]])
    return bool(matmul(motion, solve(matched.covariance, motion)) > chdtri(len(motion), false_alarm))


def _summary(loop: Loop, frames: np.ndarray) -> dict[str, Any]:
    return {
        "frames": [int(frames[loop.first]), int(frames[loop.second])],
        "metres": _rounded(np.linalg.norm(loop.match.shift, axis=0)),
        "degrees": _rounded(np.degrees(np.linalg.norm(log(loop.match.rotation[None])[0], axis=0))),
        "inliers": _rounded(loop.match.inliers),
    }


def _rounded(value: Any) -> float:
    return float(f"{value:.3g}")


def load_gtsam() -> Any:
    """The module `gtsam`. Raises MissingExtraError where it is not installed."""
    return optional("gtsam", "odometry.loops", "loops")


def optimize(
    pos: np.ndarray, rot: np.ndarray, deviations: np.ndarray, loops: Sequence[Loop]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The poses of the keyframes that fit the odometry and the loops best.

    Args:
        pos, rot: f8 (K, 3), (K, 3, 3), world-from-lidar, by the odometry. The first one is fixed.
        deviations: f8 (K - 1, 2), standard deviations of each pose in the frame of the one before, metres and radians.

    Returns:
        pos, rot; bool (loop,): the loops that are not rejected.

    Raises:
        MissingExtraError: GTSAM is not installed.
    """
    gtsam = load_gtsam()
    poses = [gtsam.Pose3(gtsam.Rot3(r), p) for r, p in zip(rot, pos, strict=True)]
    graph, start = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for number, pose in enumerate(poses):
        start.insert(number, pose)
    # The first keyframe is fixed, to a micrometre and a microradian.
    graph.add(gtsam.PriorFactorPose3(0, poses[0], gtsam.noiseModel.Isotropic.Sigma(6, 1e-6)))
    for number, (metres, radians) in enumerate(deviations):
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([radians] * 3 + [metres] * 3))
        between = poses[number].between(poses[number + 1])
        graph.add(gtsam.BetweenFactorPose3(number, number + 1, between, noise))
    for loop in loops:
        noise = gtsam.noiseModel.Gaussian.Covariance(loop.covariance(rot[loop.second]))
        turned = gtsam.Rot3(matmul(loop.match.rotation, rot[loop.second]))
        measured = poses[loop.first].between(gtsam.Pose3(turned, pos[loop.second] + loop.match.shift))
        graph.add(gtsam.BetweenFactorPose3(loop.first, loop.second, measured, noise))
    params = gtsam.GncLMParams()
    params.setLossType(gtsam.GncLossType.TLS)
    params.setKnownInliers(list(range(len(poses))))
    solver = gtsam.GncLMOptimizer(graph, start, params)
    solver.setInlierCostThresholdsAtProbability(1 - FALSE_ALARM)
    result = solver.optimize()
    optimized = [result.atPose3(number) for number in range(len(poses))]
    kept = np.asarray(solver.getWeights())[len(poses) :] > 0.5
    return (
        np.stack([each.translation() for each in optimized]),
        np.stack([each.rotation().matrix() for each in optimized]),
        kept,
    )


def correct_trajectory(
    state: State,
    times: np.ndarray,
    at: np.ndarray,
    old: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
) -> State:
    """A trajectory that follows its keyframes to their new poses. The correction is smooth up to the acceleration.

    With the path m(t) through the old keyframes, a position x becomes m(t) + d(t) + C(t) (x - m(t)). The displacement d
    and the rotation C are splines in time. C acts about the path, since the world's origin may be far away.

    Args:
        state: at N instants, times: f8 (N,), seconds, within those of the keyframes.
        at: f8 (K,), instants of the keyframes, rising, at least two.
        old, new: poses of the keyframes before and after, f8 (K, 3) and (K, 3, 3) each.
    """
    path, shift = (CubicSpline(at, each, bc_type="natural") for each in (old[0], new[0] - old[0]))
    turn = CubicSpline(at, log(matmul(new[1], np.swapaxes(old[1], 1, 2))), bc_type="natural")
    rot = exp(turn(times))
    # The rates are in the rotated frame. Here they are in the world.
    avel, aacc = (rotated(rot, rate) for rate in derivatives(*(turn(times, order) for order in range(3))))
    pos, vel, acc = (
        rotated(rot, value - path(times, order)) for order, value in enumerate((state.pos, state.vel, state.acc))
    )
    tangential = np.cross(avel, pos)
    return State(
        pos=pos + path(times) + shift(times),
        rot=matmul(rot, state.rot),
        vel=vel + tangential + path(times, 1) + shift(times, 1),
        acc=acc
        + 2 * np.cross(avel, vel)
        + np.cross(aacc, pos)
        + np.cross(avel, tangential)
        + path(times, 2)
        + shift(times, 2),
        avel=state.avel + rotated(np.swapaxes(matmul(rot, state.rot), 1, 2), avel),
    )
