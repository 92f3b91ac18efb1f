"""The numbers of exports that no format gives: somebody chose them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """All were chosen by hand. Each says what it guards against."""

    # --- EdgeFirst ---
    #: Maximum stored amplitude of the frames that the scale of cubes is found from: 12 dB below the limit of int16,
    #: against clipping in the others.
    cube_amplitude: float = 8192.0
    #: Maximum distance of a point, m, against files in another byte order: no radar or lidar sees as far.
    max_range_m: float = 1000.0

    # --- l5kit ---
    #: Maximum speed of the rig, m/s, against poses that are wrong: nothing that carries the sensors is so fast.
    max_speed: float = 60.0

    # --- rslearn ---
    #: Minimum distance between two corners of a line, m, against lines whose corners are all at one place: not valid.
    line_step_m: float = 0.02

    # --- Boxes in pictures ---
    #: Points along each edge of a box whose projections bound it, against edges that the lens bends.
    edge_points: int = 5
    #: Minimum depth of a point that is projected, m, against a division by nearly zero.
    min_depth_m: float = 0.1

    # --- MP4 ---
    #: Maximum length of a video, s, against recordings in which the clock was set.
    max_video_s: float = 86400.0
    #: Maximum age of a sample that is shown, s, against pictures that stand still after their sensor stopped.
    max_age_s: float = 0.5


TUNING = Tuning()
