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
    #: Difference between two valid speeds, m/s, beside the radar's deviations, that no error of either explains.
    contradiction_mps: float = 0.5

    # --- A look at samples ---
    #: Values of pixels that differ by no more than this are one colour: JPEG changes them by a little. Damages.
    one_colour: int = 6

    # --- Damaged values, which would stretch charts ---
    #: Maximum distance of a time stamp from the median of its sensor, s.
    max_distance_s: float = 30 * 86400.0


TUNING = Tuning()
