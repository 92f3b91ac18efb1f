"""The numbers from which the page reports a finding, and those that keep damaged values out of its figures.

All were chosen by hand. Those with "damages" are tested with the damages of `tests/report/test_named_damage.py`. Limits
that a user may want to change are options of the section `report`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each number with what it guards against."""

    # --- Findings ---
    #: Share of invalid samples above which a sensor or a trajectory is of no use.
    max_invalid_share: float = 0.5
    #: A trajectory of so few sweeps has nothing to be checked against: that it is invalid is no error. And at least so
    #: many samples must be the same for a sensor to be called stuck. Damages.
    few: int = 3
    #: Difference between two valid speeds, m/s, beside the radar's deviations, that no error of either explains.
    contradiction_mps: float = 0.5
    #: Share of radar frames that contradict the odometry above which that is a finding, against single wrong frames.
    contradicted_share: float = 0.02

    # --- A look at samples ---
    #: Samples of a channel that are looked at, evenly spaced: the page must not decode them all. Damages.
    looked_at: int = 6
    #: Values of pixels that differ by no more than this are one colour: JPEG changes them by a little. Damages.
    one_colour: int = 6

    # --- Damaged values, which would stretch charts ---
    #: Maximum value of a channel in its unit, and distance in a picture of the radar, m: an axis beyond it cannot be
    #: drawn.
    max_value: float = 1e6
    #: Maximum distance of a time stamp from the median of its sensor, s.
    max_distance_s: float = 30 * 86400.0


TUNING = Tuning()
