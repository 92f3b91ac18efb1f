"""Quality of the poses: which are valid, which are in one world, and what the user is warned of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.refinement import Batch
from rover_pipeline.odometry.segments import Seam

#: Differences of two segments at a seam above which the user is warned, metres and degrees.
_WIDE_SEAM = 0.05, 0.5
#: Residual of a sweep, relative to the median of the recording, above which the sweep does not fit.
_WORSE_THAN_MEDIAN = 2.0


class Quality(NamedTuple):
    """How well the sweep of each frame fits the map of other sweeps; NaN where no sweep was used.

    Attributes:
        inliers: f8 (frame,), fraction of points on planes.
        residual: f8 (frame,), root mean square of their distances, metres.
        information: f8 (frame,), smallest eigenvalue of the information matrix, 1/m2.
        error: f8 (frame,), standard deviation of the position in its least certain direction, metres.
    """

    inliers: np.ndarray
    residual: np.ndarray
    information: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, batch: Batch, cov: np.ndarray) -> Quality:
        """Of a trajectory and the covariances of its poses, f8 (frame, 6, 6)."""
        inliers, residual, *_ = np.array(batch.fits).T
        information = np.array([_smallest(matrix) for matrix in batch.information])
        error = np.sqrt(np.linalg.eigvalsh(cov[:, :3, :3])[:, -1])
        return cls(inliers, residual, np.where(np.isfinite(inliers), information, np.nan), error)

    def valid(self, options: OdometrySection) -> np.ndarray:
        """Which frames are as good as the options demand, bool (frame,)."""
        limit = options.max_residual
        if limit is None:
            limit = _WORSE_THAN_MEDIAN * float(np.nanmedian([*self.residual, np.inf]))
        return (
            (self.inliers >= options.min_inliers)
            & (self.residual <= limit)
            & (self.error <= options.max_error)
            & (self.information >= options.max_error**-2)
        )

    def usable_for_loops(self, options: OdometrySection) -> np.ndarray:
        """Which frames may be part of local maps, bool (frame,). Drift makes their residuals large."""
        return (self.inliers >= options.min_inliers) & (self.information > 0)


def _smallest(information: np.ndarray) -> float:
    """Smallest eigenvalue of the information, f8 (6, 6), of a displacement and a rotation, 1/m2."""
    if not np.isfinite(information).all():
        return np.nan
    # A rotation moves a point by its distance times the angle. The mean distance makes both units the same.
    distance = np.sqrt(max(np.trace(information[3:, 3:]), 1e-12) / max(np.trace(information[:3, :3]), 1e-12))
    scale = np.array([1.0] * 3 + [1 / distance] * 3)
    return float(max(np.linalg.eigvalsh(information * scale[:, None] * scale)[0], 0.0))


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
    # A seam at a gap shares no frame.
    values = {name: getattr(seam, name) for name in ("metres", "degrees")}
    return seam._asdict() | {
        name: float(f"{value:.3g}") if np.isfinite(value) else None for name, value in values.items()
    }


def warnings_of(seams: list[Seam], valid: np.ndarray, raw: np.ndarray) -> list[str]:
    """What the user is warned of.

    Args:
        valid, raw: bool and u1 (frame,), whether the poses and the raw sweeps are valid.
    """
    warnings = []
    for seam in seams:
        if not seam.connected:
            warnings.append(
                f"frame {seam.frame}: the parts that meet here have seen nothing in common that tells how they lie to "
                "one another; only those on one side are trusted"
            )
        elif seam.metres > _WIDE_SEAM[0] or seam.degrees > _WIDE_SEAM[1]:
            warnings.append(
                f"frame {seam.frame}: the parts that meet here differ by {seam.metres:.3f} m and {seam.degrees:.2f} "
                "degrees; a longer odometry.overlap may help"
            )
    lost = int((~valid & (raw != 0)).sum())
    if lost:
        warnings.append(f"{lost} of {len(valid)} sweeps are not to be trusted: see inliers, residual and information")
    return warnings
