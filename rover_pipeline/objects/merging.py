"""Merges the tracks of one body: parts that were tracked on their own, and what comes before and after an occlusion.

The tracker looks ahead only. Once both sides of a gap are known, their motions show whether they are of one body.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.bodies import BAYES_FACTOR, Body
from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.smoothing import MIN_PLACES, NOISES
from rover_pipeline.objects.tuning import LONG_M, TUNING

#: Squared distance in standard deviations within which 99 % of the two sides of a gap are.
#: Noise: chi-square with 4 degrees of freedom.
_GATE = 13.3
#: Power spectral density of the acceleration of a body that is hidden, m2/s3: the middle of those that bodies may have.
_NOISE = float(np.exp(np.log(NOISES).mean()))
#: How much less the squared distance of a pair is than that of any other one: twice the logarithm of a Bayes factor.
#: Physics: strong evidence (Kass and Raftery, as in `bodies`).
_CLEAR = 2 * BAYES_FACTOR

Make = Callable[[Clusters], Body]


class Track(NamedTuple):
    """The clusters of a body, the body that is made from them, and the times, s, of its first and last sample."""

    clusters: Clusters
    body: Body
    first: float
    last: float

    @staticmethod
    def of(clusters: Clusters, make: Make, stamps: np.ndarray) -> Track:
        body = make(clusters)
        return Track(clusters, body, float(stamps[body.sweep[0]]), float(stamps[body.sweep[-1]]))


def merged_tracks(
    tracks: Iterable[Clusters], make: Make, stamps: np.ndarray, min_hits: int, coast: float
) -> list[Body]:
    """The bodies of tracks, of which some are of the same one.

    Args:
        tracks: in the order of their first clusters.
        make: gives the body of a track.
        stamps: f8 (sweep,), s.
        min_hits: minimum number of clusters of a body. Tracks of half as many may be parts of one.
        coast: longest time for which a track goes on without a cluster, s. With both sides known it may be twice as
            long, and two tracks of one body overlap no longer than this.
    """
    found = []
    for own in tracks:
        # Behind a gap the tracker may have taken another body.
        ends = 1 + np.flatnonzero(np.diff(own.frame) > TUNING.gap_sweeps)
        for begin, end in pairwise([0, *ends.tolist(), len(own.frame)]):
            if end - begin >= max(MIN_PLACES, min_hits // 2):
                found.append(Track.of(own.select(slice(begin, end)), make, stamps))
    found = _with_beginnings(_with_parts(found, make, stamps), make, stamps, coast)
    after = _successors(found, coast)
    chains = []
    for begin in sorted(set(range(len(found))) - set(after.values())):
        chain = [begin]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        chains.append(_merged([found[number] for number in chain], make, stamps))
    return [track.body for track in chains if track.body.shown >= min_hits]


def _merged(tracks: list[Track], make: Make, stamps: np.ndarray) -> Track:
    if len(tracks) == 1:
        return tracks[0]
    return Track.of(Clusters.joined([track.clusters for track in tracks]).merged(), make, stamps)


def _with_parts(tracks: list[Track], make: Make, stamps: np.ndarray) -> list[Track]:
    """The tracks, in the order of their beginnings, with those inside the box of a longer body merged into it.

    Two bodies are never in one place, and what stands in front of a car, such as a post, cuts it into two clusters.
    """
    left, result = sorted(tracks, key=lambda track: -len(track.clusters.time)), []
    while left:
        own, *left = left
        inside = [own.body.extent[0] >= LONG_M and _is_inside(other, own.body, stamps) for other in left]
        parts = [other for other, is_part in zip(left, inside, strict=True) if is_part]
        left = [other for other, is_part in zip(left, inside, strict=True) if not is_part]
        result.append(_merged([own, *parts], make, stamps))
    return sorted(result, key=lambda track: float(track.clusters.time[0]))


def _is_inside(track: Track, body: Body, stamps: np.ndarray) -> bool:
    """Whether the median cluster of a track is inside the box of a body."""
    times = stamps[body.sweep]
    known = np.isin(track.clusters.frame, body.sweep)
    inside = body.near(times, track.clusters.time, track.clusters.middle, TUNING.surface_m) & known
    return bool(np.median(inside))


def _with_beginnings(tracks: list[Track], make: Make, stamps: np.ndarray, coast: float) -> list[Track]:
    """The tracks, with those of a long body merged that go over into one another where only a part of it was seen.

    What is seen of a car between parked ones, or behind a post, hardly gives its velocity, so that neither the tracker
    nor the velocities at the ends associate it with the track that follows. The motion of both together does: they are
    of one body when it is more probable than two motions are.
    """
    left, result = list(tracks), []
    while left:
        own = left.pop(0)
        for other in left:
            if not (abs(other.first - own.last) <= coast and other.last > own.last):
                continue
            long = max(own.body.extent[0], other.body.extent[0])
            away = np.linalg.norm(own.body.centre[-1] - other.body.centre[0], axis=0)
            if long < LONG_M or away > long:
                continue
            both = _merged([own, other], make, stamps)
            fits = both.body.clusters == len(both.clusters.time)
            if fits and both.body.likelihood > own.body.likelihood + other.body.likelihood:
                left = [both, *(each for each in left if each is not other)]
                break
        else:
            result.append(own)
    return result


def _successors(tracks: list[Track], coast: float) -> dict[int, int]:
    """Which track goes on as which other one, the nearest in time: pairs within the gate that are clearly more likely
    than the pairs with any other track that was seen at the same time. Which of two bodies it is is not guessed."""
    first = np.array([track.first for track in tracks])
    order = np.argsort(first, kind="stable")
    found: dict[tuple[int, int], float] = {}
    after, before = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for a, own in enumerate(tracks):
        window = [own.last - coast, own.last + 2 * coast]
        for b in order[slice(*np.searchsorted(first[order], window, side="right"))].tolist():
            other = tracks[b]
            if other.first > own.first and other.last > own.last:
                found[a, b] = _distance(own.body, other.body, other.first - own.last)
                after[a].append(b)
                before[b].append(a)

    def compete(a: int, b: int) -> bool:
        own, other = tracks[a], tracks[b]
        return a != b and own.first <= other.last and other.first <= own.last

    result: dict[int, int] = {}
    for a, b in sorted(found, key=lambda pair: tracks[pair[1]].first - tracks[pair[0]].last):
        others = [found[a, other] for other in after[a] if compete(other, b)]
        others += [found[other, b] for other in before[b] if compete(other, a)]
        is_clear = min(others, default=np.inf) >= found[a, b] + _CLEAR
        if a not in result and b not in result.values() and found[a, b] <= _GATE and is_clear:
            result[a] = b
    return result


def _distance(before: Body, after: Body, gap: float) -> float:
    """Squared distance of two tracks in the middle of the gap between them, in standard deviations; inf if one comes
    back the way that the other one went, or both stand, in two places."""
    one, other = before.vel[-1, :2], after.vel[0, :2]
    apart = float(np.linalg.norm(before.centre[-1, :2] - after.centre[0, :2], axis=0))
    both_stand = before.way == after.way == 0
    if matmul(one, other) < -(TUNING.min_speed**2) or (both_stand and apart > TUNING.match_sd):
        return float("inf")
    half = gap / 2
    place = (before.centre[-1, :2] + half * one) - (after.centre[0, :2] - half * other)
    half = abs(half)
    speed = float(before.vel_sd[-1] ** 2 + after.vel_sd[0] ** 2)
    where = 2 * TUNING.match_sd**2 + half**2 * speed + 2 * _NOISE * half**3 / 3
    change = other - one
    return float(matmul(place, place) / where + matmul(change, change) / (speed + 2 * _NOISE * half))
