"""Segments of a recording: how it is split, how segments are worked on in parallel, and how they are merged.

What is sent to threads, processes or other machines is a `SweepReader`, which reads the sweeps there. A segment shares
some frames with the one before. The transform between their two worlds comes from the planes that both have observed
and, in directions that the planes leave open, from the poses of the shared frames.

In a gap the lidar was silent, and nobody knows how it moved. The part after it is registered independently, in a world
of its own, and its planes are searched for in the map of the part before. Where they fit at no pose, or at several, the
parts are not connected.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rover_pipeline.engine.shared import Exchange
from rover_pipeline.imu.blocks import INTERVAL
from rover_pipeline.kinematics.rotation import exp, log, nearest
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.geometry import sensor_info
from rover_pipeline.numerics.linear import eigvalsh, matmul
from rover_pipeline.odometry.clouds import BLOCK, ScanReader, is_same
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Sweep, packed, unpacked
from rover_pipeline.odometry.registration.map_alignment import align
from rover_pipeline.odometry.registration.point_terms import GATE
from rover_pipeline.odometry.registration.register import register
from rover_pipeline.odometry.registration.sweep_information import SPACING
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

if TYPE_CHECKING:
    from rover_pipeline.odometry.other_lidars import OtherLidar

#: Standard deviations of the transform that shared poses give, metres and radians. They are large, so that planes
#: decide wherever they can. Tuned: by hand.
_POSE_DEVIATIONS = np.array([0.01] * 3 + [0.003] * 3)
#: Smallest number of planes in common with which two segments are connected. Tuned: by hand.
_MIN_PLANES = 30
#: Longest time between two sweeps that the motion before it bridges, seconds. A walker's speed changes by 1 m/s
#: in it, so that the guess is wrong by 0.2 m: the registration can still mend that. Tuned: walks.
MAX_BRIDGED = 0.45
#: Planes farther from the first pose after the gap than this, metres, are not searched for, nor more than so many.
#: Tuned: by hand.
_NEAR, _MAX_PLANES = 30.0, 1500
#: Largest error of the guess that is searched: m for each second of gap, and degrees; the steps of the search, and
#: their largest number. Tuned: by hand.
_SPEED_ERROR, _TURN_ERROR, _STEP, _TURN_STEP, _MAX_STEPS = 1.5, 30.0, 0.6, 10.0, 3
#: Weak prior: it holds the directions that no plane determines. Tuned: by hand.
_DEVIATIONS = np.array([1.0] * 3 + [0.5] * 3)
#: Smallest share of the planes that fit, and largest share that fit at another pose, relative to the best one. Poses
#: that differ by less than so many metres or radians are the same. Tuned: by hand.
_MIN_FIT, _MAX_ALTERNATIVE, _SAME = 0.6, 0.85, 0.05


def gaps(ts: np.ndarray, used: np.ndarray) -> list[int]:
    """Numbers of the frames before which the lidar was silent.

    Args:
        ts: f8 (frame,), seconds; used: bool (frame,), whether the sweep may be used.
    """
    frames = np.flatnonzero(used)
    return [int(frame) for frame in frames[1:][np.diff(ts[frames]) > MAX_BRIDGED]]


def split(ts: np.ndarray, length: float, overlap: float, gaps: Iterable[int] = ()) -> list[tuple[int, int]]:
    """First frame, and one after the last, of segments of about equal length. Neighbours overlap, except at a gap.

    Args:
        ts: f8 (N,), seconds.
        length, overlap: seconds.
        gaps: numbers of frames before which the lidar was silent.
    """
    segments = []
    for start, stop in itertools.pairwise([0, *gaps, len(ts)]):
        segments += [(start + first, start + last) for first, last in _split(ts[start:stop], length, overlap)]
    return segments


def _split(ts: np.ndarray, length: float, overlap: float) -> list[tuple[int, int]]:
    """The same for a part without a gap."""
    span = float(ts[-1] - ts[0])
    count = max(1, round(span / length))
    edges = ts[0] + span * np.arange(1, count) / count
    starts = [0]
    for start in np.searchsorted(ts, edges - overlap / 2):
        # Where many sweeps are missing, a segment would consist of its overlaps only.
        if ts[start] - ts[starts[-1]] >= overlap:
            starts.append(int(start))
    stops = np.append(np.searchsorted(ts, ts[starts[1:]] + overlap), len(ts))
    return [(start, int(stop)) for start, stop in zip(starts, stops, strict=True)]


def without_overlap(segments: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The segments cut in the middle of their overlaps, so that each frame is in one of them."""
    edges = [(before[1] + after[0]) // 2 for before, after in itertools.pairwise(segments)]
    return list(zip([segments[0][0], *edges], [*edges, segments[-1][1]], strict=True))


@dataclass(kw_only=True)
class SweepReader(ScanReader):
    """Sweeps of a recording, as the odometry takes them."""

    times: np.ndarray  #: f8 (frame,), time stamps of the sweeps, seconds since the first one.
    begin: float = field(init=False)  #: column 0 of a sweep after its time stamp, seconds.
    period: float = field(init=False)  #: length of a sweep, seconds.
    others: tuple[OtherLidar, ...] = ()  #: lidars beside this one, whose sweeps contribute to the batch.
    ranges: Sequence[tuple[int, int]] = ()  #: first frames of the segments, and one after the last, without overlaps.
    #: numbers of segments that nothing connects with the one before: how their worlds lie to one another is not known,
    #: so that neither may be registered to the map of the other.
    apart: Collection[int] = ()
    #: where batch passes keep their maps and the sweeps that have been read, whose points are selected once.
    kept: Exchange | None = None

    def __post_init__(self) -> None:
        self.begin, self.period = self.lidar.span

    def sweeps(self, start: int, stop: int) -> Iterator[Sweep | None]:
        """The sweeps of `read`, in order."""
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            key, make = f"sweeps-{self.density}-{first}-{last}", partial(self._packed, first, last)
            yield from unpacked(self.kept.once(key, make) if self.kept else make())

    def _packed(self, start: int, stop: int) -> list[np.ndarray]:
        return packed(list(self.read(start, stop)))

    def read(self, start: int, stop: int) -> Iterator[Sweep | None]:
        """Sweeps; None for those that are not valid or have too few points.

        A sweep that repeats the one before it to the last millimetre was not measured when it says: None as well.
        """
        before = next(self.scans(start - 1, start)) if start else None
        for number, scan in enumerate(self.scans(start, stop), start):
            repeated, before = before is not None and is_same(scan, before), scan
            usable = self.recording.valid[number] and not repeated
            sweep = self.sweep(scan, number, self.times[number]) if usable else None
            yield sweep if sweep and len(sweep.points) >= self.options.min_points else None

    def select(self, numbers: Iterable[int]) -> Iterator[Sweep]:
        """The sweeps of some frames, without those that are not valid or have too few points."""
        return (sweep for number in numbers for sweep in self.read(number, number + 1) if sweep)

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """First and last instant of some sweeps, seconds."""
        first, last = self.times[start] + self.begin, self.times[stop - 1] + self.begin + self.period
        return float(min(first, self.times[start])), float(max(last, self.times[stop - 1]))

    def unknown(self) -> list[tuple[float, float]]:
        """First and last instant, s, of the gaps before segments that nothing connects with the one before.

        Nothing is known about the motion in them. The guess that fills them must not move the sweeps beside them.
        """
        used = np.flatnonzero(self.recording.valid)
        starts = [self.ranges[number][0] for number in sorted(self.apart)]
        return [
            (self.span(int(before[-1]), int(before[-1]) + 1)[1], self.span(first, first + 1)[0])
            for first in starts
            if len(before := used[used < first])
        ]

    def rates(self, trajectories: Sequence[SplineTrajectory]) -> tuple[np.ndarray, np.ndarray]:
        """The lidar's angular velocities by the trajectories of segments, without an IMU.

        Returns:
            Instants, f8 (M,), s, and rates, f8 (M, 3), rad/s, NaN where no sweep shows them.
        """
        spans, step = [self.span(*frames) for frames in self.ranges], INTERVAL / 5
        times = spans[0][0] + step * np.arange(max(0, int((spans[-1][1] - spans[0][0]) / step)))
        rates = np.full((len(times), 3), np.nan)
        for trajectory, span in zip(trajectories, spans, strict=True):
            part = slice(*np.searchsorted(times, span))
            rates[part] = trajectory.at(times[part]).avel
        begin = self.times[self.recording.valid != 0] + self.begin
        # Where all points are of one instant, the motion is known from one sweep to the next all the same.
        ends = np.append(begin + (self.period or self.lidar.period), -np.inf)  # Number -1 is that of no sweep.
        rates[times > ends[np.searchsorted(begin, times, side="right") - 1] + step] = np.nan
        return times, rates

    @cached_property
    def spacing(self) -> float:
        """The largest angle between neighbouring beams, rad, where it is known; see `sweep_information.SPACING`."""
        if "xyz" in self.recording.arguments:
            return SPACING
        angles = np.sort(np.radians(sensor_info(self.metadata).beam_altitude_angles))
        return float(np.diff(angles).max(initial=0.0)) or SPACING


def register_segments(
    reader: SweepReader, segments: Sequence[tuple[int, int]], store: Exchange
) -> list[SplineTrajectory]:
    """Trajectories of segments, registered in any process, each in its own world. Their maps are put into a store.

    Args:
        segments: first frames, and one after the last.
    """
    one = partial(_registered, reader, segments, store)
    return list(reader.recording.map(one, segments, "register", processes=True))


def _registered(
    reader: SweepReader, segments: Sequence[tuple[int, int]], store: Exchange, start: int, stop: int
) -> SplineTrajectory:
    # Other segments are merged with this one by the two finest levels; a single segment needs no map.
    sizes, ends = reader.options.voxels[:2] if len(segments) > 1 else (), reader.times[start:stop]
    trajectory, surfels = register(reader.read(start, stop), ends, reader.options, sizes)
    store.put(f"thin-{segments.index((start, stop))}", surfels.planes())
    return trajectory


class Segment(NamedTuple):
    """A part of a recording that is registered independently."""

    start: int  #: its first frame.
    stop: int  #: one after its last frame.
    trajectory: SplineTrajectory  #: in the segment's own world. The knots of all segments are on one grid.
    surfels: SurfelMap  #: the finest levels of the map.


class Seam(NamedTuple):
    """Where two segments overlap."""

    frame: int  #: the first shared one.
    metres: float  #: root mean square difference of the positions of the shared frames.
    degrees: float  #: root mean square difference of their rotations.
    planes: int  #: number of planes that both segments have observed.
    certain: bool = True  #: at a gap, where no frame is shared: whether the planes fit at one pose only.

    @property
    def connected(self) -> bool:
        """Whether the segments have enough planes in common to be in one world."""
        return self.planes >= _MIN_PLANES and self.certain


def with_maps(
    segments: Iterable[tuple[int, int]], trajectories: Iterable[SplineTrajectory], store: Exchange
) -> Iterator[Segment]:
    """The segments that `register_segments` has registered."""
    for number, (frames, trajectory) in enumerate(zip(segments, trajectories, strict=True)):
        yield Segment(*frames, trajectory, SurfelMap.of_planes(store.get(f"thin-{number}")))


def merge(segments: Iterable[Segment], ts: np.ndarray, gyro: Gyro = NO_GYRO) -> tuple[SplineTrajectory, list[Seam]]:
    """One trajectory in the world of the first segment. Segments come in order, and two are in memory at a time.

    Args:
        ts: f8 (frame,), instants of the frames of the recording, seconds.
    """
    seams: list[Seam] = []
    before: Segment | None = None
    # The pose of the segment's world in the world of the first segment.
    world_rot, world_pos = np.eye(3), np.zeros(3)
    for segment in segments:
        if before is None:
            merged = segment.trajectory.copy()
        else:
            across, shared = segment.start >= before.stop, ts[segment.start : before.stop]
            seam, (rot, pos) = _across_gap(before, segment, ts, gyro) if across else _at(shared, before, segment)
            seams.append(seam)
            world_rot, world_pos = matmul(world_rot, rot), matmul(world_rot, pos) + world_pos
            later = segment.trajectory.transformed(world_rot, world_pos)
            if across:
                merged, shared = bridged(merged, later.start), np.array([later.start])
            merged = _blended(merged, later, shared)
        before = segment
    return merged, seams


def _across_gap(before: Segment, after: Segment, ts: np.ndarray, gyro: Gyro) -> tuple[Seam, Poses]:
    """The seam at a gap, and the pose, (3, 3) and (3,), of the world after it in the world before it.

    The planes after the gap are searched for from many errors of a guess, which goes on with the motion before it.
    """
    begin, end = ts[before.stop - 1], ts[after.start]
    last, first = before.trajectory.at(np.array([begin])), after.trajectory.at(np.array([end]))
    seconds, rotation = end - begin, gyro.rotation(begin, end)
    # Unknown motion goes on as it was, as far as that is likely.
    turn = last.avel[0] * min(seconds, MAX_BRIDGED) if rotation is None else rotation
    guess_rot, guess_pos = matmul(last.rot[0], exp(turn[None])[0]), last.pos[0] + last.vel[0] * seconds
    centres = after.surfels.centres
    centres = centres[np.linalg.norm(centres - first.pos[0], axis=1) < _NEAR]
    centres = centres[:: max(1, -(-len(centres) // _MAX_PLANES))] - first.pos[0]
    if not len(centres):
        seam = Seam(after.start, np.nan, np.nan, planes=0, certain=False)
        return seam, Poses(matmul(guess_rot, first.rot[0].T), guess_pos)
    results = []
    for shift, angle in _starts(seconds, rotation is None):
        # The search turns about the first pose after the gap, so that a rotation does not move it.
        start = Poses(matmul(exp(angle[None])[0], guess_rot, first.rot[0].T), guess_pos + shift)
        pose, information, statistics = align(
            centres, before.surfels.tables, guess=start, expected=start, deviations=_DEVIATIONS
        )
        results.append((statistics.inliers, pose, information))
    results.sort(key=lambda each: -each[0])
    inliers, best, information = results[0]
    alternatives = [count for count, pose, _ in results[1:] if _differ(pose, best)]
    certain = (
        inliers >= _MIN_FIT * len(centres)
        and max(alternatives, default=0.0) <= _MAX_ALTERNATIVE * inliers
        and eigvalsh(information)[0] >= GATE**-2  # the batch finds the rest
    )
    seam = Seam(after.start, np.nan, np.nan, int(inliers), bool(certain))
    return seam, Poses(best.rot, best.pos - matmul(best.rot, first.pos[0]))


def _starts(seconds: float, turns: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Errors of the guess that the search begins with: displacements (3,) m, rotations about the vertical (3,) rad."""
    steps = min(_MAX_STEPS, int(np.ceil(_SPEED_ERROR * seconds / _STEP)))
    grid = _STEP * np.arange(-steps, steps + 1)
    angles = np.radians(np.arange(-_TURN_ERROR, _TURN_ERROR + 1, _TURN_STEP)) if turns else np.zeros(1)
    return [(np.array([x, y, 0.0]), np.array([0.0, 0.0, angle])) for x in grid for y in grid for angle in angles]


def _differ(first: Poses, second: Poses) -> bool:
    angle = np.linalg.norm(log(matmul(first.rot.T[None], second.rot))[0], axis=0)
    return bool(np.linalg.norm(first.pos - second.pos, axis=0) > _SAME or angle > _SAME)


def bridged(before: SplineTrajectory, start: float) -> SplineTrajectory:
    """A trajectory that goes on until `start`, seconds, with the velocity that it has at its end."""
    count = max(0, round((start - before.start) / before.step) - len(before.pos))
    steps = np.arange(1, count + 1)[:, None]
    move, turn = before.pos[-1] - before.pos[-2], log(matmul(before.rot[-2].T[None], before.rot[-1]))
    pos = np.concatenate([before.pos, before.pos[-1] + steps * move])
    rot = np.concatenate([before.rot, matmul(before.rot[-1], exp(np.minimum(steps, MAX_BRIDGED / before.step) * turn))])
    return SplineTrajectory(before.start, before.step, pos, rot)


def _at(shared: np.ndarray, before: Segment, after: Segment) -> tuple[Seam, Poses]:
    """The seam at the instants of shared frames, s, and the pose of the world after it in the world before it."""
    old, new = before.trajectory.at(shared), after.trajectory.at(shared)
    rot = nearest(matmul(old.rot, np.swapaxes(new.rot, 1, 2)).sum(axis=0))
    pos = (old.pos - matmul(new.pos, rot.T)).mean(axis=0)
    centres, planes = after.surfels.centres, 0
    if len(centres):
        # Rotations are about the middle of the shared frames, so that they do not move these frames.
        middle = new.pos.mean(axis=0)
        guess = Poses(rot, pos + matmul(rot, middle))
        (rot, pos), _, statistics = align(
            centres - middle, before.surfels.tables, guess=guess, expected=guess, deviations=_POSE_DEVIATIONS
        )
        pos, planes = pos - matmul(rot, middle), int(statistics.inliers)
    angles = log(matmul(np.swapaxes(old.rot, 1, 2), rot, new.rot))
    distances = matmul(new.pos, rot.T) + pos - old.pos
    return Seam(after.start, _rms(distances), float(np.degrees(_rms(angles))), planes), Poses(rot, pos)


def _blended(old: SplineTrajectory, new: SplineTrajectory, shared: np.ndarray) -> SplineTrajectory:
    """`old` until the shared instants and `new` after them, with a smooth transition of pose and velocity between."""
    offset = round((new.start - old.start) / old.step)
    count = offset + len(new.pos)
    blend = SplineTrajectory(old.start, old.step, np.empty((count, 3)), np.empty((count, 3, 3)))
    blend.pos[:offset], blend.rot[:offset] = old.pos[:offset], old.rot[:offset]
    blend.pos[offset:], blend.rot[offset:] = new.pos, new.rot
    both = slice(offset, min(len(old.pos), count))
    # A control point has its largest weight at its own knot, one knot after the first instant that it acts on.
    instants = old.start + (np.arange(both.start, both.stop) - 1) * old.step
    span = max(shared[-1] - shared[0], old.step)
    weight = np.clip((instants - shared[0]) / span, 0, 1)[:, None]
    weight = weight**2 * (3 - 2 * weight)
    blend.pos[both] = old.pos[both] + weight * (blend.pos[both] - old.pos[both])
    turn = log(matmul(np.swapaxes(old.rot[both], 1, 2), blend.rot[both]))
    blend.rot[both] = matmul(old.rot[both], exp(weight * turn))
    return blend


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))
