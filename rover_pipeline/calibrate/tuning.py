"""Numbers of the calibration that neither a standard nor a model of noise gives, each with what it guards against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The tuned numbers, by what they serve.

    All were set by hand, and tested together on simulated recordings of boards whose errors are known:
    `tests/radar/test_calibration.py`.
    """

    # --- Gains and directions of echoes (`array`) ---
    #: Phase that clutter 30 dB below a single reflector can shift each antenna by, radians, against standard deviations
    #: that become zero with many frames: it is the same in all of them.
    clutter_phase: float = 0.03

    # --- Recordings and their echoes (`radar`) ---
    #: Frames of a recording that are used, evenly spread.
    frames: int = 80
    #: Of each frame the strongest echoes.
    frame_echoes: int = 20
    #: Minimum number of echoes for each antenna, or each unknown of a mount in each half, with fewer of which the scale
    #: of their errors is not known.
    min_echoes: int = 9
    #: Distance from the stated one within which a reflector is searched, m, against other targets.
    near_m: float = 0.3


TUNING = Tuning()
