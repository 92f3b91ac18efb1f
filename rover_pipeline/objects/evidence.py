"""Evidence that a point belongs to something that moves: at another time the lidar looked through its place.

A return says that its beam passed freely up to it. A place that a beam passed some seconds before or after holds
something now, so that it has come or will go. A place that was hidden, or that no beam looked at, gives no evidence:
what comes into view behind a corner, or is seen from another side, is no mover (Pomerleau et al., Long-term 3D map
maintenance in dynamic environments, ICRA 2014; Kim and Kim, Remove, then revert, IROS 2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.geometry import destagger, rays, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.objects.tuning import TUNING

#: Steps of the table of elevations. Layout.
_ELEVATIONS = 8192
#: Labels of points. Layout.
STANDING, UNKNOWN, MOVING = range(3)


class View(NamedTuple):
    """The directions of the pixels of destaggered images.

    Attributes:
        first: azimuth of column 0, rad, to the left; columns go to the right.
        beam: i4 (step of elevation,), the beam nearest to an elevation; -1 = no beam looks there.
        step: angle between neighbouring columns, rad.
    """

    first: float
    beam: np.ndarray
    step: float

    @staticmethod
    def of(metadata: str) -> View:
        """The view of the sensor of a `lidar.json`."""
        _, direction = rays(metadata)
        info = sensor_info(metadata)
        unit = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
        x, y, z = (destagger(np.ascontiguousarray(unit[None, ..., axis]), info)[0] for axis in range(3))
        azimuth = np.arctan2(y, x)
        columns = azimuth.shape[1]
        turned = np.exp(1j * (azimuth + 2 * np.pi * np.arange(columns) / columns))
        elevation = np.arcsin(z).mean(axis=1)
        order = np.argsort(elevation, kind="stable")
        angles = (np.arange(_ELEVATIONS) + 0.5) / _ELEVATIONS * np.pi - np.pi / 2
        near = np.clip(np.searchsorted(elevation[order], angles), 1, max(1, len(order) - 1))
        low, high = order[near - 1], order[np.minimum(near, len(order) - 1)]
        beam = np.where(np.abs(elevation[low] - angles) < np.abs(elevation[high] - angles), low, high)
        spacing = np.ptp(elevation) / max(1, len(order) - 1)
        outside = np.abs(elevation[beam] - angles) > 2 * spacing
        beam[outside & ((angles < elevation.min()) | (angles > elevation.max()))] = -1
        return View(float(np.angle(turned.mean())), beam.astype("i4"), 2 * np.pi / columns)


class Look(NamedTuple):
    """A sweep that places of other sweeps are looked for in.

    Attributes:
        time: of the sweep, s; span: longest time before and after it for which it gives evidence, s.
        rng: u2 (beam, column), mm, destaggered.
        poses: of the lidar at the columns, in the world.
    """

    time: float
    span: float
    rng: np.ndarray
    poses: Poses


def votes(points: np.ndarray, looks: list[Look], view: View) -> np.ndarray:
    """How often each place was seen to be free, and how often a surface was seen there.

    Args:
        points: f8 (N, 3), m, in the world.

    Returns:
        u2 (N, 2).
    """
    counts = np.zeros((len(points), 2), "u2")
    for look in looks:
        _vote(points, look.rng, look.poses.rot, look.poses.pos, view.first, view.beam, counts)
    return counts


def labels(counts: np.ndarray) -> np.ndarray:
    """STANDING, UNKNOWN or MOVING for each point, u1 (N,), from its votes, (N, 2)."""
    free, same = counts.astype("i4").T
    moving = (free >= TUNING.min_looks) & (free > 2 * same)
    return np.where(moving, MOVING, np.where(same >= np.maximum(1, free), STANDING, UNKNOWN)).astype("u1")


@compiled
def _vote(
    points: np.ndarray,
    rng: np.ndarray,
    rot: np.ndarray,
    pos: np.ndarray,
    first: float,
    beam_of: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Adds what one sweep says about places.

    A window with a return at the distance of the point shows a surface there. One that has at least as many returns as
    one of its rows has pixels, the nearest of them behind the point, shows that the place is free. Any other one, such
    as one with something nearer, or a surface that the beams graze, gives no evidence.
    """
    beams, columns = rng.shape
    per_column = columns / (2 * np.pi)
    steps = len(beam_of)
    for n in range(len(points)):
        c, beam, distance = columns // 2, -1, 0.0
        for _ in range(2):  # the pose is that of the column, which follows from the pose
            dx, dy, dz = points[n, 0] - pos[c, 0], points[n, 1] - pos[c, 1], points[n, 2] - pos[c, 2]
            x = rot[c, 0, 0] * dx + rot[c, 1, 0] * dy + rot[c, 2, 0] * dz
            y = rot[c, 0, 1] * dx + rot[c, 1, 1] * dy + rot[c, 2, 1] * dz
            z = rot[c, 0, 2] * dx + rot[c, 1, 2] * dy + rot[c, 2, 2] * dz
            distance = np.sqrt(x * x + y * y + z * z)
            if distance < 0.3:
                break
            c = int(np.floor((first - np.arctan2(y, x)) * per_column + 0.5)) % columns
            beam = beam_of[min(steps - 1, max(0, int((np.arcsin(z / distance) / np.pi + 0.5) * steps)))]
        if beam < 0 or distance < 0.3:
            continue
        same = TUNING.surface_m + TUNING.surface_share * distance
        nearest, returns, surface = np.inf, 0, False
        for b in range(max(0, beam - TUNING.window_beams), min(beams, beam + TUNING.window_beams + 1)):
            for k in range(c - TUNING.window_columns, c + TUNING.window_columns + 1):
                value = rng[b, k % columns]
                if value == 0 or value == CLIPPED:
                    continue
                returns += 1
                metres = 0.001 * value
                nearest = min(nearest, metres)
                if abs(metres - distance) <= same:
                    surface = True
        if surface:
            counts[n, 1] += 1
        elif returns > 2 * TUNING.window_columns and nearest > distance + 2 * same:
            counts[n, 0] += 1
