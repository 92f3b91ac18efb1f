"""The numbers of imports that no format gives: somebody chose them."""

from __future__ import annotations

from dataclasses import dataclass

#: By how much the beams of KITTI's HDL-64E point higher than its published points say, degrees.
#: Noise: the drives of KITTI, P. Dellenbach et al., CT-ICP, ICRA 2022.
KITTI_ELEVATION_DEG = 0.205


@dataclass(frozen=True)
class Tuning:
    """Each says what it guards against. All were chosen by hand."""

    # --- Times and clocks ---
    #: Maximum time of a point relative to its sweep, and maximum difference of absolute times from the header and of
    #: the offsets of headers, s, against topics and points that are dated by another clock.
    same_clock_s: float = 1.0
    #: Maximum share of stamps that repeat or come late, against headers that do not hold the time of measurement, and
    #: of a sweep that is lost or lacks at an end, against sweeps with a hole that are taken for whole ones.
    max_odd: float = 0.01
    #: A message that was recorded this many messages of its topic too late is still put in order.
    max_late: int = 64

    # --- Radar ---
    #: Maximum number of points of a radar's frame, against lidars that measure Doppler too.
    max_radar_points: int = 8192

    # --- Other sensors ---
    #: Mean acceleration in g of a device at rest or in any vehicle, against units that are not m/s2.
    gravity_range: tuple[float, float] = (0.8, 1.2)


TUNING = Tuning()
