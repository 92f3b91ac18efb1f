"""Options of `_objects`. Light: the Snakefile reads them, so nothing here imports NumPy."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options

#: Classes of objects, in the order of the channel `probability`.
CLASSES = ("car", "pedestrian", "cyclist", "other")


class ObjectsSection(Options):
    """`_objects`: clusters of lidar points above the ground that move, tracked."""

    still: bool = Field(
        False,
        description="Also give clusters of the size of an object that have never been seen to move, such as parked "
        "cars, and whatever else stands alone. false = only what has moved.",
    )
    max_objects: int = Field(
        64, ge=1, le=1024, description="Places for objects in a sample. If there are more, the nearest ones are kept."
    )
    min_range: float = Field(
        0.5, ge=0, description="Minimum range of a return, m. Nearer returns are of the person who carries the rig."
    )
    max_range: float = Field(50.0, gt=0, description="Maximum range of a return, m.")
    min_height: float = Field(
        0.25, gt=0, description="Points at least this far above the ground belong to objects, m. Kerbs are lower."
    )
    max_height: float = Field(3.5, gt=0, description="Points above this height over the ground are left out, m.")
    min_points: int = Field(
        8, ge=3, description="Minimum number of points of a cluster, at most one of them in each cube of 10 cm."
    )
    min_hits: int = Field(8, ge=3, description="Minimum number of sweeps in which a track has a cluster.")
    min_way: float = Field(
        0.8,
        gt=0,
        description="Minimum distance between two places of a track, m, for its object to have moved. Another view "
        "of something that stands shifts its visible part by less.",
    )
    coast: float = Field(
        1.5, gt=0, description="Longest time for which a track goes on without a cluster, such as behind a pillar, s."
    )
    radar: bool = Field(
        True, description="Use the radial velocities of `_radar_points` where there are some. Tracks begin with lidar."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_range >= self.max_range:
            raise ValueError(f"min_range, {self.min_range} m, must be below max_range, {self.max_range} m")
        if self.min_height >= self.max_height:
            raise ValueError(f"min_height, {self.min_height} m, must be below max_height, {self.max_height} m")
        return self


class ObjectsOptions(ObjectsSection):
    """Options of the step `_objects`."""

    lidar: LidarOptions = LidarOptions()
    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
