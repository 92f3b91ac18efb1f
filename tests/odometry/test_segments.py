"""A recording with missing sweeps is split into segments."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rover_pipeline.odometry.batch_pass import BatchPass
from rover_pipeline.odometry.options import OdometryOptions, OdometrySection
from rover_pipeline.odometry.registration.batch import SplineSystem
from rover_pipeline.odometry.registration.point_terms import NO_ERRORS
from rover_pipeline.odometry.registration.sweep_information import SPACING
from rover_pipeline.odometry.segments import SweepReader, split, without_overlap
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory
from rover_pipeline.odometry.vibration import NO_VIBRATION
from rover_pipeline.simulate.sensors import lidar


@st.composite
def stamps(draw: st.DrawFn) -> np.ndarray:
    """Sweeps at 10 Hz, some of which are missing."""
    count = draw(st.integers(1, 400))
    kept = np.ones(count, bool)
    for first, length in draw(st.lists(st.tuples(st.integers(1, count), st.integers(1, 120)), max_size=4)):
        kept[first : first + length] = False
    return 0.1 * np.flatnonzero(kept)


@given(ts=stamps(), length=st.floats(0.5, 60), fraction=st.floats(0.01, 0.5))
def test_segments_overlap_with_their_neighbours_only_and_miss_no_frame(
    ts: np.ndarray, length: float, fraction: float
) -> None:
    segments = split(ts, length, fraction * length)
    assert segments[0][0] == 0 and segments[-1][1] == len(ts)
    assert all(before[0] < after[0] < before[1] for before, after in itertools.pairwise(segments))
    assert all(before[1] <= after[0] for before, after in zip(segments, segments[2:], strict=False))
    own = without_overlap(segments)
    assert all(start < stop for start, stop in own)
    assert [frame for start, stop in own for frame in range(start, stop)] == list(range(len(ts)))
    assert all(whole[0] <= start and stop <= whole[1] for whole, (start, stop) in zip(segments, own, strict=True))


def test_two_segments_are_equally_long() -> None:
    (first, last), (second, end) = split(np.arange(1200) / 10, 60, 2)
    assert abs((last - first) - (end - second)) <= 1 and last - second == 20


def test_a_part_that_nothing_connects_moves_no_sweep_on_the_other_side_of_the_gap() -> None:
    trajectory = SplineTrajectory.at_rest(0.0, 2.0, 0.05)
    before, after = (0.0, 0.8), (1.4, 2.0)
    moved = trajectory.pos.copy()
    moved[trajectory.locate(np.array(after)).first[0] :, 0] += 1.0  # the guess of where the rest of the recording lies
    trajectory = trajectory._replace(pos=moved)

    def largest_move(unknown: list[tuple[float, float]]) -> float:
        system = SplineSystem(trajectory, OdometrySection(), unknown=unknown)
        for begin, end in before, after:
            instants = trajectory.locate(np.linspace(begin, end - 1e-6, 100))
            for first, weights in zip(instants.first, instants.weights(), strict=True):
                for k in range(ORDER):
                    for other in range(k + 1):  # of 1e4 points, known to a centimetre, in 100 parts
                        system.band[6 * (k - other), first + other] += 1e6 * weights[k] * weights[other]
        solved, _ = system.solve()
        seen = np.concatenate([np.linspace(*before, 50), np.linspace(*after, 50)])
        return float(np.linalg.norm(solved.at(seen).pos - trajectory.at(seen).pos, axis=1).max())

    assert largest_move([(before[1], after[0])]) < 1e-9 and largest_move([]) > 1e-3


def test_a_segment_is_registered_to_the_maps_of_neighbours_in_the_same_world_only() -> None:
    ranges = [(0, 5), (5, 10), (10, 15), (15, 20)]
    reader: Any = SimpleNamespace(ranges=ranges, apart={2})  # nothing connects the third segment with the second one
    whole = BatchPass(reader, SplineTrajectory.at_rest(0.0, 2.0, 0.05), None, NO_ERRORS, NO_VIBRATION)  # type: ignore[arg-type]
    assert [[*whole.in_one_world(segment)] for segment in range(4)] == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_beams_are_as_far_apart_as_the_sidecar_says_at_most_and_as_those_of_coarse_lidars_where_none_says_it() -> None:
    images: Any = SimpleNamespace(arguments=("rng",))
    points: Any = SimpleNamespace(arguments=("xyz",))
    beams = lidar.BEAMS["OS-1-64"]
    sidecar = lidar.metadata(beams, 512, 10)
    reader = SweepReader(images, OdometryOptions(), json.dumps(sidecar), times=np.zeros(2))
    assert abs(reader.spacing - np.radians(np.ptp(beams.altitude)) / 63) < 1e-4
    assert replace(reader, recording=points).spacing == SPACING
