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
    #: Maximum span of the colours of power below the strongest cell, dB, where the noise is lower still.
    span_db: float = 70.0
    #: Heights in the frame of the lidar with the first and the last colour, m.
    heights: tuple[float, float] = (-1.8, 1.5)
    #: Radial speed from which on the colour of a point does not change any more, m/s: that of a walk.
    full_speed: float = 1.0
    #: Maximum ratio of signal to noise, dB: larger strengths have another unit.
    max_db: float = 80.0
    #: Quality of WebP pictures, 0 to 100, against pages too large to be sent.
    webp_quality: int = 82


TUNING = Tuning()
