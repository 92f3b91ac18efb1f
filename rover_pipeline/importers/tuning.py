"""The numbers of imports that no format gives: somebody chose them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each says what it guards against. They were chosen by hand, but for the one of KITTI."""

    # --- Times and clocks ---
    #: Maximum time of a point relative to its sweep, and maximum difference of absolute times from the header, s,
    #: against points that are dated by another clock than the header.
    same_clock_s: float = 2.0
    #: Maximum length of a sweep over the interval between sweeps, against units that are a thousand times too large:
    #: a sweep takes no longer than the interval, but for jitter.
    max_sweep: float = 1.5
    #: Maximum difference between the offsets of headers of one clock, ns, against topics of clocks that differ.
    same_clock_ns: int = 1_000_000_000
    #: Maximum share of stamps that repeat or come late, against headers that do not hold the time of measurement.
    max_odd: float = 0.01
    #: A message that was recorded this many messages of its topic too late is still put in order.
    max_late: int = 64

    # --- Frames ---
    #: Maximum difference of equal transforms, m and parts of a quaternion, against rounding by publishers.
    equal_transform: float = 1e-6
    #: Of the transforms that move, all of the first messages are read, and then every one in so many: one that moves
    #: later, and only for a short time, is not seen.
    all_transforms: int = 2000
    every_transform: int = 50
    #: Maximum difference of a rotation times its transpose from the identity, against matrices that are no rotations.
    max_obliqueness: float = 1e-6

    # --- Radar ---
    #: Maximum time within a chirp, us: far beyond any chip, against numbers that are no waveform.
    max_chirp_us: float = 1e6
    #: Maximum number of points of a radar's frame, against lidars that measure Doppler too.
    max_radar_points: int = 8192
    #: Maximum distance of a Doppler from a multiple of the step, in steps, against values that are not quantised.
    quantised: float = 0.05
    #: Minimum number of measurements for each different value, against values that are not quantised.
    min_repeated: int = 3
    #: Values that differ by less than this share of the largest one are the same: they have 24 bits.
    equal_share: float = 1e-5
    #: Number of different values after which no more are collected.
    values: int = 4096

    # --- Other sensors ---
    #: Mean acceleration in g of a device at rest or in any vehicle, against units that are not m/s2.
    gravity_range: tuple[float, float] = (0.8, 1.2)
    #: By how much the beams of KITTI's HDL-64E point higher than its published points say, degrees: from CT-ICP
    #: (P. Dellenbach et al., ICRA 2022), which was tuned on KITTI.
    kitti_elevation_deg: float = 0.205
    #: JPEGs that are decoded, which shows damage that their markers do not show: the first ones, and every so many.
    #: To decode all would take ten times as long as the whole import.
    first_decoded: int = 8
    every_decoded: int = 8
    #: Quality of the JPEGs that pictures of other encodings become, against visible losses.
    jpeg_quality: int = 95

    # --- Velodyne ---
    #: Packets that the model and the usual time between packets are found from, against single damaged or late ones.
    packets: int = 64
    #: Azimuth that a whole sweep may lack at its ends, hundredths of a degree.
    max_lacking: int = 300
    #: Time before a packet over the usual time, above which packets before it are lost, against jitter.
    lost_factor: float = 1.9
    #: Maximum share of a sweep that may be lost, against sweeps with a hole that are taken for whole ones.
    max_lost: float = 0.01


TUNING = Tuning()
