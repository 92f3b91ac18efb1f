"""The numbers of pictures that somebody chose, by hand, so that a reader sees what matters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Each number with what it guards against."""

    #: Maximum height of a surface that is drawn as floor, m, against a floor with the colours of obstacles.
    floor_m: float = 0.15
    #: Minimum height of a ceiling above the highest pose of the lidar, in a map, m: it hides the room from above.
    map_ceiling_m: float = 0.6
    #: Minimum height of a ceiling above the lidar, in a sweep, m: the same.
    sweep_ceiling_m: float = 1.0
    #: Share of the points at each end of an axis that do not count for the centre of a view: strays through windows.
    strays: float = 0.03
    #: Maximum ratio of signal to noise, dB: larger strengths have another unit.
    max_db: float = 80.0


TUNING = Tuning()
