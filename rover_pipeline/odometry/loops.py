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

from rover_pipeline.kinematics.rotation import log
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory as Motion
from rover_pipeline.odometry.closures import LocalMap, Match, match
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.places import ARM, LEAST_BOUND, Place, find_candidates, find_places, travelled
from rover_pipeline.odometry.pose_graph import Closure, bend, optimize

#: Walls that two visits must share.
_WALLS = 60
#: What a match is wrong by, however well its planes fit: metres and radians.
_ERROR = 0.003, 0.0005
#: Square of a motion over its error that one in a thousand right ones reaches, of six unknowns.
_UNLIKELY = 22.5
#: What a sweep that is not to be used adds to the error of the way, and what any other one does at most, metres.
_LOST, _WORST = 0.01, 1.0
#: Gaps of the trajectory that sweeps are not placed in, seconds.
_GAP = 0.5


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
    motion = Motion(times, state, known, max_gap=_GAP)
    task = _Matching(sweeps, motion, places, pos, candidates, bounds, options.voxels)
    ranges = [(n, n + 1) for n in range(len(candidates))]
    loops = [loop for part in spread(task, ranges, "loops") for loop in part]
    told: dict[str, Any] = {"places": len(places), "candidates": len(candidates), "accepted": [], "largest": None}
    loops = _agreeing(only_trusted(loops, dict(zip(candidates, bounds, strict=True)), options), way, options)
    if not loops:
        return state, told
    drift = options.loop_drift * np.diff(way) + 1e-4
    deviations = np.stack([np.hypot(drift, np.sqrt(np.diff(unknown))), drift / ARM], axis=1)
    closures = [closure_of(loop, pos, rot) for loop in loops]
    new_pos, new_rot, kept = optimize(pos, rot, deviations, closures)
    loops = [loop for loop, keep in zip(loops, kept, strict=True) if keep]
    told["accepted"] = [_told(loop, frames) for loop in loops]
    if not any(tells_of_drift(loop.match, options.loop_least) for loop in loops):
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


def only_trusted(loops: list[Loop], bounds: dict[tuple[int, int], np.ndarray], options: OdometrySection) -> list[Loop]:
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
            if other.second == loop.second or between > 10 * options.loop_spacing:
                continue
            differ = _size(loop.match.shift - other.match.shift, loop.match.turn.T @ other.match.turn)
            if differ <= LEAST_BOUND / 2 + options.loop_drift * between:
                agreeing.append(loop)
                break
    return agreeing


def _size(shift: np.ndarray, turn: np.ndarray) -> float:
    """How far a motion moves a place or what is around it, metres."""
    return float(max(np.linalg.norm(shift), ARM * np.linalg.norm(log(turn[None])[0])))


def tells_of_drift(found: Match, least: float) -> bool:
    """Whether a match tells of drift: of more than `least`, metres, and than its own error may look like."""
    moved = np.concatenate([found.shift, log(found.turn[None])[0]])
    unlikely = moved @ np.linalg.solve(_covariance(found), moved) > _UNLIKELY
    return bool(unlikely) and _size(found.shift, found.turn) > least


def _covariance(found: Match) -> np.ndarray:
    """Of a match's shift and turn, f8 (6, 6), m2 and rad2."""
    return np.linalg.inv(found.information) + np.diag([_ERROR[0] ** 2] * 3 + [_ERROR[1] ** 2] * 3)


def closure_of(loop: Loop, pos: np.ndarray, rot: np.ndarray) -> Closure:
    """What a loop says of the key poses, f8 (K, 3) and (K, 3, 3), that it is between."""
    first, second, found = loop
    back = rot[first].T
    axes = np.zeros((6, 6))
    axes[:3, :3] = (found.turn @ rot[second]).T
    axes[3:, 3:] = rot[second].T
    measured = pos[second] + found.shift
    return Closure(
        first,
        second,
        back @ (measured - pos[first]),
        back @ found.turn @ rot[second],
        axes @ _covariance(found) @ axes.T,
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
