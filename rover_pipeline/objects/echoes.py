"""Radial velocities that the radar measured of bodies that are tracked by the lidar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.objects.bodies import Body
from rover_pipeline.objects.smoothing import Measurements
from rover_pipeline.objects.tuning import TUNING

#: Differences of more standard deviations are those of another body, or of something that stands.
#: Noise: normal distribution, 99.7 %.
_GATE = 3.0
#: Standard deviation of the direction of a point of a radar with some antennas, rad. Tuned: by hand.
_AZIMUTH_SD = 0.05


class Echoes(NamedTuple):
    """Points of the radar, in the order of their times.

    Attributes:
        time: f8 (N,), s.
        place: f8 (N, 2), x and y in the world, m.
        direction: f8 (N, 2), horizontal part of the unit vector from the radar to the point, in the world.
        speed: f8 (N,), m/s, at which the point moves away from where the radar is, over ground.
        distance: f8 (N,), m, from the radar.
        ambiguity: m/s; speeds are known up to multiples of it. 0 = it is not known, and none may be used.
    """

    time: np.ndarray
    place: np.ndarray
    direction: np.ndarray
    speed: np.ndarray
    distance: np.ndarray
    ambiguity: float

    @staticmethod
    def of(
        points: Mapping[str, np.ndarray],
        instants: np.ndarray,
        trajectory: Trajectory,
        mount: Mount,
        max_doppler: float | None,
        origin: float,
    ) -> Echoes:
        """The points of all frames that are valid and whose pose is known.

        Args:
            points: channels of `_radar_points`.
            instants: f8 (frame,), s, when each frame was measured.
            trajectory: of the lidar, in the world.
            mount: the radar's pose in the lidar frame.
            max_doppler: largest unambiguous radial speed, m/s.
            origin: s, time that all times are counted from.
        """
        states, known = trajectory.at(instants, mount)
        listed = np.arange(points["doppler"].shape[1]) < points["count"][:, None]
        frame, row = np.nonzero(listed & known[:, None] & (points["valid"] != 0)[:, None])
        xyz, doppler = points["xyz"][frame, row].astype("f8"), points["doppler"][frame, row].astype("f8")
        usable = np.isfinite(xyz).all(axis=1) & np.isfinite(doppler)
        frame, xyz, doppler = frame[usable], xyz[usable], doppler[usable]
        turned = np.einsum("nij,nj->ni", states.rot[frame], xyz)
        distance = np.linalg.norm(xyz, axis=1)
        direction = turned / np.maximum(distance, 1e-6)[:, None]
        speed = doppler + np.einsum("ni,ni->n", states.vel[frame], direction)
        place = (states.pos[frame] + turned)[:, :2]
        order = np.argsort(instants[frame], kind="stable")
        time, ambiguity = instants[frame] - origin, 2 * (max_doppler or 0.0)
        return Echoes(time[order], place[order], direction[order, :2], speed[order], distance[order], ambiguity)

    def of_body(self, body: Body, times: np.ndarray) -> Measurements | None:
        """The radial velocities of a body, as measurements of its motion; None if there are none.

        Args:
            body: as estimated from the lidar alone; times: f8 (N,), s, of its samples.
        """
        if not self.ambiguity or len(times) < 2:
            return None
        part = slice(np.searchsorted(self.time, times[0]), np.searchsorted(self.time, times[-1], side="right"))
        time, place, direction = self.time[part], self.place[part], self.direction[part]
        speed, distance = self.speed[part], self.distance[part]
        near = body.near(times, time, place, 2 * TUNING.surface_m + _AZIMUTH_SD * distance)
        vel = np.column_stack([np.interp(time, times, body.vel[:, axis]) for axis in range(2)])
        expected = np.einsum("ni,ni->n", vel, direction)
        # The multiple of the ambiguity is that which is nearest to the lidar's estimate.
        more = speed - expected
        more = more - self.ambiguity * np.round(more / self.ambiguity)
        # What stands in the background has a speed of its own: zero. It is no body's when the body is faster.
        stands = np.abs(speed - self.ambiguity * np.round(speed / self.ambiguity)) < np.abs(more)
        used = near & ~stands & (np.abs(more) < min(_GATE * TUNING.radial_sd, self.ambiguity / 2))
        if not used.any():
            return None
        # Points of one frame are of one motion: together they weigh as much as one.
        _, frame, size = np.unique(time[used], return_inverse=True, return_counts=True)
        variance = TUNING.radial_sd**2 * size[frame]
        return Measurements.radial(time[used], (expected + more)[used], variance, direction[used])
