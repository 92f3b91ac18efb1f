"""The numbers from which `check` reports something, and those of comparisons, that no source gives: by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each number with what it guards against."""

    # --- Errors of a trajectory (`accuracy`) ---
    #: Time between the vertices that the length of a path is summed over, s, against noise of poses that adds length.
    vertex_s: float = 0.3

    # --- Contradictions (`contradiction`) ---
    #: Probability of a false alarm, of a contradiction and of the choice of the one that is wrong.
    false_alarm: float = 1e-6
    #: Acceleration that no rig has for a second, m/s2, above which a reference is wrong.
    impossible: float = 20.0


TUNING = Tuning()
