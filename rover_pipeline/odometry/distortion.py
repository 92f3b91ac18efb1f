"""Whether sweeps hold the motion that they are taken to: how long they are, and points that count as of one instant.

Points without times are taken as seen at the instant of their sweep. Where the motion was not undone, each side of the
rig gets a path of another length. The points themselves show it: dated by their azimuth, as if the beams had turned
clockwise or counterclockwise, they fit the map of other sweeps better or worse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.lidar.geometry import sensor_info, stagger
from rover_pipeline.lidar.spin import Turning, share_of_turn
from rover_pipeline.odometry.clouds import ScanReader
from rover_pipeline.odometry.observations import COLUMNS, NO_POINTS, Sweep
from rover_pipeline.odometry.registration.cross_validation import BLOCK, SIGNIFICANT, cross_validate
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory

#: Sweeps that are looked at, and the smallest number that shows anything. Tuned: by hand.
_SWEEPS, _MIN_SWEEPS = 32, 8
#: Share of the motion that points must hold, beyond its error, before the user is warned. Tuned: by hand.
_WARNED = 0.3


class Distortion(NamedTuple):
    """How much of the motion within sweeps their points hold."""

    turning: Turning  #: sense in which the beams turn, if there is any distortion.
    #: of the motion, about: 1 = all of it, 0 = it is undone. The trajectory was made without it, which makes it seem
    #: smaller.
    share: float
    #: standard deviation of the share, by how much sweeps differ in which sense of turning fits them better.
    error: float

    def summary(self) -> dict[str, Any]:
        return {"turning": self.turning, "share": round(self.share, 2), "error": round(self.error, 2)}

    def warnings(self) -> list[str]:
        """What to do about it; nothing where the points do not clearly show it."""
        if not self.share - SIGNIFICANT * self.error > _WARNED:
            return []
        return [
            f"the points hold about {self.share:.0%} of the motion within their sweeps, as those of a lidar that turns "
            f"{self.turning}: each side of the rig gets a path of another length; import them again with "
            f"--turning {self.turning} and without --compensated"
        ]


def distortion(reader: SweepReader, trajectory: SplineTrajectory, period: float) -> Distortion | None:
    """What the points say of the stretch with the longest path; None where it is too short, or nothing moves.

    Args:
        reader: of points that count as measured at the instants of their sweeps.
        period: of a turn, s.
    """
    positions = trajectory.at(reader.times).pos
    path = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(positions, axis=0), axis=1))])
    count = min(_SWEEPS, len(path))
    start = int(np.argmax(path[count - 1 :] - path[: len(path) - count + 1]))
    sweeps = [_by_azimuth(sweep) for sweep in reader.read(start, start + count) if sweep]
    if len(sweeps) < _MIN_SWEEPS:
        return None
    turn = period * ((np.arange(COLUMNS) + 0.5) / COLUMNS - 0.5)
    costs = []
    for share in (0.0, 1.0, -1.0):
        held = [sweep._replace(times=sweep.end + share * turn) for sweep in sweeps]
        costs.append([fit.mean_cost for fit in cross_validate(held, trajectory, reader.options)])
    undone, clockwise, counterclockwise = np.array(costs)
    # The parabola through the three mean costs is lowest at the share. Where it is not clearly bent, nothing is known.
    bend, bend_error = _mean(clockwise + counterclockwise - 2 * undone)
    if not bend > SIGNIFICANT * bend_error:
        return None
    share, error = (value / (2 * bend) for value in _mean(counterclockwise - clockwise))
    return Distortion("clockwise" if share >= 0 else "counterclockwise", abs(share), error)


def rate_remarks(scans: ScanReader) -> list[str]:
    """What the user should know where sweeps that are images come at another rate than `lidar.json` says.

    Where three of four intervals contradict it, either sweeps are missing, or `lidar.json` is of another mode. Images
    show which. Where none is missing, the first column of a sweep was measured right after the last one of the sweep
    before: ranges change between them as between neighbouring columns. Where some are missing, they change as between
    the first columns of both sweeps. The nearer of the two, on a logarithmic scale, is taken. Raises ValueError where
    none is missing.
    """
    intervals = np.diff(scans.recording.ts)
    if "xyz" in scans.recording.arguments or len(intervals) < _MIN_SWEEPS:
        return []
    stated, (short, long) = round(1 / scans.lidar.duration), np.percentile(intervals, (25, 75))
    if short * (stated - 0.5) <= 1 <= long * (stated + 0.5):
        return []
    changes = []
    for number in np.unique(np.linspace(0, len(intervals) - 1, _SWEEPS).astype("i8")).tolist():
        before, after = stagger(np.stack([*scans.scans(number, number + 2)]), sensor_info(scans.metadata)).astype("f8")
        columns = np.column_stack([before[:, 0], after[:, 0], before[:, -1], before[:, -2]])
        if len(measured := columns[columns.all(1)]):
            changes.append(np.log1p(np.median(np.abs(np.diff(measured, axis=1)), axis=0)))
    rates = f"lidar.json says {stated} sweeps a second, but they come every {np.median(intervals):.3g} s"
    if changes and np.diff(np.mean(changes, axis=0), 2)[0] >= 0:
        raise ValueError(f"{rates}, without a gap between one and the next; correct lidar_mode and fps in lidar.json")
    return [f"{rates}; they are taken to be as long as it says, and others to be missing between them"]


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean of values of neighbouring sweeps, f8 (sweep,), and its standard deviation."""
    means = np.array([part.mean() for part in np.array_split(values, len(values) // BLOCK)])
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


def _by_azimuth(sweep: Sweep) -> Sweep:
    """The sweep with its points sorted into columns by azimuth, as beams that turn clockwise measure them.

    The more points are evaluated, the better: none are held out.
    """
    share = share_of_turn(sweep.points, "clockwise") + 0.5
    column = np.clip((share * COLUMNS).astype("i4"), 0, COLUMNS - 1)
    order = np.argsort(column, kind="stable")
    points = np.ascontiguousarray(sweep.points[order])
    return sweep._replace(points=points, column=column[order], held_out=NO_POINTS)
