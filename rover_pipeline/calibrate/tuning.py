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
    #: Directions that are tried for each echo, numbers of sines of azimuth and elevation.
    azimuths: int = 65
    elevations: int = 13
    #: Maximum sine of an elevation that is tried.
    max_elevation: float = 0.6
    #: Iterations of directions and gains.
    iterations: int = 15
    #: Steps from the tried direction that Doppler and phases agree on to the one that fits the phases best.
    climb_steps: int = 3
    #: How much the fit of the array counts against the Doppler, as the inverse of the share of an echo's power that
    #: errors of the array may explain: at the start those of an array without calibration, at the end those of one
    #: with it.
    fit_weight: tuple[float, float] = (20.0, 100.0)
    #: Minimum share of unexplained power in the weight of an echo, against echoes that decide alone, and the maximum
    #: one of an echo that counts at all, against cells with two targets.
    min_unexplained: float = 0.01
    max_unexplained: float = 0.5
    #: Prior standard deviations of the spacing (relative; what a board is built to), and of a turn of the array (sine),
    #: against both where the Doppler does not determine them.
    spacing_prior: float = 0.02
    turn_prior: float = 0.3
    #: Systematic part of the standard deviations of both, against ones that are too small: what the odometry's velocity
    #: is wrong by in scale, and in direction with the radar's mounting.
    systematic: float = 0.002
    #: Phase that clutter 30 dB below a single reflector can shift each antenna by, radians, against standard deviations
    #: that become zero with many frames: it is the same in all of them.
    clutter_phase: float = 0.03
    #: Minimum number of echoes in a direct fit of the gains whose scatter gives the standard deviations.
    min_scatter: int = 8

    # --- Recordings and their echoes (`radar`) ---
    #: Frames of a recording that are used, evenly spread, and those that the coupling is estimated from.
    frames: int = 80
    coupling_frames: int = 16
    #: Of each frame the strongest echoes.
    frame_echoes: int = 20
    #: Minimum speed at which Doppler gives directions, m/s, and the share of the largest Doppler that is not aliased.
    min_speed: float = 0.3
    unaliased: float = 0.9
    #: Standard deviation of the odometry's velocity, m/s.
    velocity_sd: float = 0.01
    #: Minimum number of echoes of a calibration from a recording, and the maximum standard deviation of a phase,
    #: degrees, against calibrations that are worse than none.
    min_echoes: int = 100
    max_phase_sd_deg: float = 10.0
    #: Distance from the stated one within which a reflector is searched, m, against other targets.
    near_m: float = 0.3


TUNING = Tuning()
