"""Options of the map."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options


class MapOptions(Options):
    """The map of a recording: points, occupancy grid and picture. Heights are above the floor."""

    every: int = Field(
        4,
        ge=1,
        description="Use every n-th of the valid sweeps. At 10 Hz a walking person's lidar observes a surface in "
        "dozens of sweeps, so with 4 hardly anything is lost.",
    )
    voxel: float = Field(
        0.05, gt=0.001, le=10, description="Edge of a voxel, m. map.ply has one point in each, the mean."
    )
    max_voxels: int = Field(
        5_000_000, ge=1000, description="Maximum number of points in map.ply. The voxel edge doubles until it is kept."
    )
    resolution: float = Field(0.05, gt=0.001, le=10, description="Edge of a cell of the occupancy grid, m.")
    max_cells: int = Field(
        25_000_000, ge=1000, description="Maximum number of cells in the grid. Their edge doubles until it is kept."
    )
    min_range: float = Field(
        0.5, ge=0, description="Minimum range of a return, m. Nearer returns are of the person who carries the rig."
    )
    max_range: float = Field(
        40.0, gt=0, description="Maximum range of a return, m. An error of a tenth of a degree is 7 cm there."
    )
    z_min: float = Field(0.3, description="Minimum height of obstacles in the grid above the floor, m.")
    z_max: float = Field(1.8, gt=0, description="Maximum height of obstacles in the grid above the floor, m.")
    lidar_height: float | None = Field(
        None,
        description="Height of the lidar above the floor, m, for a lidar whose first pose is level. null = the floor "
        "is estimated from the sweeps.",
    )
    occupied_above: float = Field(
        0.25,
        gt=0,
        lt=1,
        description="A cell is occupied when at least this fraction of the sweeps that observed it hit something in "
        "it. Rays graze a wall more often than they hit it, so it is well below one half.",
    )

    remove_moving: bool = Field(
        False,
        description="Leave out the returns from within the boxes of `_objects`, which is then made too. false = what "
        "moves leaves traces in map.ply; it is no obstacle in the grid where it is seldom.",
    )

    @model_validator(mode="after")
    def _bands(self) -> Self:
        if self.z_min >= self.z_max:
            raise ValueError(f"z_min, {self.z_min} m, must be below z_max, {self.z_max} m")
        if self.min_range >= self.max_range:
            raise ValueError(f"min_range, {self.min_range} m, must be below max_range, {self.max_range} m")
        return self


class MapStepOptions(MapOptions):
    """Options of the step `_map`."""

    lidar: LidarOptions = LidarOptions()
    times: TimesSection = TimesSection()
