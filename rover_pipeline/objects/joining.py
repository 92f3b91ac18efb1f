"""Puts the tracks of one body together: parts that were tracked on their own, and what comes before and after a gap.

The tracker looks ahead only. Once both sides of a gap are known, their places and velocities tell whether they are of
one body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.bodies import Body
from rover_pipeline.objects.clusters import Clusters, merged

#: Length from which a body may be seen in several parts, m; what its box is larger than it says, m; and the share of
#: clusters in it from which a track is a part of it. Two bodies are never in one place.
_LONG_M, _MARGIN_M, _LEAST_INSIDE = 1.5, 0.15, 0.6
#: Number of sweeps without a cluster behind which a track may be of another body, and least number of clusters of a
#: piece that tells a velocity.
_GAP_SWEEPS, _LEAST_HITS = 2, 4
#: Longest time for which both tracks of a body that go over into one another have clusters of it, s.
_OVERLAP_S = 0.5
#: Squared distance in standard deviations within which 99 % of the two sides of a gap are (chi-square, 4 degrees), and
#: how much less it must be than that of any other pair.
_GATE, _CLEARLY = 13.3, 4.0
#: Power spectral density of the acceleration in a gap, m2/s3, and what is added to it as a share of the square of the
#: speed.
_NOISE, _NOISE_TURNS = 0.5, 0.25
#: Standard deviations of the place and the velocity at the end of a track, m and m/s, besides what is computed.
_END_SD, _END_SPEED_SD = 0.25, 0.25
#: Speed from which bodies that move in opposite directions are two, m/s.
_TURNED = 0.5
#: How different the heights of two tracks of a body are at most, m, and by which factor and length their sizes.
_HEIGHT_M, _FACTOR, _LENGTH_M = 0.4, 2.0, 0.5


class Track(NamedTuple):
    """The clusters of a body, and the body that is made from them."""

    clusters: Clusters
    body: Body


def whole_tracks(
    tracks: Iterable[Clusters], make: Callable[[Clusters], Body], stamps: np.ndarray, least: int, longest: float
) -> list[Body]:
    """The bodies of tracks, of which some are of the same one.

    Args:
        tracks: in the order of their first clusters.
        make: gives the body of a track.
        stamps: f8 (sweep,), s.
        least: minimum number of clusters of a body. Shorter tracks may be parts of one.
        longest: longest gap in a track, s.
    """
    pieces = [piece for own in tracks for piece in _pieces(own)]
    found = [Track(own, make(own)) for own in pieces if len(own.time) >= _LEAST_HITS]
    found = _with_parts(found, [own for own in pieces if len(own.time) < _LEAST_HITS], make, stamps)
    found = _over_gaps(_with_beginnings(found, make, stamps), make, stamps, longest)
    return [track.body for track in found if track.body.clusters >= least]


def _pieces(clusters: Clusters) -> list[Clusters]:
    """The parts of a track between its gaps: behind a gap the tracker may have taken another body."""
    ends = [0, *(1 + np.flatnonzero(np.diff(clusters.frame) > _GAP_SWEEPS)).tolist(), len(clusters.frame)]
    return [clusters.select(slice(begin, end)) for begin, end in pairwise(ends)]


def _with_parts(
    found: list[Track], pieces: list[Clusters], make: Callable[[Clusters], Body], stamps: np.ndarray
) -> list[Track]:
    """The tracks, longest first, with those that are inside the boxes of others joined to these."""
    left = sorted(found, key=lambda track: -len(track.clusters.time))
    result = []
    while left:
        own = left.pop(0)
        if own.body.extent[0] >= _LONG_M:
            parts = [each for each in left if _is_inside(each.clusters, own.body, stamps)]
            small = [each for each in pieces if _is_inside(each, own.body, stamps)]
            if parts or small:
                left = [each for each in left if all(each is not part for part in parts)]
                pieces = [each for each in pieces if all(each is not part for part in small)]
                clusters = _together([own.clusters, *(part.clusters for part in parts), *small])
                own = Track(clusters, make(clusters))
        result.append(own)
    return sorted(result, key=lambda track: float(track.clusters.time[0]))


def _is_inside(clusters: Clusters, body: Body, stamps: np.ndarray) -> bool:
    """Whether most of some clusters are inside the box of a body."""
    index = clusters.frame - body.sweep[0]
    known = (index >= 0) & (index < len(body.sweep))
    if known.mean() < _LEAST_INSIDE:
        return False
    index = index[known]
    later = clusters.time[known] - stamps[body.sweep[index]]
    away = clusters.middle[known] - body.centre[index, :2] - later[:, None] * body.vel[index, :2]
    cos, sin = np.cos(body.yaw[index]), np.sin(body.yaw[index])
    along, left = np.abs(cos * away[:, 0] + sin * away[:, 1]), np.abs(cos * away[:, 1] - sin * away[:, 0])
    half = body.extent / 2 + _MARGIN_M
    return bool(((along <= half[0]) & (left <= half[1])).sum() >= _LEAST_INSIDE * len(known))


def _together(parts: list[Clusters]) -> Clusters:
    """One cluster for each sweep that any of the tracks has one of."""
    whole = Clusters.joined(parts)
    order = np.argsort(whole.frame, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(whole.frame[order])) + 1)
    return Clusters.joined([merged(whole.select(group)) if len(group) > 1 else whole.select(group) for group in groups])


def _with_beginnings(found: list[Track], make: Callable[[Clusters], Body], stamps: np.ndarray) -> list[Track]:
    """The tracks, with those of a long body joined that go over into one another where only a part of it was seen.

    What is seen of a car between parked ones, or behind a post, hardly tells its velocity, so that neither the tracker
    nor the velocities at the ends put it together with the track that follows. The motion of both together does: they
    are of one body when it is more probable than two motions are.
    """
    left, result = list(found), []
    while left:
        own = left.pop(0)
        end = float(stamps[own.body.sweep[-1]])
        for other in left:
            begin = float(stamps[other.body.sweep[0]])
            if not (-_OVERLAP_S <= begin - end <= _OVERLAP_S and other.body.sweep[-1] > own.body.sweep[-1]):
                continue
            long = max(own.body.extent[0], other.body.extent[0])
            away = np.linalg.norm(own.body.centre[-1] - other.body.centre[0], axis=0)
            if long < _LONG_M or away > long or not _like(own.body, other.body):
                continue
            clusters = _together([own.clusters, other.clusters])
            body = make(clusters)
            both = own.body.likelihood + other.body.likelihood
            if body.clusters == len(clusters.time) and body.likelihood > both:
                left = [Track(clusters, body), *(each for each in left if each is not other)]
                break
        else:
            result.append(own)
    return result


def _over_gaps(
    tracks: list[Track], make: Callable[[Clusters], Body], stamps: np.ndarray, longest: float
) -> list[Track]:
    """The tracks, with those joined that go on after a gap."""
    after = _successors(tracks, stamps, longest)
    continued = set(after.values())
    result = []
    for begin in range(len(tracks)):
        if begin in continued:
            continue
        chain = [begin]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        if len(chain) > 1:
            clusters = _together([tracks[number].clusters for number in chain])
            result.append(Track(clusters, make(clusters)))
        else:
            result.append(tracks[begin])
    return result


def _successors(tracks: list[Track], stamps: np.ndarray, longest: float) -> dict[int, int]:
    """Which track goes on as which other one, the nearest in time: pairs that fit, and much better than another track
    does that was seen at the same time."""
    first, last = (np.array([stamps[track.body.sweep[end]] for track in tracks]) for end in (0, -1))
    order = np.argsort(first, kind="stable")
    found: dict[tuple[int, int], float] = {}
    for a, track in enumerate(tracks):
        begin, end = np.searchsorted(first[order], [last[a] - _OVERLAP_S, last[a] + longest], side="right")
        for b in order[begin:end].tolist():
            if first[b] > first[a] and last[b] > last[a]:
                found[a, b] = _distance(track.body, tracks[b].body, float(first[b] - last[a]))
    rivals: dict[tuple[str, int], list[int]] = {}
    for a, b in found:
        rivals.setdefault(("after", a), []).append(b)
        rivals.setdefault(("before", b), []).append(a)

    def together(one: int, other: int) -> bool:
        return bool(one != other and first[one] <= last[other] and first[other] <= last[one])

    def is_clear(a: int, b: int) -> bool:
        others = [found[a, other] for other in rivals["after", a] if together(other, b)]
        others += [found[other, b] for other in rivals["before", b] if together(other, a)]
        return min(others, default=np.inf) >= found[a, b] + _CLEARLY

    result: dict[int, int] = {}
    taken = set()
    for a, b in sorted(found, key=lambda pair: float(first[pair[1]] - last[pair[0]])):
        if a not in result and b not in taken and found[a, b] <= _GATE and is_clear(a, b):
            result[a] = b
            taken.add(b)
    return result


def _distance(before: Body, after: Body, gap: float) -> float:
    """Squared distance of two tracks in the middle of the gap between them, in standard deviations; inf if they have
    not the size of one body, or one comes back the way that the other one went."""
    vel = [before.vel[-1, :2], after.vel[0, :2]]
    if not _like(before, after) or matmul(vel[0], vel[1]) < -(_TURNED**2):
        return float("inf")
    half = gap / 2
    place = (before.centre[-1, :2] + half * vel[0]) - (after.centre[0, :2] - half * vel[1])
    half = abs(half)
    noise = 2 * _NOISE + _NOISE_TURNS * sum(float(matmul(v, v)) for v in vel)
    speed = float(before.vel_sd[-1] ** 2 + after.vel_sd[0] ** 2) + 2 * _END_SPEED_SD**2
    where = 2 * _END_SD**2 + half**2 * speed + noise * half**3 / 3
    change = vel[1] - vel[0]
    return float(matmul(place, place) / where + matmul(change, change) / (speed + noise * half))


def _like(one: Body, other: Body) -> bool:
    """Whether two tracks have the size of one body, of which either may show a part."""
    a, b = one.extent, other.extent
    return bool(abs(a[2] - b[2]) <= _HEIGHT_M and max(a[0], b[0]) <= _FACTOR * min(a[0], b[0]) + _LENGTH_M)
