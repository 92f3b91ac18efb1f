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
    #: Maximum length of a sweep over the interval between sweeps, against units that are a thousand times too large:
    #: a sweep takes no longer than the interval, but for jitter.
    max_sweep: float = 1.5
    #: Maximum share of stamps that repeat or come late, against headers that do not hold the time of measurement, and
    #: of a sweep that is lost or lacks at an end, against sweeps with a hole that are taken for whole ones.
    max_odd: float = 0.01
    #: A message that was recorded this many messages of its topic too late is still put in order.
    max_late: int = 64

    # --- Frames ---
    #: Maximum difference of equal transforms, m and parts of a quaternion, and of a rotation times its transpose from
    #: the identity: rounding by publishers.
    rounding: float = 1e-6
    #: Of the transforms that move, every one in so many is read after as many readings: one that moves later, and only
    #: for a short time, is not seen.
    every_transform: int = 50

    # --- Radar ---
    #: Maximum number of points of a radar's frame, against lidars that measure Doppler too.
    max_radar_points: int = 8192
    #: Maximum distance of a Doppler from a multiple of the step, in steps, against values that are not quantised.
    quantised: float = 0.05
    #: Minimum number of measurements for each different value, against values that are not quantised.
    min_repeated: int = 3

    # --- Other sensors ---
    #: Mean acceleration in g of a device at rest or in any vehicle, against units that are not m/s2.
    gravity_range: tuple[float, float] = (0.8, 1.2)
    #: JPEGs that are decoded, which shows damage that their markers do not show: as many first ones, and every so many.
    #: To decode all would take ten times as long as the whole import.
    every_decoded: int = 8
    #: Quality of the JPEGs that pictures of other encodings become, against visible losses.
    jpeg_quality: int = 95


TUNING = Tuning()
