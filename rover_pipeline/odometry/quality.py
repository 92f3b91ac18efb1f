"""Quality of the poses: which are valid, which are in one world, and what the user is warned of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.segments import Seam

#: Differences of two segments at a seam above which the user is warned, metres and degrees.
_WIDE_SEAM = 0.05, 0.5


class Quality(NamedTuple):
    """How well the sweep of each frame fits the map; NaN where no sweep was used.

    Attributes:
        inliers: f8 (frame,), fraction of points on planes.
        residual: f8 (frame,), root mean square of their distances, metres.
        information: f8 (frame,), smallest eigenvalue of the information matrix, 1/m2.
    """

    inliers: np.ndarray
    residual: np.ndarray
    information: np.ndarray

    def valid(self, options: OdometrySection) -> np.ndarray:
        """Which frames are as good as the options demand, bool (frame,)."""
        return (
            (self.inliers >= options.min_inliers)
            & (self.residual <= options.max_residual)
            & (self.information >= options.max_error**-2)
        )

    def usable_for_loops(self, options: OdometrySection) -> np.ndarray:
        """Which frames may be part of local maps, bool (frame,). Drift makes their residuals large."""
        return (self.inliers >= options.min_inliers) & (self.information > 0)


def largest_world(seams: list[Seam], counted: np.ndarray) -> np.ndarray:
    """The frames of connected segments, bool (frame,): of several worlds, the one with the most counted frames.

    Args:
        counted: bool (frame,).
    """
    world = np.zeros(len(counted), int)
    for seam in seams:
        world[seam.frame :] += not seam.connected
    return world == np.argmax(np.bincount(world, counted))


def largest_part(after: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The frames between two jumps of the clock, bool (frame,): those of the part with the most counted frames.

    A host's clock that was set and a rig that paused for minutes look alike. Only in the first case is the motion
    across the jump known.

    Args:
        after: i8 (jump,), numbers of the frames before which the clock jumps; counted: bool (frame,).
    """
    part = np.searchsorted(after, np.arange(len(counted)), side="right")
    return part == np.argmax(np.bincount(part, counted))


def jump_warnings(ts: np.ndarray, after: np.ndarray) -> list[str]:
    """A line for each jump of the clock.

    Args:
        ts: f8 (frame,), s; after: i8 (jump,), numbers of the frames before which it jumps.
    """
    return [
        f"frame {frame}: lidar/ts jumps by {ts[frame] - ts[frame - 1]:.0f} s; whether the rig moved meanwhile is not "
        "known, so only the poses of the longest part are trusted; split the recording there to have them all"
        for frame in after
    ]


def seam_summary(seam: Seam) -> dict[str, Any]:
    """A seam as it is written to the provenance."""
    rounded = {name: float(f"{getattr(seam, name):.3g}") for name in ("metres", "degrees")}
    return seam._asdict() | rounded


def warnings_of(seams: list[Seam], valid: np.ndarray, raw: np.ndarray) -> list[str]:
    """What the user is warned of.

    Args:
        valid, raw: bool and u1 (frame,), whether the poses and the raw sweeps are valid.
    """
    warnings = []
    for seam in seams:
        if not seam.connected:
            warnings.append(
                f"frame {seam.frame}: the parts that meet here have seen nothing in common; only those on one side are "
                "trusted"
            )
        elif not (seam.metres <= _WIDE_SEAM[0] and seam.degrees <= _WIDE_SEAM[1]):
            warnings.append(
                f"frame {seam.frame}: the parts that meet here differ by {seam.metres:.3f} m and {seam.degrees:.2f} "
                "degrees; a longer odometry.overlap may help"
            )
    lost = int((~valid & (raw != 0)).sum())
    if lost:
        warnings.append(f"{lost} of {len(valid)} sweeps are not to be trusted: see inliers, residual and information")
    return warnings
