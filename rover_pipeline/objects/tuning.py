"""The numbers of `_objects` that were tuned, each with what it guards against.

They were tuned on simulated streets, crowds and rides, and are one choice for all recordings: the figures of
`docs/sensors/objects.md` hold for these. Those that say "by hand", also elsewhere, were not tuned on these scenes.
"""

from __future__ import annotations

from typing import NamedTuple


class Typical(NamedTuple):
    """The middle of a class, m or m/s, and the factor by which two of three differ from it at most."""

    middle: float
    factor: float


class Class(NamedTuple):
    """What bodies of a class are like."""

    length: Typical
    width: Typical
    height: Typical
    speed: Typical


#: Sizes are those of clusters, of which beams see a part. Cars: segments B to D of the European market, and vans.
#: Pedestrians walk at 1.3 m/s (Bohannon, 1997). Cyclists ride at 3 to 7 m/s. Tuned: by hand.
TYPICAL = {
    "car": Class(Typical(4.0, 1.35), Typical(1.75, 1.25), Typical(1.5, 1.25), Typical(7.0, 2.0)),
    "pedestrian": Class(Typical(0.45, 1.6), Typical(0.5, 1.6), Typical(1.7, 1.15), Typical(1.2, 1.6)),
    "cyclist": Class(Typical(1.6, 1.3), Typical(0.55, 1.5), Typical(1.7, 1.15), Typical(4.5, 1.5)),
}
#: Length of a long car, m.
LONG_CAR_M = TYPICAL["car"].length.middle * TYPICAL["car"].length.factor
#: Length from which a body may be seen in parts, m: walkers and most of a cyclist are shorter.
LONG_M = TYPICAL["cyclist"].length.middle


class Tuning(NamedTuple):
    """The tuned numbers, in the order of the steps."""

    # Evidence that a place was free, or that a surface was there.
    #: Ranges of one surface differ by at most this, m, and the share of the range: errors of ranges and poses, rough
    #: surfaces. What is twice as far away is another surface. An end of a cluster this near to a point that has
    #: something nearer beside it may be hidden.
    surface_m: float = 0.15
    surface_share: float = 0.005
    #: Half of the window of pixels around a direction: beams of two sweeps do not hit quite the same places. A place is
    #: free only if the window has as many returns as one of its rows has pixels, against beams that were lost there.
    window_beams: int = 1
    window_columns: int = 2

    # Clusters.
    #: Gap within a cluster, in distances between neighbouring columns, against cars that fall apart far away.
    gap_columns: float = 3.0
    #: The same along the line of sight, as a share of the range: beams graze roofs and sides, and hit them in places.
    gap_grazed: float = 0.03
    #: Maximum gap within a cluster, m, against people far away who walk side by side and become one body.
    max_gap_m: float = 1.2
    #: Minimum share of points in free places, against shadows and surfaces that come into view.
    moving_share: float = 0.5

    # Tracks.
    #: Power spectral density of the acceleration, m2/s3, against tracks that lose a body which turns or brakes.
    track_noise: float = 4.0
    #: Number of sweeps without a cluster behind which a track is cut, against one that took another body there.
    gap_sweeps: int = 2

    # Boxes and motions.
    #: Standard deviations of an end of a body, m, and of what is hidden of it as a share of its length.
    end_sd: float = 0.06
    size_share: float = 0.1
    #: Standard deviation of an expected middle, m: how well the motion predicts which end of a body is seen.
    match_sd: float = 0.25
    #: Relative probability that an end of a cluster is one of the body when something may hide what goes on there, or
    #: when it is turned away from the lidar.
    hidden_end_prior: float = 0.25
    #: Standard deviation of a middle that is measured from an end which looks like one of the body, m; and its limit as
    #: a share of what is hidden, above that of a uniform distribution, because errors of neighbouring sweeps are alike.
    end_doubt: float = 0.095
    unknown_share: float = 3.0
    #: Width of a line of points, m, and its minimum length, m, against corners taken for sides.
    line_width_m: float = 0.08
    min_line_m: float = 1.0
    #: Standard deviation of the direction of a side in its body, rad: sides are a little curved.
    side_sd: float = 0.017
    #: Minimum speed of a motion that gives a direction or a class, m/s, against headings that follow the noise.
    min_speed: float = 0.5
    #: Standard deviation of a radial velocity of the radar, m/s: limbs and wheels move otherwise than the body.
    radial_sd: float = 0.4


TUNING = Tuning()
