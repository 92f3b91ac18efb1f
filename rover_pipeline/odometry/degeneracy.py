"""Directions that the surroundings leave open: along a tunnel or a bare corridor, over a flat field.

Floors and walls hold no information about a motion along them. Small bodies, and the noise of the planes, seem to hold
some, so that the information of all points hides it. The direction is that in which large planes alone have too little
information.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rover_pipeline.errors import counted
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import eigh, matmul
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.cross_validation import per_distance


def open_directions(
    large: np.ndarray, noise: float, state: State, among: np.ndarray, options: OdometrySection, world: np.ndarray
) -> tuple[dict[str, Any], np.ndarray]:
    """Directions that sweeps leave open, for the provenance: unit vectors in the world and in the lidar frame.

    Args:
        large: f8 (frame, 3, 6, 6), of `SweepInformation`.
        noise: variance of the points' distances, relative to the expected one; state: of the frames.
        among: bool (frame,), frames whose pose does not follow from large planes and is not trusted for it.
        options: `max_error`, the standard deviation from which on a direction is open, and `max_range`, the largest one
            that it is given: a lidar that sees something is no farther away.
        world: f8 (3, 3), rotation from the world of the trajectory into that of the result.

    Returns:
        The summary, empty where nothing is open; and f8 (frame, 6, 6), what is not known of a displacement and a
        rotation in the lidar frame, m and rad.
    """
    cov, sweeps, found = np.zeros((len(large), 6, 6)), [], []
    for number in np.flatnonzero(among).tolist():
        information = large[number, 0] / noise
        if not np.isfinite(information).all() or not information.any():
            continue
        scale = per_distance(information)
        values, vectors = eigh(information * scale[:, None] * scale)
        values, vectors = values[values < options.max_error**-2], vectors[:, values < options.max_error**-2]
        if not len(values):
            continue
        # The displacement of an information is in the world, its rotation in the lidar frame.
        into_lidar = np.eye(6)
        into_lidar[:3, :3] = state.rot[number].T
        vectors = matmul(into_lidar, vectors)
        sweeps.append(number)
        found.append([matmul(half, half.T) for half in (vectors[:3], vectors[3:])])
        axes = scale[:, None] * vectors
        cov[number] = matmul(axes / np.maximum(values, options.max_range**-2), axes.T)
    if not sweeps:
        return {}, cov
    summary, rot = {"sweeps": len(sweeps), "first": sweeps[0]}, matmul(world, state.rot[sweeps])
    for name, of_lidar in zip(("moves", "turns"), np.swapaxes(found, 0, 1), strict=True):
        of_world = matmul(rot, of_lidar, np.swapaxes(rot, 1, 2))
        for where, each in (("", of_world), ("_lidar", of_lidar)):
            summary[name + where] = (_axes(each).round(3) + 0.0).tolist()
    return summary, cov


def degeneracy_warnings(summary: dict[str, Any]) -> list[str]:
    """A line that names the directions; see `open_directions`."""
    if not summary:
        return []
    parts = []
    for what, name in (("a motion along", "moves"), ("a turn about", "turns")):
        if summary[name] or summary[f"{name}_lidar"]:
            parts.append(f"{what} {_text(summary[name], 'the world')}, {_text(summary[f'{name}_lidar'], 'the lidar')}")
    open_ones = "; ".join(parts) or "a motion whose direction changes"
    return [
        f"frame {summary['first']}: {counted(summary['sweeps'], 'sweep is', 'sweeps are')} degenerate: floors and "
        f"walls say nothing of {open_ones}; cov is large there"
    ]


def _axes(projections: np.ndarray) -> np.ndarray:
    """Unit vectors that most projections, f8 (K, 3, 3), keep, f8 (axis, 3), the largest component positive."""
    values, vectors = eigh(projections.mean(axis=0))
    axes = vectors.T[values > 0.5][::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return np.asarray(axes * np.sign(largest))


def _text(axes: Sequence[Sequence[float]], frame: str) -> str:
    if not axes:
        return f"no one axis of {frame}"
    return f"{' and '.join('({:.2f}, {:.2f}, {:.2f})'.format(*np.round(axis, 2) + 0.0) for axis in axes)} of {frame}"
