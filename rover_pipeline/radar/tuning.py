"""Numbers of the radar that neither a standard nor a model of noise gives: they were tuned, on what each one says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each number guards against something, and was tuned on it.

    "Fast" are simulated frames of `indoor`, `outdoor`, `smooth`, `crowd` and `bike` at 0.8 to 7 times the largest
    Doppler, of boards with 2 and 3 transmitters; "down" are synthetic frames of radars that look down, with 30 % of
    the points moving together. Logarithms are natural ones.
    """

    # --- Hypotheses of the radar's velocity (`ego_motion`, `velocity`) ---
    #: Span of the Doppler of targets that move, m/s: without it a fast velocity would explain any echoes. Down, fast.
    mover_span: float = 10.0
    #: Hypotheses that are refined and compared with the best one: one that is not refined looks worse. Down.
    compared: int = 4
    #: Volume of the smallest triple of directions, of three 6 degrees apart: smaller ones multiply errors. Down.
    least_volume: float = 1e-3
    #: Largest vertical velocity over the level one: triples of wrong echoes give steep velocities. Down, to 40 degrees.
    steepest: float = 1.0
    #: Standard deviation, m/s, and largest weight of the odometry's velocity: odometry may have diverged. Unit tests.
    guide_sigma: float = 0.2
    guide_evidence: float = 25.0
    #: Speed over the largest unambiguous one up to which an estimate can be valid: echoes ahead are lost first. Fast.
    speed_slack: float = 1.1

    # --- Doppler ambiguity (`unfold`) ---
    #: Ambiguity numbers beyond those of a target that are tried for the radar's velocity, which may be faster. Fast.
    ambiguities_beyond: int = 3
    #: Fewest echoes that determine a velocity, or the misfit of the array, by chance not otherwise. Unit tests.
    fewest_echoes: int = 4
    #: Echoes that are at rest at no velocity, from which on phases alone are not believed: too fast a radar. Fast.
    many_echoes: int = 16
    #: Evidence that a velocity needs in all and for each echo: some echoes of any scene are at rest somewhere. Fast.
    least_evidence: float = 12.0
    evidence_per_echo: float = 1.3
    #: Evidence of a competing velocity, as a share, above which ambiguity numbers must agree with it too. Fast.
    competing_share: float = 0.6
    #: Factor of the errors of echoes when ambiguity numbers are decided: a crowd looks static at another number. Fast.
    widened: float = 2.0
    #: Logarithm of the odds from which on an ambiguity number is certain (50 to 1). Fast.
    certain: float = 3.9
    #: Most that phases say, as a logarithm: ghosts and second targets mislead them in one cell of some hundred. Fast.
    implausible: float = 6.0
    #: Share of an echo's power that an array leaves unexplained: at least, where no echo is strong, and their SNR.
    least_misfit: float = 0.02
    assumed_misfit: float = 0.1
    strong_snr: float = 30.0


TUNING = Tuning()
