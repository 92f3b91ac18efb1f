"""Numbers of the radar that neither a standard nor a model of noise gives: they were tuned, on what each one says."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each number guards against something, and was tuned on it.

    "Fast" are simulated frames of `indoor`, `outdoor`, `smooth`, `crowd` and `bike` at 0.8 to 7 times the largest
    Doppler, of boards with 2 and 3 transmitters; "down" are synthetic frames of radars that look down, with 30 % of
    the points moving together. Those of the last sections were set by hand and are tested with the step that they are
    of. Logarithms are natural ones.
    """

    # --- Hypotheses of the radar's velocity (`ego_motion`, `velocity`) ---
    #: Span of the Doppler of targets that move, m/s: without it a fast velocity would explain any echoes. Down, fast.
    mover_span: float = 10.0
    #: Hypotheses that are refined and compared with the best one: one that is not refined looks worse. Down.
    compared: int = 4
    #: Largest vertical velocity over the level one: triples of wrong echoes give steep velocities. Down, to 40 degrees;
    #: without it a real radar carried by hand ends 55 cm from its start, not 52.
    steepest: float = 1.0

    # --- Doppler ambiguity (`points`) ---
    #: Evidence for each echo that a velocity needs: some echoes of any scene are at rest somewhere. Fast.
    evidence_per_echo: float = 2.0

    # --- Coupling of the antennas (`frames`), tuned on simulated boards and two real captures ---
    #: Step of the tones, bins: half a bin describes any delay between two tones. They go one beyond the reach.
    coupling_step: float = 0.5
    #: Ridge of the fit over the power of a tone: tones half a bin apart are nearly dependent.
    coupling_ridge: float = 1e-3

    # --- Before the frames (`prepare`), tuned on recordings of whole rooms ---
    #: Power over noise of echoes that show how far the array is from a perfect one (20 dB): the noise changes their
    #: phases by 4 degrees.
    strong_snr: float = 100.0
    #: Coherence below which an array without a calibration is named.
    incoherent: float = 0.85

    # --- Health of frames (`health`), tuned on simulated faults ---
    #: Power over that of the median antenna, dB, below which one is weak.
    weak_antenna_db: float = -6.0
    #: Iterations of the repair.
    repair_iterations: int = 12
    #: Parts that a chirp is divided into, and chirps of the same transmitter before and after one that it is compared
    #: with: interference can be found in a frame with more chirps than these.
    chirp_parts: int = 16
    neighbours: tuple[int, ...] = (-2, -1, 1, 2)

    # --- Points (`detect`, `boards`, `frames`, `timing`), by hand ---
    #: A Doppler sidelobe may have this many times the power of the window's envelope: a moving target spreads.
    sidelobe_margin: float = 4.0
    #: Intervals of beams for each column and row of the array, equally spaced in the sine: fine enough to refine the
    #: strongest beam by a parabola. Ambiguity numbers are compared with every second one, and two targets in a cell are
    #: as far apart at least.
    beam_steps: int = 8
    #: Distance within which the coupling seems to be, m: leads, package and radome, and no objects beyond.
    coupling_reach_m: float = 0.15
    #: Duration of a frame over the mean time between frames up to which it can be right. Lost frames make the mean too
    #: long; only jitter makes it too short.
    max_duration: float = 1.05

    # --- Velocity (`velocity`, `points`), by hand ---
    #: Systematic standard deviation of the speed, as a share of it, of arrays with rows and without, against
    #: covariances that many points make too small: directions that are wrong in the same way (spacing, phases,
    #: elevations that are smaller than they look). The scale of an IMU is taken to be as uncertain as that of an array
    #: with rows: data sheets say 1 to 3 %.
    scale_error: float = 0.012
    scale_error_level: float = 0.03

    # --- Radar-inertial odometry (`inertial_odometry`), by hand ---
    #: Random walk of the gyroscope's bias, standard deviation after a second, rad/s. MEMS sensors that warm up.
    gyro_walk: float = 3e-4
    #: Standard deviation of the gyroscope's bias, rad/s. That at rest was removed before: one about the vertical is not
    #: seen by the radar.
    gyro_bias: float = 0.003
    #: Share of the radar's velocities that may contradict the IMU before nothing is believed.
    contradicted: float = 0.3

    @property
    def dead_antenna_db(self) -> float:
        """Power over that of the median antenna, dB, below which one is dead: even of strong echoes it has noise alone,
        which would be made as loud as the others' signal."""
        return -10 * math.log10(self.strong_snr)


TUNING = Tuning()
