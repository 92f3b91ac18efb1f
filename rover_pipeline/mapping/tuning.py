"""Numbers of the map that neither a format nor a model of noise gives, each with what it guards against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The tuned numbers, set by hand. Headings name what they serve and, where it is known, on what they were tried."""

    # --- Sweeps from which the floor, and the pixels of a lidar of points, are estimated (`sweeps`) ---
    #: Their number, against single sweeps that do not show it.
    spread_sweeps: int = 8

    # --- The floor (`floor`), tried on simulated flats and streets ---
    #: Largest horizontal distance of a point of the floor, m, against ground that falls or rises farther away.
    floor_range_m: float = 15.0
    #: Half the thickness of the plane, m. In a thicker one a tilted plane would fit a road and its pavements together.
    floor_inlier_m: float = 0.03
    #: Minimum fraction of the points below the lidar that must be inliers, against planes where there is no floor.
    min_floor_inliers: float = 0.1

    # --- Mirrors (`mirrors`), tried on simulated halls, flats and bushes ---
    #: Edge of the cells that are compared, m: larger than the errors of a map, smaller than a chair.
    edge_m: float = 0.2
    #: Cells along the edge of a window, and largest share of the variance within it across a line that is a wall.
    window: int = 11
    max_across: float = 0.12
    #: Step of the direction of planes, degrees: half of it displaces what is 10 m away by a cell.
    step_deg: float = 2.0
    #: Number of planes that are compared closely: those about which the map is most symmetric.
    candidates: int = 5
    #: Distances by which the cells behind a plane are moved for comparison: from, to and step, m. Equal pillars or
    #: desks in rows are symmetric about many planes, but then they are also found where they are moved to.
    moved_m: tuple[float, float, float] = (0.75, 16.0, 0.25)
    #: How many times more cells the mirror image has to explain than any motion: any bush explains a tenth of another
    #: one, also where it is moved to.
    min_ratio: float = 2.0

    # --- Removal of what moves (`mirrors`) ---
    #: What boxes are larger than they say, m, on each side and above: they end at the outermost returns that were seen.
    margin_m: float = 0.15
    #: Lowest part of a box that is kept, m: the ground below a body.
    ground_m: float = 0.1


TUNING = Tuning()
