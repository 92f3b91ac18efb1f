"""CLEAR-MOT: how well tracks follow bodies.

Bernardin and Stiefelhagen, Evaluating multiple object tracking performance: the CLEAR MOT metrics, EURASIP Journal on
Image and Video Processing, 2008.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

Places = Mapping[int, np.ndarray]


@dataclass
class Score:
    """Sums over frames.

    Attributes:
        bodies: places of bodies that count. misses, false_alarms, switches: errors.
        distances: of the matches that count, m.
        matches: frame, body and track of each of them.
        tracks: numbers of the tracks that were matched at least once.
    """

    bodies: int = 0
    misses: int = 0
    false_alarms: int = 0
    switches: int = 0
    distances: list[float] = field(default_factory=list)
    matches: list[tuple[int, int, int]] = field(default_factory=list)
    tracks: set[int] = field(default_factory=set)

    @property
    def mota(self) -> float:
        return 1 - (self.misses + self.false_alarms + self.switches) / max(1, self.bodies)

    @property
    def motp(self) -> float:
        return float(np.mean(self.distances)) if self.distances else float("nan")


def clear_mot(frames: Iterable[tuple[Places, Places, set[int]]], limit: float = 1.0) -> Score:
    """The score of some frames.

    Args:
        frames: of each the places of bodies and of tracks by number, f8 (2,) or (3,), m, and the bodies that count. The
            others need not be found, but a track that is matched with one of them is no false alarm.
        limit: largest distance of a match, m.
    """
    score, last = Score(), dict[int, int]()
    for number, (bodies, tracks, counting) in enumerate(frames):
        matched = {
            body: last[body]
            for body in bodies
            if body in last and last[body] in tracks and _distance(bodies[body], tracks[last[body]]) <= limit
        }
        for group in (counting, set(bodies) - counting):
            matched |= _assigned(
                {body: bodies[body] for body in bodies if body in group and body not in matched},
                {track: tracks[track] for track in tracks if track not in matched.values()},
                limit,
            )
        for body, track in matched.items():
            if body in counting:
                score.switches += last.get(body, track) != track
                score.distances.append(_distance(bodies[body], tracks[track]))
                score.matches.append((number, body, track))
                score.tracks.add(track)
            last[body] = track
        score.bodies += len(counting)
        score.misses += len(counting - set(matched))
        score.false_alarms += len(set(tracks) - set(matched.values()))
    return score


def _assigned(bodies: Places, tracks: Places, limit: float) -> dict[int, int]:
    if not bodies or not tracks:
        return {}
    names, others = list(bodies), list(tracks)
    cost = np.array([[_distance(bodies[name], tracks[other]) for other in others] for name in names])
    rows, columns = linear_sum_assignment(np.where(cost <= limit, cost, 1e6))
    return {names[r]: others[c] for r, c in zip(rows, columns, strict=True) if cost[r, c] <= limit}


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b))
