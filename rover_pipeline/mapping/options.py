"""Options of the map."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from rover_pipeline.kinematics.options import TimesSection
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options


class MapOptions(Options):
    """The map of a recording: points, occupancy grid and picture. Heights are above the floor."""

    every: int = Field(
        4,
        ge=1,
        description="Use every n-th of the valid sweeps: at 10 Hz a walker sees a place in dozens, so 4 loses next to "
        "nothing.",
    )
    voxel: float = Field(0.05, gt=0.001, le=10, description="Edge of a voxel of map.ply, m: one point each, the mean.")
    max_voxels: int = Field(
        5_000_000, ge=1000, description="Most points in map.ply; the voxel edge doubles until they are no more."
    )
    resolution: float = Field(0.05, gt=0.001, le=10, description="Edge of a cell of the occupancy grid, m.")
    max_cells: int = Field(
        25_000_000, ge=1000, description="Most cells that the grid may span; their edge doubles until it is kept."
    )
    min_range: float = Field(0.5, ge=0, description="Nearer returns are the carrier's own, m.")
    max_range: float = Field(
        40.0, gt=0, description="Farther returns are not used, m: a tenth of a degree is 7 cm there."
    )
    z_min: float = Field(0.3, description="What stands lower above the floor is no obstacle in the grid, m.")
    z_max: float = Field(1.8, gt=0, description="What hangs higher above the floor is no obstacle in the grid, m.")
    lidar_height: float | None = Field(
        None,
        description="Height of the lidar above the floor, m, where its first pose was level; null = the floor is found "
        "in the sweeps.",
    )
    occupied_above: float = Field(
        0.25,
        gt=0,
        lt=1,
        description="A cell is occupied when this share of the sweeps that saw it met something there. Rays graze "
        "walls more often than they meet them, so it is well below one half.",
    )

    @model_validator(mode="after")
    def _bands(self) -> Self:
        if self.z_min >= self.z_max:
            raise ValueError(f"z_min, {self.z_min} m, must be below z_max, {self.z_max} m")
        if self.min_range >= self.max_range:
            raise ValueError(f"min_range, {self.min_range} m, must be below max_range, {self.max_range} m")
        return self


class MapStepOptions(MapOptions):
    """What the step of the map is given."""

    lidar: LidarOptions = LidarOptions()
    times: TimesSection = TimesSection()
