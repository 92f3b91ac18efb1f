"""Paces: how much of a path is covered at a time, for the rig and for those who walk along with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rover_pipeline.simulate.motion.jet import Jet


@dataclass(frozen=True)
class Pace:
    """A rest, a smooth start, and a constant speed from then on.

    Attributes:
        speed: m/s after the start.
        stand: seconds at rest at the start.
        spin_up: seconds from rest to full speed.
    """

    speed: float
    stand: float = 1.0
    spin_up: float = 1.5

    def arc_length(self, time: np.ndarray) -> Jet:
        """Arc length covered. The speed rises as the quintic smooth step, so that even the jerk is continuous."""
        x = np.clip((time - self.stand) / self.spin_up, 0.0, 1.0)
        at_full_speed = np.maximum(time - self.stand - self.spin_up, 0.0)
        return Jet(
            self.speed * (self.spin_up * x**4 * (2.5 - 3 * x + x * x) + at_full_speed),
            self.speed * x**3 * (10 - 15 * x + 6 * x * x),
            self.speed * 30 * x**2 * (1 - x) ** 2 / self.spin_up,
        )
