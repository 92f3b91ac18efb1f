"""Loop closure: places that the lidar came back to take out what the odometry has drifted between its visits.

Places are key poses on the way, with the planes around each of them. A later visit is looked for where the odometry,
with the drift that is allowed for, puts an earlier one; a match has to hold against the walls of both, against the
drift and against other matches. What is left goes into a pose graph, and the trajectory is bent to suit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from rover_pipeline.odometry.closures import LocalMap, Match, match
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.pose_graph import Closure, bend, optimize
from rover_pipeline.odometry.trajectory import State, log
from rover_pipeline.poses.trajectory import Trajectory as Motion

#: Seconds after which there is a place even where the lidar stands.
_LONGEST = 5.0
#: Sweeps of a place's map, and seconds before and after the place that they come from at most.
_SWEEPS, _REACH = 12, 3.0
#: Earlier visits that a place is matched with at most.
_VISITS = 2
#: What a place may have to be moved by whatever the way: metres and radians.
_LEAST_BOUND, _LEAST_ANGLE = 0.2, np.radians(1.0)
#: Distance at which a turn moves a point as far as the drift of a position, metres.
_ARM = 5.0
#: Walls that two visits must share.
_WALLS = 60
#: What a match is wrong by, however well its planes fit: metres and radians.
_ERROR = 0.003, 0.0005
#: What a sweep that is not to be used adds to the error of the way, and what any other one does at most, metres.
_LOST, _WORST = 0.01, 1.0
#: Gaps of the trajectory that sweeps are not placed in, seconds.
_GAP = 0.5


class Place(NamedTuple):
    """A key pose: its frame, and the frames of the map around it."""

    frame: int
    around: tuple[int, ...]


class Loop(NamedTuple):
    """A place that has been matched with an earlier one; numbers of places."""

    first: int
    second: int
    match: Match


class Spread(Protocol):
    """Results of a function of a range, for every range, in order: `Recording.map`."""

    def __call__(
        self, function: Callable[[int, int], Any], ranges: Sequence[tuple[int, int]], title: str
    ) -> Iterator[Any]: ...


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
        distance = np.linalg.norm(pos - pos[here], axis=1)
        near = (apart >= options.loop_apart) & (distance <= 1.5 * options.loop_spacing + drift)
        visits: list[int] = []
        for there in np.argsort(distance, kind="stable"):
            # One pair for each earlier visit, that of the nearest place.
            if near[there] and all(abs(way[there] - way[other]) >= options.loop_apart for other in visits):
                visits.append(int(there))
        for there in sorted(visits[:_VISITS]):
            pairs.append((there, here))
            bounds.append((_LEAST_BOUND + drift[there], _LEAST_ANGLE + drift[there] / _ARM))
    return pairs, np.array(bounds).reshape(-1, 2)


@dataclass
class _Matching:
    """Matches candidates; goes to other processes.

    Attributes:
        sweeps: of some frames, given their numbers.
        candidates: pairs of places.
        bounds: f8 (candidate, 2), metres and radians that a place may have to be moved by.
    """

    sweeps: Callable[[Sequence[int]], Iterable[Sweep]]
    motion: Motion
    places: list[Place]
    pos: np.ndarray
    candidates: list[tuple[int, int]]
    bounds: np.ndarray
    voxels: tuple[float, ...]

    def __call__(self, start: int, stop: int) -> list[Loop]:
        """Loops of the candidates `start:stop`, whether they are to be trusted or not."""
        found = []
        for (first, second), bound in zip(self.candidates[start:stop], self.bounds[start:stop], strict=True):
            origin = self.pos[second]
            there, here = (
                LocalMap(self.sweeps(self.places[each].around), self.motion, origin, self.voxels)
                for each in (first, second)
            )
            matched = match(there, here, float(bound[0]), float(bound[1]))
            if matched is not None:
                found.append(Loop(first, second, matched))
        return found


def close_loops(
    state: State,
    times: np.ndarray,
    known: np.ndarray,
    errors: np.ndarray,
    options: OdometrySection,
    *,
    sweeps: Callable[[Sequence[int]], Iterable[Sweep]],
    spread: Spread,
) -> tuple[State, dict[str, Any]]:
    """The trajectory without the drift that places visited again tell of, and figures about them.

    Args:
        state: the trajectory at N frames; times: f8 (N,), seconds.
        known: bool (N,), frames whose sweeps may be used.
        errors: f8 (N,), standard deviations of their positions in the direction known worst, metres.
        sweeps: those of some frames, given their numbers; their instants count as `times` do.
        spread: has ranges of candidates worked on in parallel.
    """
    places = find_places(state.pos, times, known, options.loop_spacing)
    frames = np.array([place.frame for place in places], "i8")
    pos, rot = state.pos[frames], state.rot[frames]
    finite = np.flatnonzero(np.isfinite(state.pos).all(axis=1))
    way = travelled(state.pos[finite])[np.searchsorted(finite, frames)]
    unknown = np.cumsum(np.where(known, np.minimum(errors, _WORST), _LOST) ** 2)[frames]
    candidates, bounds = find_candidates(pos, way, unknown, options)
    motion = Motion(times, state.pos, state.rot, state.vel, state.acc, state.avel, known, max_gap=_GAP)
    task = _Matching(sweeps, motion, places, pos, candidates, bounds, options.voxels)
    ranges = [(n, n + 1) for n in range(len(candidates))]
    loops = [loop for part in spread(task, ranges, "loops") for loop in part]
    told: dict[str, Any] = {"places": len(places), "candidates": len(candidates), "accepted": [], "largest": None}
    loops = _agreeing(_trusted(loops, dict(zip(candidates, bounds, strict=True)), options), way, options)
    if not loops:
        return state, told
    drift = options.loop_drift * np.diff(way) + 1e-4
    deviations = np.stack([np.hypot(drift, np.sqrt(np.diff(unknown))), drift / _ARM], axis=1)
    closures = [closure_of(loop, pos, rot) for loop in loops]
    new_pos, new_rot, kept = optimize(pos, rot, deviations, closures)
    loops = [loop for loop, keep in zip(loops, kept, strict=True) if keep]
    told["accepted"] = [_told(loop, frames) for loop in loops]
    # What a match cannot tell from its own error is no drift.
    if not any(_size(loop.match.shift, loop.match.turn) > options.loop_least for loop in loops):
        return state, told
    moved, turned = new_pos - pos, log(new_rot @ np.swapaxes(rot, 1, 2))
    told["largest"] = {
        "metres": _short(np.linalg.norm(moved, axis=1).max()),
        "degrees": _short(np.degrees(np.linalg.norm(turned, axis=1).max())),
    }
    inside = slice(frames[0], frames[-1] + 1)
    part = State(*(each[inside] for each in state))
    bent = bend(part, times[inside], times[frames], (pos, rot), (new_pos, new_rot))
    found = State(*(each.copy() for each in state))
    for whole, each in zip(found, bent, strict=True):
        whole[inside] = each
    return found, told


def _trusted(loops: list[Loop], bounds: dict[tuple[int, int], np.ndarray], options: OdometrySection) -> list[Loop]:
    """Those that lie well on the earlier visit and need no more than the drift that is allowed for."""
    trusted = []
    for loop in loops:
        metres, radians = bounds[loop.first, loop.second]
        found = loop.match
        if (
            found.inliers >= options.loop_inliers
            and found.walls >= _WALLS
            and found.residual <= options.max_residual
            and np.linalg.norm(found.shift) <= metres
            and np.linalg.norm(log(found.turn[None])[0]) <= radians
        ):
            trusted.append(loop)
    return trusted


def _agreeing(loops: list[Loop], way: np.ndarray, options: OdometrySection) -> list[Loop]:
    """Those that another one near by, of another place, agrees with: a place alone may be mistaken for its twin."""
    agreeing = []
    for loop in loops:
        for other in loops:
            between = abs(way[loop.first] - way[other.first]) + abs(way[loop.second] - way[other.second])
            differ = _size(loop.match.shift - other.match.shift, loop.match.turn.T @ other.match.turn)
            if (
                other.second != loop.second
                and between <= 10 * options.loop_spacing
                and differ <= _LEAST_BOUND / 2 + options.loop_drift * between
            ):
                agreeing.append(loop)
                break
    return agreeing


def _size(shift: np.ndarray, turn: np.ndarray) -> float:
    """How far a motion moves a place or what is around it, metres."""
    return float(max(np.linalg.norm(shift), _ARM * np.linalg.norm(log(turn[None])[0])))


def closure_of(loop: Loop, pos: np.ndarray, rot: np.ndarray) -> Closure:
    """What a loop says of the key poses, f8 (K, 3) and (K, 3, 3), that it is between."""
    first, second, found = loop
    back = rot[first].T
    covariance = np.linalg.inv(found.information) + np.diag([_ERROR[0] ** 2] * 3 + [_ERROR[1] ** 2] * 3)
    axes = np.zeros((6, 6))
    axes[:3, :3] = (found.turn @ rot[second]).T
    axes[3:, 3:] = rot[second].T
    measured = pos[second] + found.shift
    return Closure(
        first, second, back @ (measured - pos[first]), back @ found.turn @ rot[second], axes @ covariance @ axes.T
    )


def _told(loop: Loop, frames: np.ndarray) -> dict[str, Any]:
    return {
        "frames": [int(frames[loop.first]), int(frames[loop.second])],
        "metres": _short(np.linalg.norm(loop.match.shift)),
        "degrees": _short(np.degrees(np.linalg.norm(log(loop.match.turn[None])[0]))),
        "inliers": _short(loop.match.inliers),
    }


def _short(value: Any) -> float:
    return float(f"{value:.3g}")
